"""Erase from an unused log: texts of what has ended, or the decisions of a person with all that is personal.

Nothing is learned from texts: a round needs its input until it has ended, a ticket its text until it is closed. Later
they can be emptied, and every decision is still derived as before.

What was learned from an erased decision cannot be derived again. So the log first gets a note with the learned state,
without what the state holds of the erased decisions one by one, and then the rows are emptied. Fold and replay go on
from the note. Decisions between the first erased one and the note are checked like those of another engine: agent,
probabilities and random key. Another engine learns from what is left.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from bot_orch.clock import SystemClock
from bot_orch.core.events import ERASED, DecisionMade, Event, FeedbackGiven, Noted, TaskEnded, TaskRecord, TaskSubmitted
from bot_orch.errors import StateFormatError
from bot_orch.log.archive import replace_segments, rewrite_segments, whole
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import ArchiveRecord, Log, Row
from bot_orch.log.stores.open import open_unused, open_url
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rewrite import removal, rewrite
from bot_orch.log.stores.sqlite.log import SqliteLog

_QUEUE = "queue."
_CLOSING = frozenset({"queue.answered", "queue.expired", "queue.withdrawn"})
_WRITTEN = {"queue.opened": ("text",), "queue.answered": ("text", "reason")}
_SESSION = "session.decision"
_SAID = frozenset({"id", "reasons"})  # of notes about answers: the id that the provider gave, messages of checks
_HELD = {
    "context_codes": "rows of hashed words, of decisions that were not erased",
    "context_rows": "rows of features, of decisions that were not erased",
    "context_claims": "rows of what agents stated, of decisions that were not erased",
    "context_documents": "number of texts by hashed word, erased ones included",
    "context_rarity": "rarity of hashed words, erased texts included",
    "context_meanings": "a projection of hashed words, fitted to all texts",
    "context_middle": "the mean of that projection",
    "context_frame": "medians, means and scales of features, fitted to all",
    "context_axes": "a projection of features, fitted to all",
    "context_origin": "the mean of that projection",
    "theta": "regression weights per agent",
    "inverse": "covariances of these weights",
}


@dataclass(slots=True)
class _TextIndex:
    """Which rounds have ended and which tickets are closed, and to which round a ticket belongs."""

    ended: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    tickets: dict[str, tuple[str, str]] = field(default_factory=dict)  # task and decision by ticket

    def waits(self, ids: Set[str]) -> bool:
        """Whether a ticket of one of these rounds is open."""
        opened = ((of, ticket) for ticket, of in self.tickets.items() if ticket not in self.closed)
        return any(not ids.isdisjoint((of[0], of[1].removeprefix("audit-"))) for of, _ in opened)


def _text_index(log: Log) -> _TextIndex:
    """Read which texts of a log belong to what."""
    index = _TextIndex()
    for row in log.read():
        if row.holds(TaskEnded) or row.holds(Noted):
            _note_text(index, row.event())
    return index


def _note_text(index: _TextIndex, event: Event) -> None:
    if isinstance(event, TaskEnded):
        index.ended.add(event.id)
    elif isinstance(event, Noted) and event.topic.startswith(_QUEUE):
        if event.topic == "queue.opened":
            index.tickets[event.ref] = (str(event.data.get("task_id", "")), str(event.data.get("decision_id", "")))
        if event.topic in _CLOSING:
            index.closed.add(event.ref)


def _without_text(event: Event, index: _TextIndex, wanted: Set[str] | None = None) -> bytes | None:
    """The body without its texts, of a finished round or a closed ticket, of a wanted id; None if there are none."""
    if isinstance(event, TaskSubmitted | TaskEnded):
        if event.id not in index.ended or (wanted is not None and event.id not in wanted):
            return None
        if isinstance(event, TaskSubmitted):
            return encode_event(replace(event, input="")) if event.input else None
        return encode_event(replace(event, output="")) if event.output else None
    if not isinstance(event, Noted) or event.topic not in _WRITTEN or event.ref not in index.closed:
        return None
    of = index.tickets.get(event.ref, ("", ""))
    if (of[0] and of[0] not in index.ended) or (wanted is not None and wanted.isdisjoint((*of, event.ref))):
        return None
    written = [name for name in _WRITTEN[event.topic] if event.data.get(name)]
    return encode_event(replace(event, data={**event.data, **dict.fromkeys(written, "")})) if written else None


def erase_texts(path: str | Path, before_us: int) -> int:
    """Empty the texts of rows before a time, of what has ended; returns their number. Refused while a service uses it.

    Numbers, order and keys of rows stay, and so do all decisions and outcomes: replay and evaluation give the same. The
    bytes are overwritten, also in the snapshot and the free pages of the file; in PostgreSQL the tables are rewritten,
    and old write-ahead logs go as the server recycles them. Events that were moved to an archive keep their texts.
    """
    log = open_unused(path)
    try:
        index, rows = _text_index(log), []
        for row in log.read():
            if row.time_us >= before_us:
                break
            if row.holds(TaskSubmitted) or row.holds(TaskEnded) or row.holds(Noted):
                body = _without_text(row.event(), index)
                rows += [] if body is None else [row._replace(body=body)]
        if _empty_base(log, fold(log), before_us) or rows:
            rewrite(log, rows)
    finally:
        log.close()
    return len(rows)


def _empty_base(log: SqliteLog | PostgresLog, ledger: Ledger, before_us: int) -> bool:
    """Empty the texts of ended rounds in the state that the archive ends with; whether there were any."""
    record, base = log.archived(), log.base()
    if record is None or base is None or record.time_us >= before_us:
        return False
    try:
        state = Ledger.load(base)
    except StateFormatError:
        return False  # another release wrote it: it is never read again
    ended = {key: event for key, event in state.tasks.items() if key not in ledger.tasks and event.input}
    if ended:
        state.tasks |= {key: replace(event, input="") for key, event in ended.items()}
        with removal(log) as target:
            target.note_archive(record, state.snapshot().body)
    return bool(ended)


class Subject(NamedTuple):
    """Whose decisions: of a user, before a time, or both.

    A user's are those whose session is the user, and those with the tag ``USER`` or ``user:USER``.
    """

    user: str | None = None
    before_us: int | None = None

    def made(self, row: Row, event: DecisionMade) -> bool:
        """Whether a decision is of the subject."""
        if self.before_us is not None and row.time_us >= self.before_us:
            return False
        if self.user is None:
            return True
        return event.session == self.user or not {self.user, f"user:{self.user}"}.isdisjoint(event.tags)


@dataclass(slots=True)
class Erased:
    """Number of events by kind, of decisions that stay because they are open, and what the state still holds."""

    events: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    held: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)


@dataclass(slots=True)
class _Found:
    """Erased decisions with their rounds, all ids that belong to them, and the emptied rows."""

    decisions: dict[str, int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    first: int = 0
    kept: int = 0


def erase(path: str | Path, subject: Subject) -> Erased:
    """Erase the ended decisions of a subject, with their reports and tasks; refused while a service uses the log."""
    log = open_unused(path)
    try:
        record = log.archived()
        if record is not None:
            replace_segments(Path(record.folder), record)  # of a run that was killed
        ledger = fold(log)
        found = _find(whole(log), ledger, subject)
        if not found.rows:
            return Erased(kept=found.kept, held=held(ledger))
        ledger.forget(found.decisions, found.sessions)
        _append(log, path, _note(log, ledger, found))
        end = 0 if record is None else record.seq
        rows, keys = [row for row in found.rows if row.seq > end], [row.seq for row in found.rows]
        rewrite(log, rows, keys)
        if record is not None and len(rows) < len(found.rows):
            _rewrite_archive(log, record, {row.seq: row for row in found.rows if row.seq <= end})
    finally:
        log.close()
    return Erased(Counter(row.kind for row in found.rows), found.kept, held(ledger))


def _rewrite_archive(log: SqliteLog | PostgresLog, record: ArchiveRecord, changed: Mapping[int, Row]) -> None:
    """Empty rows in the files of the archive; the state that it ends with goes, the note's is newer."""
    folder = Path(record.folder)
    end = rewrite_segments(folder, record, changed)
    with removal(log) as target:
        target.note_archive(end, b"")
    rewrite(log, [])  # in a file it overwrites the old state in free pages
    replace_segments(folder, end)


