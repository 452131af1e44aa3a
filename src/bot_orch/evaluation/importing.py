"""Import decisions of other routers: tables (CSV, JSON Lines, Parquet), and dsjson of Vowpal Wabbit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.codec import decode_json
from bot_orch.core.events import IMPORTED, Configured, Event, FeedbackGiven, TaskRecord
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError, MissingFileError
from bot_orch.evaluation.cells import Kind, is_missing, numbers_of
from bot_orch.evaluation.sheet import Sheet, sheet_of_csv, sheet_of_parquet
from bot_orch.evaluation.tables import DecisionTable, check_range, flat, read_decisions, texts
from bot_orch.log.log import Log, Row
from bot_orch.types import Outcome, RewardRange, Task

#: What can be imported.
SOURCES = ("csv", "jsonl", "parquet", "dsjson")
#: Columns that are read by these names; ``agent`` is needed. Also ``propensity_NAME`` and ``feature_NAME``.
TABLE_COLUMNS = (
    *("agent", "reward", "propensity", "propensities", "eligible", "features", "decision_id", "task_id", "kind", "by"),
    *("time", "time_us", "elapsed_s", "completed", "reason", "cost_usd"),
)
#: What a table for ``bot-orch arena`` calls them, read where the column of our name is absent.
_ALSO = {"cost_usd": "cost", "elapsed_s": "seconds", "task_id": "task"}
#: Further columns of our own export.
_KNOWN = ("policy", "lambda", "session", "feedbacks", "revisions", "audit_probability", "audited", "names")
_DSJSON = ("_label_cost", "_label_probability", "_label_Action", "_labelIndex", "a", "p", "c", "EventId", "Timestamp")
_TIME = "write seconds since 1970, or a date such as 2026-01-31T12:00Z"
_MOST_AGENTS = 200


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Summary of an import: number of decisions, agents, rewards and propensities; columns that were not read."""

    decisions: int
    agents: tuple[str, ...]
    rewards: int
    _: KW_ONLY
    propensities: int
    ignored: tuple[str, ...] = ()


def import_log(
    path: Path,
    source: str,
    log: Log,
    *,
    columns: Mapping[str, str] | None = None,
    agents: Sequence[str] = (),
    reward_range: tuple[float, float] = (0.0, 1.0),
    assume_uniform: bool = False,
) -> ImportSummary:
    """Read a file of another router and append it to an empty log.

    Parameters
    ----------
    path, source
        The file, and its format: one of :data:`SOURCES`.
    log
        Where to write; committed at the end.
    columns
        Our name of a column, and what the file calls it.
    agents
        Names of the agents; of dsjson in the order of the numbers that the file calls them by.
    reward_range
        The lowest and the highest reward (or cost) of the file; rewards are rescaled to [0, 1].
    assume_uniform
        Rows without a propensity were drawn uniformly at random.
    """
    if source not in SOURCES:
        raise InvalidInputError("--from", f"is {source!r}", f"choose one of {', '.join(SOURCES)}")
    if not path.is_file():
        raise MissingFileError("FILE", f"{path} is no file", "pass the file to import")
    if log.last()[0]:
        raise InvalidInputError("--out", "holds events already", "name a new log")
    known = check_range(reward_range)
    given, ignored = _sheet_of(path, source, agents, known)
    sheet = _by_our_names(given, columns or {})
    done, rewards = _completed(sheet), _optional(sheet, "reward")
    failed = ~done & (rewards == 0.0)  # a failure is often written as 0, whatever the range
    sheet = replace(sheet, columns={**sheet.columns, "reward": np.where(failed, known.low, rewards)})
    table = read_decisions(sheet, agents, reward_range, assume_uniform=assume_uniform)
    if len(table.agents) > _MOST_AGENTS:
        problem = f"has {len(table.agents)} different values"
        raise InvalidInputError(sheet.place("agent"), problem, "name the column of the agents: --map agent=COLUMN")
    log.append(list(_rows(sheet, table, done)))
    log.commit()
    read = {name for name in sheet.columns if _is_read(name, sheet, table.agents)}
    used = {sheet.theirs.get(name, name) for name in read}
    unread = [name for name in given.columns if name not in used]
    told = int(np.isfinite(table.decisions.propensities).all(axis=1).sum())
    scored = table.requests - table.missing
    return ImportSummary(table.requests, table.agents, scored, propensities=told, ignored=(*ignored, *unread))


