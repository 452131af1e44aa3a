"""Remove stored texts from an unused log, archiving them if wanted: inputs and outputs of rounds, texts of the queue.

Nothing is learned from them: a round needs its input until it has ended, a ticket its text until it is closed. Later
they can be emptied, and every decision is still derived as before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot_orch.core.events import DecisionMade, Event, Noted, TaskEnded, TaskSubmitted
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import Log, Row
from bot_orch.log.stores.open import open_unused
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rewrite import removal, rewrite
from bot_orch.log.stores.sqlite.log import SqliteLog

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
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
class TextIndex:
    """Which rounds have ended and which tickets are closed, and to which round a ticket belongs."""

    ended: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    tickets: dict[str, tuple[str, str]] = field(default_factory=dict)  # task and decision by ticket
    names: dict[str, set[str]] = field(default_factory=dict)  # ids of tasks and decisions by the caller's own name

    def waits(self, ids: Set[str]) -> bool:
        """Whether a ticket of one of these rounds is open."""
        opened = ((of, ticket) for ticket, of in self.tickets.items() if ticket not in self.closed)
        return any(not ids.isdisjoint((of[0], of[1].removeprefix("audit-"))) for of, _ in opened)


def stored_texts(log: Log, *, before_us: int | None = None, task: str | None = None) -> Iterator[StoredText]:
    """Texts of finished rounds and closed tickets, in rows before a time, of one task, or both.

    ``task`` is the id of a task or a decision, or the name that the caller gave to the task.
    """
    index = text_index(log)
    wanted = None if task is None else {task} | index.names.get(task, set())
    for row in log.read():
        if before_us is not None and row.time_us >= before_us:
            return
        if row.holds(TaskSubmitted) or row.holds(TaskEnded) or row.holds(Noted):
            found = texts_of(row, row.event(), index, wanted)
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


def text_index(log: Log) -> TextIndex:
    """Read which texts of a log belong to what."""
    index = TextIndex()
    for row in log.read():
        if row.holds(DecisionMade) or row.holds(TaskSubmitted) or row.holds(TaskEnded) or row.holds(Noted):
            _note(index, row.event())
    return index


def _note(index: TextIndex, event: Event) -> None:
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


def texts_of(row: Row, event: Event, index: TextIndex, wanted: Set[str] | None) -> StoredText | None:
    """The texts of a row, if it is of a finished round or a closed ticket, and of a wanted id."""
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


@dataclass(frozen=True, slots=True)
class Purged:
    """Number of rows purged, number of characters removed, and the archive."""

    rows: int
    characters: int
    archive: Path | None = None


def seconds_of(text: str, name: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``.

    Examples
    --------
    >>> seconds_of("30d", "--older-than"), seconds_of("0s", "--older-than")
    (2592000.0, 0.0)
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if found is None:
        raise InvalidInputError(name, f"{text[:40]!r} is no age", "write a number and s, m, h, d or w, such as 30d")
    return float(int(found[1]) * _UNITS_S[found[2]])


def purge(
    path: str | Path, *, before_us: int | None = None, task: str | None = None, archive: Path | None = None
) -> Purged:
    """Empty the texts of a log, see :func:`stored_texts`; refused while a service uses it.

    Numbers, order and keys of rows stay, and so do all decisions and outcomes: replay and evaluation give the same. The
    bytes are overwritten, also in the snapshot and the free pages of the file; in PostgreSQL the tables are rewritten,
    and old write-ahead logs go as the server recycles them. Events that were moved to an archive keep their texts.
    """
    log = open_unused(path)
    try:
        found = list(stored_texts(log, before_us=before_us, task=task))
        ledger = fold(log)
        emptied = _empty_base(log, ledger, before_us, task)
        if not found and not emptied:
            return Purged(0, 0)
        kept = None if archive is None or not found else _archived(archive, found)
        rows = [each.row._replace(body=each.emptied) for each in found]
        rewrite(log, rows)
    finally:
        log.close()
    return Purged(len(found), sum(len(json.dumps(each.texts)) for each in found), kept)


def _empty_base(log: SqliteLog | PostgresLog, ledger: Ledger, before_us: int | None, task: str | None) -> bool:
    """Empty the texts of ended rounds in the state that the archive ends with; whether there were any."""
    record, base = log.archived(), log.base()
    if record is None or base is None or (before_us is not None and record.time_us >= before_us):
        return False
    try:
        state = Ledger.load(base)
    except StateFormatError:
        return False  # another release wrote it: it is never read again
    empty = {
        key: replace(event, input="")
        for key, event in state.tasks.items()
        if key not in ledger.tasks and event.input and (task is None or task in (key, event.task.id))
    }
    if empty:
        state.tasks |= empty
        with removal(log) as target:
            target.note_archive(record, state.snapshot().body)
    return bool(empty)


def _archived(folder: Path, found: list[StoredText]) -> Path:
    """Write the texts to a new file, on disk before anything is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    path = folder / f"texts-{found[0].row.seq}-{found[-1].row.seq}-{now}.jsonl"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for each in found:
            row = each.row
            file.write(
                json.dumps({"seq": row.seq, "time_us": row.time_us, "kind": row.kind, "ref": row.ref, **each.texts})
                + "\n"
            )
        file.flush()
        os.fsync(file.fileno())
    return path