def held(ledger: Ledger) -> list[tuple[str, tuple[int, ...], str]]:
    """The learned arrays by name, with their shapes and what they are."""
    if not ledger.configured:
        return []
    parts = ledger.router.capture().state.parts
    return [
        (f"{part}.{name}", array.shape, _HELD.get(name, "sums, counts or settings"))
        for part, arrays in parts.items()
        for name, array in arrays.items()
    ]


def _find(log: Log, ledger: Ledger, subject: Subject) -> _Found:
    found, index = _Found(), _text_index(log)
    for row in log.read():
        if row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade) and subject.made(row, event):
                _take(found, ledger, index, event=event)
    for row in log.read():
        event = row.event()
        emptied = _emptied(row, event, found, index=index)
        if emptied is not None and emptied[1:5] != row[1:5]:
            found.rows.append(emptied)
            found.first = found.first or row.seq
    return found


def _take(found: _Found, ledger: Ledger, index: _TextIndex, *, event: DecisionMade) -> None:
    """Note a decision of the subject, unless its outcome or its round is still open."""
    known = {event.id, event.round, event.task_ref or ""} - {""}
    if event.id in ledger.pending or not known.isdisjoint(ledger.tasks) or index.waits(known):
        found.kept += 1
        return
    if event.engine == ERASED:
        return
    found.decisions[event.id] = event.counter + 1
    found.ids |= known | {f"audit-{event.id}"}
    found.sessions |= {event.session} if event.session else set()