def _sheet_of(path: Path, source: str, agents: Sequence[str], known: RewardRange) -> tuple[Sheet, tuple[str, ...]]:
    """The cells of a file, and what is not read of it."""
    if source == "dsjson":
        return _sheet_of_dsjson(path, agents, known)
    return {"csv": sheet_of_csv, "jsonl": _sheet_of_jsonl, "parquet": sheet_of_parquet}[source](path), ()


def _by_our_names(sheet: Sheet, columns: Mapping[str, str]) -> Sheet:
    """The columns that may be read: those that are mapped, and others by their own names."""
    also = {
        ours: theirs
        for ours, theirs in _ALSO.items()
        if theirs in sheet.columns and ours not in {**sheet.columns, **columns} and theirs not in columns.values()
    }
    renamed = sheet.renamed({**also, **columns})
    found = {name: cells for name, cells in renamed.columns.items() if not name.startswith("expected")}
    return replace(renamed, columns=found)


def _is_read(name: str, sheet: Sheet, agents: tuple[str, ...]) -> bool:
    if name.startswith("propensity_"):
        return "propensity" not in sheet.theirs and name.removeprefix("propensity_") in agents
    return name in (*TABLE_COLUMNS, *_KNOWN) or name.startswith("feature_")


def _optional(sheet: Sheet, column: str, kind: Kind = "number") -> Floats:
    """Numbers, NaN where missing."""
    return numbers_of(sheet, column, kind) if column in sheet.columns else np.full(sheet.n_rows, np.nan)


def _completed(sheet: Sheet) -> Bools:
    """Which decisions got an answer: told as such, or without a reason why not."""
    told, reasons = _optional(sheet, "completed", "flag"), np.array(texts(sheet, "reason"), dtype=str)
    found: Bools = np.where(np.isnan(told), reasons == "", told == 1.0)
    return found


def _rows(sheet: Sheet, table: DecisionTable, done: Bools) -> Iterator[Row]:
    """The rows of a log, with times that increase."""
    time_us = 0
    for seq, (event, ref, told_us) in enumerate(_events(sheet, table, done), 1):
        time_us = max(told_us, time_us + 1)
        yield Row.of(seq, time_us, event, ref)


def _events(sheet: Sheet, table: DecisionTable, done: Bools) -> Iterator[tuple[Event, str, int]]:
    """Settings, then decisions with their outcomes, in the order of their times if all have one."""
    ids, times = _ids(sheet), _times(sheet)
    task_ids, kinds, by, reasons = (texts(sheet, name) for name in ("task_id", "kind", "by", "reason"))
    spent = (_optional(sheet, name, "amount") for name in ("elapsed_s", "cost_usd"))
    numbers = [table.range.unit(table.decisions.reward), *spent]
    order = range(len(ids)) if 0 in times else sorted(range(len(ids)), key=times.__getitem__)
    settings = Orchestrator(table.agents, ids="derived").to_json()
    yield Configured(settings, engine=IMPORTED), "", (times[order[0]] or 1) - 1
    for number, row in enumerate(order):
        reason = None if done[row] else reasons[row] or "failed"
        try:
            asked = Task(task_ids[row] or ids[row], kinds[row])
            told = _feedback(number, ids[row], reason, *(_known(column[row]) for column in numbers))
        except InvalidInputError as error:
            field = sheet.place(error.field.removeprefix("outcome."), row)
            raise InvalidInputError(field, error.problem, error.remedy) from None
        task = TaskRecord(asked.id, asked.kind)
        yield table.event(row, ids[row], task, by=by[row] or "policy", number=number), ids[row], times[row]
        if told is not None:
            yield told, ids[row], times[row]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _feedback(
    number: int, id_: str, reason: str | None, reward: float | None, elapsed_s: float | None, cost_usd: float | None
) -> FeedbackGiven | None:
    """The outcome of a decision, if the row tells one."""
    done = reason is None
    if done and reward is None and elapsed_s is None:
        return None
    Outcome(done, reward, elapsed_s, reason, None, cost_usd)  # checks them
    effect = "noted" if reward is None else "learned"
    return FeedbackGiven(f"import-{number}", id_, effect, reward, elapsed_s, done, reason, cost_usd=cost_usd)


def _ids(sheet: Sheet) -> list[str]:
    """Ids from the file, or row numbers; an error names the second use of an id."""
    seen: dict[str, int] = {}
    for row, id_ in enumerate(texts(sheet, "decision_id")):
        name = id_ or f"row-{row + sheet.first_row}"
        if name in seen:
            problem = f"{name[:60]!r} is that of row {seen[name] + sheet.first_row}"
            raise InvalidInputError(sheet.place("decision_id", row), problem, "write each decision once")
        seen[name] = row
    return list(seen)


