"""Decisions of other routers: tables with named columns (CSV, JSON Lines, Parquet), and dsjson of Vowpal Wabbit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot_orch.codec import decode_json
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.sheet import MISSING, Sheet, sheet_of_csv, sheet_of_parquet

#: What can be imported.
SOURCES = ("csv", "jsonl", "parquet", "dsjson")
#: Columns that are read by these names; ``agent`` is needed.
TABLE_COLUMNS = (
    *("agent", "reward", "propensity", "propensities", "eligible", "features", "decision_id", "task_id", "kind", "by"),
    *("time", "time_us", "elapsed_s", "completed", "reason", "cost_usd"),
)
#: What a table for ``bot-orch arena`` calls them, read where the column of our name is absent.
_ALSO = {"cost_usd": "cost", "elapsed_s": "seconds", "task_id": "task"}
#: Further columns of our own export.
_KNOWN = ("policy", "lambda", "session", "feedbacks", "revisions", "audit_probability", "audited", "names")
_DSJSON = ("_label_cost", "_label_probability", "_label_Action", "_labelIndex", "a", "p", "c", "EventId", "Timestamp")
_FLAGS = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False, "no": False}
_TIME = "write seconds since 1970, or a date such as 2026-01-31T12:00Z"


@dataclass(frozen=True, slots=True)
class ImportPlace:
    """A row of a file, for errors; ``comma`` says that numbers are written with a decimal comma."""

    file: str
    row: int
    _: KW_ONLY
    comma: bool = False

    def error(self, column: str, problem: str, remedy: str) -> InvalidInputError:
        """An error that names file, row, column and remedy."""
        return InvalidInputError(f"{self.file}: row {self.row}: {column}", problem, remedy)

    def wrong(self, column: str, value: Any, remedy: str) -> InvalidInputError:
        """An error about the value of a cell."""
        shown = repr(value)
        return self.error(column, f"is {shown if len(shown) <= 40 else f'{shown[:37]}...'}", remedy)

    def number(self, column: str, value: Any, *, low: float = -math.inf, high: float = math.inf) -> float | None:
        """Parse a finite number within bounds; None for an empty cell."""
        if _empty(value):
            return None
        bounds = "" if low == -math.inf else f", {low:g} or more" if high == math.inf else f" in [{low:g}, {high:g}]"
        try:
            if not isinstance(value, str | int | float):
                raise ValueError
            found = float(value.replace(",", ".") if self.comma and isinstance(value, str) else value)
            if not (math.isfinite(found) and low <= found <= high):
                raise ValueError
        except (ValueError, OverflowError):
            raise self.wrong(column, value, f"write a number{bounds}") from None
        return found

    def flag(self, column: str, value: Any) -> bool | None:
        """Parse a boolean; None for an empty cell."""
        if _empty(value):
            return None
        if (found := _FLAGS.get(str(value).lower())) is None:
            raise self.wrong(column, value, "write true or false")
        return found

    def text(self, column: str, value: Any) -> str:
        """Parse a text; empty if missing. Numbers keep their spelling."""
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.wrong(column, value, "write a text")
        if not str(value).isprintable():
            raise self.wrong(column, value, "remove line breaks and control characters")
        return str(value)

    def time_us(self, column: str, value: Any) -> int | None:
        """Microseconds since 1970, of an ISO date or of seconds."""
        if _empty(value):
            return None
        try:
            seconds = float(value)
        except (ValueError, TypeError, OverflowError):
            try:
                when = value if isinstance(value, datetime) else datetime.fromisoformat(value)
                seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
            except (ValueError, TypeError, OverflowError):
                raise self.wrong(column, value, _TIME) from None
        if not 0.0 <= seconds < 1e11:
            raise self.wrong(column, value, _TIME)
        return round(seconds * 1e6)

    def json(self, column: str, value: Any, wanted: type, remedy: str) -> Any:
        """A value of JSON, or a text that contains one."""
        if isinstance(value, str):
            try:
                value = decode_json(value)
            except ValueError as error:
                raise self.error(column, f"is not JSON ({error})", "repair or remove it") from None
        if not isinstance(value, wanted):
            raise self.wrong(column, value, remedy)
        return value


@dataclass(slots=True)
class ForeignDecision:
    """One decision of another router. Missing values are None or empty; agent names are strings."""

    place: ImportPlace
    agent: str
    _: KW_ONLY
    reward: float | None = None
    propensity: float | None = None
    propensities: dict[str, float] | None = None
    eligible: tuple[str, ...] = ()
    features: tuple[float, ...] | dict[str, float] = ()
    decision_id: str = ""
    task_id: str = ""
    kind: str = ""
    by: str = ""
    time_us: int | None = None
    elapsed_s: float | None = None
    completed: bool = True
    reason: str = ""
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How to read a file.

    Parameters
    ----------
    columns
        Our name of a column, and what the file calls it.
    range_
        The lowest and the highest reward (or cost) of the file; rewards are rescaled to [0, 1].
    agents
        Names of the agents, in the order of the numbers that the file calls them by (dsjson).
    assume_uniform
        Rows without a propensity were drawn uniformly at random.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    range_: tuple[float, float] = (0.0, 1.0)
    _: KW_ONLY
    agents: tuple[str, ...] = ()
    assume_uniform: bool = False

    def __post_init__(self) -> None:
        low, high = self.range_
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInputError("--range", f"is {low:g} {high:g}", "pass the lowest and the highest reward")

    def scaled(self, place: ImportPlace, column: str, value: float | None, *, cost: bool = False) -> float | None:
        """Scale a reward, or with ``cost`` a cost, from the file's range to [0, 1]."""
        if value is None:
            return None
        low, high = self.range_
        if not low <= value <= high:
            remedy = f"pass --range LOW HIGH, the bounds of the {'costs' if cost else 'rewards'}"
            raise place.error(column, f"is {value:g}, outside of {low:g} to {high:g}", remedy)
        return (high - value if cost else value - low) / (high - low)


