"""A log as a table: one line per decision or per event, as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from bot_orch.arrays import null_for_nan
from bot_orch.core.events import (
    SETTLING,
    AnswerRecord,
    AttemptEnded,
    Censored,
    Configured,
    DecisionMade,
    Event,
    FeedbackGiven,
    TaskRecord,
)
from bot_orch.core.named import columns_of
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.evaluation.rounds import counts_as_zero
from bot_orch.files import write_atomically
from bot_orch.log.log import Log

COLUMNS = (
    *("decision_id", "time_us", "task_id", "kind", "agent", "propensity", "policy", "lambda", "by", "session"),
    *("reward", "elapsed_s", "completed", "reason", "cost_usd", "feedbacks", "revisions"),
)


def decision_rows(log: Log) -> Iterator[dict[str, Any]]:
    """One flat row per decision, with the last reported outcome.

    With features by name, ``names`` are those of the first numbers of ``features``; a category has one per value of
    its hash. A timeout, a failure or silence of the patience has the lowest reward where the router learns it as that.
    """
    rows: dict[str, dict[str, Any]] = {}
    router: Orchestrator | None = None
    named: tuple[str, ...] = ()
    answered: dict[str, float] = {}
    for row in log.read():
        event = row.event()
        if isinstance(event, Configured):
            router = Orchestrator.from_json(event.document)
            named = columns_of(router.settings.names)
        elif isinstance(event, DecisionMade):
            propensity = event.propensity
            early = rows.pop(event.id, None)
            named = columns_of(event.names) or named
            rows[event.id] = _line(event, row.time_us, propensity, named) | (early or {})
        elif isinstance(event, FeedbackGiven):
            line = rows.setdefault(event.decision_id, {})
            _add_feedback(line, event)
            first = event.effect in SETTLING or event.effect == "early"
            if first and router is not None and counts_as_zero(router, event.outcome()):
                line["reward"] = router.reward.range.low
        elif isinstance(event, Censored):
            line = rows.setdefault(event.decision_id, {})
            line.update(elapsed_s=event.elapsed_s, completed=False, reason=event.reason)
            if router is not None and counts_as_zero(router, event.outcome(answered.get(event.decision_id))):
                line["reward"] = router.reward.range.low
        elif isinstance(event, AttemptEnded) and event.decision_id in rows:
            line = rows[event.decision_id]
            line["cost_usd"] = line.get("cost_usd", 0.0) + event.cost_usd
            if event.ending == "completed":
                answered[event.decision_id] = event.elapsed_s
    yield from (line for line in rows.values() if "decision_id" in line)


def event_rows(log: Log) -> Iterator[dict[str, Any]]:
    """Every event as plain values."""
    for row in log.read():
        yield {"seq": row.seq, "time_us": row.time_us, "kind": row.kind} | plain(row.event())


def export(log: Log, path: Path, *, form: str | None = None, events: bool = False) -> int:
    """Write the log to a file, in the format of its suffix unless ``form`` is given; returns the number of lines."""
    kind = form or path.suffix.lstrip(".")
    writers = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}
    if kind not in writers:
        raise InvalidInputError("format", f"is {kind!r}", f"choose one of {', '.join(writers)}")
    if events and kind != "jsonl":
        raise InvalidInputError("format", f"is {kind!r}", "events of all kinds do not fit one table; use jsonl")
    lines = list(event_rows(log) if events else decision_rows(log))
    write_atomically(path, writers[kind](lines))
    return len(lines)


def _line(event: DecisionMade, time_us: int, propensity: float, named: tuple[str, ...]) -> dict[str, Any]:
    return {
        "decision_id": event.id,
        "time_us": time_us,
        "task_id": event.task.id,
        "kind": event.task.kind,
        "agent": event.agent,
        "propensity": None if math.isnan(propensity) else propensity,
        "policy": event.policy,
        "lambda": event.lambda_,
        "by": event.by,
        "session": event.session,
        "cost_usd": 0.0,
        "feedbacks": 0,
        "revisions": 0,
        "propensities": {} if math.isnan(propensity) else _by_agent(event),
        "features": null_for_nan(event.seen()),
        **({"names": named} if named else {}),
        "audit_probability": event.audit_probability,
    }


def _by_agent(event: DecisionMade) -> dict[str, float]:
    return dict(zip(event.agents, event.column("propensity").tolist(), strict=True))


def _add_feedback(line: dict[str, Any], event: FeedbackGiven) -> None:
    if event.effect in ("shown", "outranked"):  # an output alone; the opinion of a judge of lower rank
        return
    if event.audit or not line.get("audited"):  # a judge's opinion does not replace the truth
        told = {"reward": event.reward, "elapsed_s": event.elapsed_s}  # a report of dollars alone takes neither back
        line.update({name: line.get(name) if value is None else value for name, value in told.items()})
        line.update(completed=event.completed, reason=event.reason)
    if event.audit:
        line["audited"] = True
    line["cost_usd"] = line.get("cost_usd", 0.0) + (event.cost_usd or 0.0)
    line["feedbacks"] = line.get("feedbacks", 0) + 1
    line["revisions"] = line.get("revisions", 0) + (event.effect in ("revision", "late"))


def plain(event: Event) -> dict[str, Any]:
    """An event as JSON values, with its fields and numbers by name."""
    values = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
    if isinstance(event, DecisionMade):
        values["numbers"] = {name: null_for_nan(column.tolist()) for name, column in event.columns().items()}
        values["features"] = null_for_nan(event.seen())
        values["claims"] = null_for_nan(event.claim_values())
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, TaskRecord | AnswerRecord):
        return value._asdict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _jsonl(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, allow_nan=False).encode() + b"\n" for line in lines)


def _csv(lines: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in line.items()} for line in lines)
    return out.getvalue().encode()


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _parquet(lines: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", "parquet") from error
    columns = {name: [line.get(name) for line in lines] for name in COLUMNS}
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