def _times(sheet: Sheet) -> list[int]:
    """Microseconds since 1970, of ISO dates, seconds or microseconds; 0 if missing."""
    micros = _optional(sheet, "time_us", "amount")
    told = zip(sheet.columns.get("time", [None] * sheet.n_rows), micros.tolist(), strict=True)
    return [_time(sheet, row, cell if math.isnan(us) else us / 1e6) for row, (cell, us) in enumerate(told)]


def _time(sheet: Sheet, row: int, cell: Any) -> int:
    if is_missing(cell):
        return 0
    try:
        seconds = float(cell)
    except (ValueError, TypeError, OverflowError):
        try:
            when = cell if isinstance(cell, datetime) else datetime.fromisoformat(cell)
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError):
            seconds = -1.0
    if not 0.0 <= seconds < 1e11:
        raise InvalidInputError(sheet.place("time", row), f"is {str(cell)[:40]!r}", _TIME)
    return round(seconds * 1e6)


def _records(path: Path) -> list[Mapping[str, Any]]:
    """Objects, one per line or in one list."""
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    if text.lstrip().startswith("["):
        found = list(enumerate(_json(path, 1, text), 1))
    else:
        found = [(n, _json(path, n, line)) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, value in found:
        if not isinstance(value, Mapping):
            problem = f"is {str(value)[:40]!r}"
            raise InvalidInputError(f"{path.name}: row {number}", problem, "write one object of JSON per line")
    if not found:
        raise InvalidInputError(path.name, "holds no decision", "write one object of JSON per line")
    return [value for _, value in found]


def _json(path: Path, number: int, text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        raise InvalidInputError(f"{path.name}: row {number}", f"is not JSON ({error})", "repair or remove it") from None


def _sheet_of_jsonl(path: Path) -> Sheet:
    return _sheet(path, _records(path))


def _sheet(path: Path, records: Sequence[Mapping[str, Any]]) -> Sheet:
    names = dict.fromkeys(name for record in records for name in record)
    return Sheet(path.name, {name: [record.get(name) for record in records] for name in names}, first_row=1)


def _sheet_of_dsjson(path: Path, agents: Sequence[str], known: RewardRange) -> tuple[Sheet, tuple[str, ...]]:
    """The decisions with a label, in our columns, and the names that are not read.

    Others are dangling observations, or decisions that are not to be learned from.
    """
    records = [record for record in _records(path) if "_label_cost" in record]
    if not records:
        raise InvalidInputError(path.name, "holds no decision", "pass a file of dsjson with decisions")
    sheet, low, high = _sheet(path, records), known.low, known.high
    cost = numbers_of(sheet, "_label_cost", "number")
    for row in np.flatnonzero((cost < low) | (cost > high)):
        problem, remedy = f"is {cost[row]:g}, outside of {low:g} to {high:g}", "pass --range LOW HIGH, of the costs"
        raise InvalidInputError(sheet.place("_label_cost", int(row)), problem, remedy)
    ranked = [_ranked(sheet, row, record, agents) for row, record in enumerate(records)]
    columns: dict[str, Any] = {
        "agent": [agent for agent, _ in ranked],
        "reward": low + high - cost,
        "propensities": [p for _, p in ranked],
        "features": [dict(flat("c", record.get("c") or {})) for record in records],
        "decision_id": [record.get("EventId") for record in records],
        "time": [record.get("Timestamp") for record in records],
    }
    ignored = tuple(name for name in sheet.columns if name not in _DSJSON)
    return replace(sheet, columns=columns), ignored


def _ranked(sheet: Sheet, row: int, record: Mapping[str, Any], agents: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The action that was chosen, and the probabilities of all."""
    actions, p = record.get("a"), record.get("p")
    if not (isinstance(actions, list) and isinstance(p, list) and actions and len(actions) == len(p)):
        remedy = "write the ranked actions and probabilities"
        raise InvalidInputError(sheet.place("a, p", row), "are no two lists of the same length", remedy)
    chosen, *names = (
        _action(sheet, row, action, agents)
        for action in (record.get("_label_Action", record.get("_label_action", actions[0])), *actions)
    )
    return chosen, dict(zip(names, p, strict=True))


def _action(sheet: Sheet, row: int, value: Any, agents: Sequence[str]) -> str:
    name = str(value)
    if not agents:
        return name
    if not (name.isascii() and name.isdigit() and 1 <= int(name[:9]) <= len(agents)):
        raise InvalidInputError(
            sheet.place("a", row), f"is {name[:40]!r}", f"--agents names actions 1 to {len(agents)}"
        )
    return agents[int(name) - 1]
