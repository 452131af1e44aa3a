"""Decisions from CSV or JSON Lines with documented columns; a log that ``bot-orch export`` wrote is read as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.importing.foreign import SUCCESS, Foreign, ImportOptions, ImportPlace, Reader, parse_json
from bot_orch.evaluation.sheet import sheet_of_csv

#: Columns that are read by these names; ``agent`` is needed.
TABLE_COLUMNS = (
    *("agent", "reward", "propensity", "propensities", "eligible", "features", "decision_id", "task_id", "kind", "by"),
    *("time", "time_us", "elapsed_s", "completed", "reason", "cost_usd"),
)
#: What a table for ``bot-orch arena`` calls them, read where the column of our name is absent.
_ALSO = {"cost_usd": "cost", "elapsed_s": "seconds", "task_id": "task"}
_PREFIXES = ("feature_", "propensity_")
#: Further columns of our own export.
_KNOWN = ("policy", "lambda", "session", "feedbacks", "revisions", "audit_probability", "audited")


def read_csv(path: Path, options: ImportOptions, reader: Reader) -> Iterator[Foreign]:
    """Read one decision per line; the first line contains the column names."""
    sheet = sheet_of_csv(path)
    _head(path.name, list(sheet.columns), options)
    for number, cells in enumerate(zip(*sheet.columns.values(), strict=True), start=sheet.first_row):
        record = {name: _unquoted(cell.strip()) for name, cell in zip(sheet.columns, cells, strict=True)}
        yield _decision(ImportPlace(path.name, number, comma=sheet.comma), record, options, reader=reader)


def read_jsonl(path: Path, options: ImportOptions, reader: Reader) -> Iterator[Foreign]:
    """Read one object per line, or one list of objects."""
    for place, record in json_records(path):
        yield _decision(place, record, options, reader=reader)


def lines_of(path: Path) -> Iterator[tuple[ImportPlace, str]]:
    """The lines of a text file with their numbers, without their ends."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            yield ImportPlace(path.name, number), line.rstrip("\r\n")


def json_records(path: Path) -> Iterator[tuple[ImportPlace, Mapping[str, Any]]]:
    """Yield objects from lines, from one list, or from the list ``data`` of one object."""
    lines = [(place, line) for place, line in lines_of(path) if line.strip()]
    if lines and (whole := _whole("\n".join(line for _, line in lines))) is not None:
        values = [(ImportPlace(path.name, number), value) for number, value in enumerate(whole, start=1)]
    else:
        values = [(place, place.json("line", line)) for place, line in lines]
    for place, value in values:
        if not isinstance(value, Mapping):
            raise place.error("line", "is no object", "write one object of JSON per line")
        yield place, value


def _whole(text: str) -> list[Any] | None:
    """The records of a file that is a single JSON value."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    if isinstance(value, Mapping) and isinstance(value.get("data"), list):
        value = value["data"]
    return value if isinstance(value, list) else None


def _unquoted(cell: str) -> str:
    """The cell without the quote that our export adds before spreadsheet formulas."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def _head(file: str, names: list[str], options: ImportOptions) -> None:
    agent = options.columns.get("agent", "agent")
    if agent not in names:
        found = ", ".join(names[:20]) or "none"
        remedy = f"columns found: {found}; pass --map agent=COLUMN"
        raise InvalidInputError(f"{file}: row 1: {agent}", "no such column", remedy)


def _decision(place: ImportPlace, record: Mapping[str, Any], options: ImportOptions, *, reader: Reader) -> Foreign:
    also = {ours: name for ours, name in _ALSO.items() if ours not in record and name in record}
    mapped = {**{name: name for name in TABLE_COLUMNS}, **also, **options.columns}
    if options.reward not in (None, SUCCESS):
        mapped["reward"] = str(options.reward)
    read = set(mapped.values())
    spread = [name for name in record if isinstance(name, str) and name.startswith(_PREFIXES) and name not in read]
    reader.ignore(name for name in record if name not in read and name not in spread and name not in _KNOWN)
    get = {ours: record.get(theirs) for ours, theirs in mapped.items()}
    agent = place.text(mapped["agent"], get["agent"])
    if not agent:
        raise place.error(mapped["agent"], "is missing", "name the agent that was chosen, or pass --map agent=COLUMN")
    completed = place.flag("completed", get["completed"])
    reason = place.text("reason", get["reason"])
    done = not reason if completed is None else completed
    if options.reward == SUCCESS:
        reward: float | None = float(done)
    else:
        given = place.number(mapped["reward"], get["reward"])
        reward = 0.0 if given == 0.0 and not done else options.scaled(place, mapped["reward"], given)
    micros = place.number("time_us", get["time_us"], low=0.0, high=1e17)
    return Foreign(
        place,
        agent,
        reward=reward,
        propensity=place.number("propensity", get["propensity"], low=0.0, high=1.0),
        propensities=_propensities(place, get["propensities"], record),
        eligible=_eligible(place, get["eligible"]),
        features=_features(place, get["features"], {name: record[name] for name in spread}),
        decision_id=place.text("decision_id", get["decision_id"]),
        task_id=place.text("task_id", get["task_id"]),
        kind=place.text("kind", get["kind"]),
        by=place.text("by", get["by"]),
        time_us=place.time_us("time", get["time"]) if micros is None else int(micros),
        elapsed_s=place.number("elapsed_s", get["elapsed_s"], low=0.0),
        completed=done,
        reason=reason,
        cost_usd=place.number("cost_usd", get["cost_usd"], low=0.0),
    )


def _propensities(place: ImportPlace, value: Any, record: Mapping[str, Any]) -> dict[str, float] | None:
    given = dict(place.object("propensities", value))
    prefix = "propensity_"
    given |= {name.removeprefix(prefix): cell for name, cell in record.items() if name.startswith(prefix)}
    found = {name: place.number(f"propensity of {name}", cell, low=0.0, high=1.0) for name, cell in given.items()}
    return {name: p for name, p in found.items() if p is not None} or None


def _eligible(place: ImportPlace, value: Any) -> tuple[str, ...]:
    """Names in a list of JSON, or separated by ``|``."""
    if value is None or value == "":
        return ()
    names = value.split("|") if isinstance(value, str) else value
    if not isinstance(names, list):
        raise place.error("eligible", f"is {value!r}", "write names separated by |, or a list of JSON")
    return tuple(place.text("eligible", name).strip() for name in names)


def _features(place: ImportPlace, value: Any, spread: Mapping[str, Any]) -> tuple[float, ...] | dict[str, float]:
    if spread and any(name.startswith("feature_") for name in spread):
        cells = {name: place.number(name, cell) for name, cell in spread.items() if name.startswith("feature_")}
        return {name: number for name, number in cells.items() if number is not None}
    if value is None or value == "":
        return ()
    numbers = place.json("features", value) if isinstance(value, str) else value
    if not isinstance(numbers, list):
        raise place.error("features", f"is {str(value)[:40]!r}", "write a list of numbers, or columns feature_NAME")
    found = [place.number("features", number) for number in numbers]
    if None in found:
        raise place.error("features", "holds an empty entry", "write a number for each feature")
    return tuple(number for number in found if number is not None)