def read_decisions(
    path: Path, source: str, options: ImportOptions, ignored: dict[str, None]
) -> Iterator[ForeignDecision]:
    """The decisions of a file; names of columns that are not read are added to ``ignored``."""
    if source == "dsjson":
        for place, record in _json_records(path):
            if "_label_cost" in record:  # else a dangling observation, or a decision that is not to be learned from
                ignored.update(dict.fromkeys(name for name in record if name not in _DSJSON))
                yield _of_dsjson(place, record, options)
        return
    records = _json_records(path) if source == "jsonl" else _sheet_records(path, source, options)
    for place, record in records:
        yield _of_row(place, record, options, ignored)


def _empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in MISSING)


def _json_records(path: Path) -> Iterator[tuple[ImportPlace, Mapping[str, Any]]]:
    """Objects, one per line or in one list."""
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    values: Iterator[tuple[int, Any]] = ((n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip())
    if text.lstrip().startswith("["):
        values = enumerate(ImportPlace(path.name, 1).json("line", text, list, "write a list of objects"), 1)
    for number, value in values:
        place = ImportPlace(path.name, number)
        yield place, place.json("line", value, Mapping, "write one object of JSON per line")


def _sheet_records(path: Path, source: str, options: ImportOptions) -> Iterator[tuple[ImportPlace, Mapping[str, Any]]]:
    sheet: Sheet = sheet_of_csv(path) if source == "csv" else sheet_of_parquet(path)
    agent = options.columns.get("agent", "agent")
    if agent not in sheet.columns:
        found = ", ".join(list(sheet.columns)[:20])
        remedy = f"columns found: {found}; pass --map agent=COLUMN"
        raise InvalidInputError(f"{path.name}: row 1: {agent}", "no such column", remedy)
    for number, cells in enumerate(zip(*sheet.columns.values(), strict=True), start=sheet.first_row):
        record = {name: _unquoted(cell) for name, cell in zip(sheet.columns, cells, strict=True)}
        yield ImportPlace(path.name, number, comma=sheet.comma), record


def _unquoted(cell: Any) -> Any:
    """The cell without blanks around it, and without the quote that our export adds before spreadsheet formulas."""
    if not isinstance(cell, str):
        return cell
    cell = cell.strip()
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def _of_row(
    place: ImportPlace, record: Mapping[str, Any], options: ImportOptions, ignored: dict[str, None]
) -> ForeignDecision:
    also = {ours: name for ours, name in _ALSO.items() if ours not in record and name in record}
    mapped = {**{name: name for name in TABLE_COLUMNS}, **also, **options.columns}
    read = set(mapped.values())
    spread = [name for name in record if name.startswith(("feature_", "propensity_")) and name not in read]
    ignored.update(dict.fromkeys(name for name in record if name not in (*read, *spread, *_KNOWN)))
    get = {ours: record.get(theirs) for ours, theirs in mapped.items()}
    if not (agent := place.text(mapped["agent"], get["agent"])):
        raise place.error(mapped["agent"], "is missing", "name the agent that was chosen, or pass --map agent=COLUMN")
    completed, reason = place.flag("completed", get["completed"]), place.text("reason", get["reason"])
    done = not reason if completed is None else completed
    given, micros = place.number(mapped["reward"], get["reward"]), place.number("time_us", get["time_us"], low=0.0)
    return ForeignDecision(
        place,
        agent,
        reward=0.0 if given == 0.0 and not done else options.scaled(place, mapped["reward"], given),
        propensity=place.number("propensity", get["propensity"], low=0.0, high=1.0),
        propensities=_propensities(place, get["propensities"], {name: record[name] for name in spread}),
        eligible=_eligible(place, get["eligible"]),
        features=_features(place, get["features"], {name: record[name] for name in spread}),
        decision_id=place.text("decision_id", get["decision_id"]),
        task_id=place.text("task_id", get["task_id"]),
        kind=place.text("kind", get["kind"]),
        by=place.text("by", get["by"]),
        time_us=place.time_us("time", get["time"] if micros is None else micros / 1e6),
        elapsed_s=place.number("elapsed_s", get["elapsed_s"], low=0.0),
        completed=done,
        reason=reason,
        cost_usd=place.number("cost_usd", get["cost_usd"], low=0.0),
    )


def _propensities(place: ImportPlace, value: Any, spread: Mapping[str, Any]) -> dict[str, float] | None:
    given = {} if _empty(value) else dict(place.json("propensities", value, Mapping, "write an object of JSON"))
    prefix = "propensity_"
    given |= {name.removeprefix(prefix): cell for name, cell in spread.items() if name.startswith(prefix)}
    found = {name: place.number(f"propensity of {name}", cell, low=0.0, high=1.0) for name, cell in given.items()}
    return {name: p for name, p in found.items() if p is not None} or None


def _eligible(place: ImportPlace, value: Any) -> tuple[str, ...]:
    """Names in a list of JSON, or separated by ``|``."""
    if value is None or value == "":
        return ()
    names = value.split("|") if isinstance(value, str) else value
    remedy = "write names separated by |, or a list of JSON"
    return tuple(place.text("eligible", name).strip() for name in place.json("eligible", names, list, remedy))


def _features(place: ImportPlace, value: Any, spread: Mapping[str, Any]) -> tuple[float, ...] | dict[str, float]:
    cells = {name: place.number(name, cell) for name, cell in spread.items() if name.startswith("feature_")}
    if cells:
        return {name: number for name, number in cells.items() if number is not None}
    if value is None or value == "":
        return ()
    if isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{")):
        return dict(_flat(place, "features", place.json("features", value, Mapping, "write an object of JSON")))
    numbers = place.json("features", value, list, "write a list of numbers, an object, or columns feature_NAME")
    found = (place.number("features", each) for each in numbers)
    return tuple(math.nan if number is None else number for number in found)


def _of_dsjson(place: ImportPlace, record: Mapping[str, Any], options: ImportOptions) -> ForeignDecision:
    actions, p = record.get("a"), record.get("p")
    if not (isinstance(actions, list) and isinstance(p, list) and actions and len(actions) == len(p)):
        raise place.error("a, p", "are no two lists of the same length", "write the ranked actions and probabilities")
    names = [_action(place, action, options) for action in actions]
    numbers = [place.number("p", value, low=0.0, high=1.0) or 0.0 for value in p]
    label = record.get("_label_Action", record.get("_label_action", actions[0]))
    cost = place.number("_label_cost", record["_label_cost"])
    return ForeignDecision(
        place,
        _action(place, label, options),
        reward=options.scaled(place, "_label_cost", cost, cost=True),
        propensities=dict(zip(names, numbers, strict=True)),
        features=dict(_flat(place, "c", place.json("c", record.get("c") or {}, Mapping, "write an object of JSON"))),
        decision_id=place.text("EventId", record.get("EventId")),
        time_us=place.time_us("Timestamp", record.get("Timestamp")),
    )


def _action(place: ImportPlace, value: Any, options: ImportOptions) -> str:
    name = place.text("a", value)
    if not options.agents:
        return name
    if not (name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= len(options.agents)):
        raise place.wrong("a", name, f"--agents names actions 1 to {len(options.agents)}")
    return options.agents[int(name) - 1]


def _flat(place: ImportPlace, path: str, value: Any, *, depth: int = 0) -> Iterator[tuple[str, float]]:
    """Numbers by their path; a text is a feature that is 1. Names that begin with ``_`` are of actions, or internal."""
    if isinstance(value, Mapping | list) and depth < 20:
        for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            if not str(name).startswith("_"):
                yield from _flat(place, f"{path}.{name}", inner, depth=depth + 1)
    elif isinstance(value, bool | int | float):
        yield path, place.number(path, value) or 0.0
    elif isinstance(value, str) and value:
        yield f"{path}={value}", 1.0