def _emptied(row: Row, event: Event, found: _Found, *, index: _TextIndex) -> Row | None:
    """The row without what is personal; None if it is of somebody else."""
    if isinstance(event, DecisionMade) and event.id in found.decisions:
        blank = bytes(len(event.features))
        task = TaskRecord(kind=event.task.kind, features=(0.0,) * len(event.task.features))
        less = replace(event, task=task, features=blank, claims=b"", session=None, tags=(), engine=ERASED)
        return row._replace(body=encode_event(less, row.ref))
    if isinstance(event, FeedbackGiven) and event.decision_id in found.decisions:
        return row._replace(body=encode_event(replace(event, id="", output=None), row.ref))
    if isinstance(event, TaskSubmitted) and event.id in found.ids and event.id in index.ended:
        return row._replace(body=encode_event(replace(event, task=TaskRecord(kind=event.task.kind), input="")))
    if isinstance(event, TaskEnded) and event.id in found.ids:
        return row._replace(body=encode_event(replace(event, output="", error="")))
    if isinstance(event, Noted) and event.topic == _SESSION and event.data.get("decision") in found.decisions:
        return row._replace(ref="", body=encode_event(Noted(_SESSION, "")))
    if isinstance(event, Noted) and event.ref in found.decisions and not _SAID.isdisjoint(event.data):
        data = {name: "" if name in _SAID else value for name, value in event.data.items()}
        return row._replace(body=encode_event(replace(event, data=data)))
    if isinstance(event, Noted) and event.topic == ERASED and found.decisions:
        return row._replace(body=encode_event(replace(event, data={**event.data, "state": ""})))
    body = _without_text(event, index, found.ids)
    return None if body is None else row._replace(body=body)


def _note(log: SqliteLog | PostgresLog, ledger: Ledger, found: _Found) -> Row:
    """The note that fold and replay go on from."""
    last, time_us = log.last()
    notes = (row.event() for row in whole(log).about(ERASED))
    firsts = [int(each.data["first"]) for each in notes if isinstance(each, Noted)]
    state = base64.b85encode(ledger.snapshot().body).decode()
    data: dict[str, Any] = {"first": min([found.first, *firsts]), "decisions": len(found.decisions), "state": state}
    return Row.of(last + 1, max(time_us + 1, SystemClock().now_us()), Noted(ERASED, ERASED, data), ERASED)


def _append(log: SqliteLog | PostgresLog, path: str | Path, row: Row) -> None:
    if isinstance(log, SqliteLog):
        log.append([row])
        log.commit()
        return
    with closing(open_url(str(path), writing=True)) as writer:
        writer.append([row])
        writer.commit()
