"""Texts stored in a log: inputs and outputs of rounds, and texts of the queue of people.

Nothing is learned from them: a round needs its input until it has ended, a ticket its text until it is closed. Later
they can be emptied, and every decision is still derived as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from typing import Any

from bot_orch.core.events import DecisionMade, Event, Noted, TaskEnded, TaskSubmitted
from bot_orch.log.events import encode_event
from bot_orch.log.log import Log, Row

__all__ = ["StoredText", "stored_texts"]

_QUEUE = "queue."
_CLOSING, _REOPENING = frozenset({"queue.sealed", "queue.expired", "queue.withdrawn"}), "queue.adopted"
_WRITTEN = {"queue.opened": ("text", "drafts"), "queue.drafted": ("text",), "queue.answered": ("text", "reason")}


@dataclass(frozen=True, slots=True)
class StoredText:
    """The texts of one row, by field, and the row's body without them."""

    row: Row
    texts: dict[str, Any]
    emptied: bytes


@dataclass(slots=True)
class _Index:
    """Which rounds have ended and which tickets are closed, and to which round a ticket belongs."""

    ended: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    tickets: dict[str, tuple[str, str]] = field(default_factory=dict)  # task and decision by ticket
    names: dict[str, set[str]] = field(default_factory=dict)  # ids of tasks and decisions by the caller's own name


def stored_texts(log: Log, *, before_us: int | None = None, task: str | None = None) -> Iterator[StoredText]:
    """Texts of finished rounds and closed tickets, in rows before a time, of one task, or both.

    ``task`` is the id of a task or a decision, or the name that the caller gave to the task.
    """
    index = _index(log)
    wanted = None if task is None else {task} | index.names.get(task, set())
    for row in log.read():
        if before_us is not None and row.time_us >= before_us:
            return
        if row.holds(TaskSubmitted) or row.holds(TaskEnded) or row.holds(Noted):
            found = _texts(row, row.event(), index, wanted)
            if found is not None:
                yield found


def open_tickets(log: Log) -> dict[str, tuple[int, str]]:
    """Open tickets of the queue: the number of the first event, and the decision."""
    found: dict[str, tuple[int, str]] = {}
    for row in log.about(_QUEUE.rstrip(".")):
        event = row.event()
        if isinstance(event, Noted) and event.topic == "queue.opened":
            found[event.ref] = row.seq, str(event.data.get("decision_id", "")).removeprefix("audit-")
        elif isinstance(event, Noted) and event.topic in _CLOSING:
            found.pop(event.ref, None)
    return found


def _index(log: Log) -> _Index:
    index = _Index()
    for row in log.read():
        if row.holds(DecisionMade) or row.holds(TaskSubmitted) or row.holds(TaskEnded) or row.holds(Noted):
            _note(index, row.event())
    return index


def _note(index: _Index, event: Event) -> None:
    if isinstance(event, TaskEnded):
        index.ended.add(event.id)
    elif isinstance(event, TaskSubmitted | DecisionMade) and event.task.id:
        index.names.setdefault(event.task.id, set()).add(event.id)
    elif isinstance(event, Noted) and event.topic.startswith(_QUEUE):
        if event.topic == "queue.opened":
            index.tickets[event.ref] = (str(event.data.get("task_id", "")), str(event.data.get("decision_id", "")))
        if event.topic in _CLOSING:
            index.closed.add(event.ref)
        elif event.topic == _REOPENING:
            index.closed.discard(event.ref)


def _texts(row: Row, event: Event, index: _Index, wanted: Set[str] | None) -> StoredText | None:
    if isinstance(event, TaskSubmitted | TaskEnded):
        if event.id not in index.ended or (wanted is not None and event.id not in wanted):
            return None
        if isinstance(event, TaskSubmitted):
            texts, body = {"input": event.input}, encode_event(replace(event, input=""))
        else:
            texts, body = {"output": event.output}, encode_event(replace(event, output=""))
        return StoredText(row, texts, body) if any(texts.values()) else None
    if not isinstance(event, Noted) or event.topic not in _WRITTEN or event.ref not in index.closed:
        return None
    of = index.tickets.get(event.ref, ("", ""))
    if (of[0] and of[0] not in index.ended) or (wanted is not None and wanted.isdisjoint((*of, event.ref))):
        return None
    written = {name: event.data[name] for name in _WRITTEN[event.topic] if event.data.get(name)}
    emptied = {name: [] if isinstance(value, list) else "" for name, value in written.items()}
    body = encode_event(replace(event, data={**event.data, **emptied}))
    return StoredText(row, written, body) if written else None
