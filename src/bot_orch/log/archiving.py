"""Move old events of a log to Parquet files; they are deleted after the files are verified and on disk.

A service on SQLite runs this module in a subprocess, which copies the rows; the service then deletes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bot_orch.core.events import Noted
from bot_orch.errors import BotOrchError, InvalidInputError, StateFormatError
from bot_orch.log import archive
from bot_orch.log.archive import NOTHING_BEFORE, chained, first_since, parquet, read_rows, read_segment, segments, spans
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import ArchiveRecord, Log, Row
from bot_orch.log.stores.open import check_database, is_url, open_file, open_url
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rewrite import RemovalBusyError, removal
from bot_orch.log.stores.sqlite.log import SqliteLog

BUSY = 75
"""Exit status of the process while another one moves events of the log."""

_CLOSING = frozenset({"queue.answered", "queue.expired", "queue.withdrawn"})
_ROWS, _BATCH = 32_768, 4096  # of a file; removed at once
_NICE = 10


class Job(msgspec.Struct, frozen=True):
    """Arguments of the archiving process."""

    database: str
    folder: str
    before_us: int
    delete: bool


class Moved(msgspec.Struct, frozen=True):
    """Numbers of written and deleted events, and the end of the archive: ``record`` and the state after it, ``base``.

    ``held_by`` is what later events, though they are old, stay in the log for.
    """

    events: int = 0
    removed: int = 0
    record: ArchiveRecord | None = None
    base: bytes = b""
    held_by: str = ""


def move_events(
    database: str | Path,
    folder: Path,
    before_us: int,
    *,
    delete: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Moved:
    """Write events before a time to files, and delete them from the log if ``delete``.

    What a run that was killed has left, this one completes. Refused while a service uses a log in a file, unless the
    events stay. In PostgreSQL the service goes on.
    """
    check_database(database)
    if not is_url(database):
        open_file(database).close()  # fails if the file does not exist, which writing=True would create
    log = open_url(str(database)) if is_url(database) else open_file(database, writing=delete)
    try:
        if not delete:
            return _copy(log, folder, before_us, progress)
        with removal(log) as target:
            moved = _copy(log, folder, before_us, progress)
            if moved.events and moved.record is not None:
                target.note_archive(moved.record, moved.base)
            record, removed = log.archived(), 0
            while record is not None and (dropped := target.drop_archived(record.seq, _BATCH)):
                removed += dropped
            if removed:
                target.compact()
        return msgspec.structs.replace(moved, removed=removed, record=record)
    finally:
        log.close()


def _copy(
    log: SqliteLog | PostgresLog, folder: Path, before_us: int, progress: Callable[[int, int], None] | None
) -> Moved:
    """Copy events to files and replay them; the log is only read.

    Files that an earlier run has left are taken if they hold the same events.
    """
    parquet()
    record = log.archived()
    done = record or ArchiveRecord(0, 0, str(folder.absolute()), NOTHING_BEFORE)
    cut, held_by = _cut(log, before_us)
    if record is not None:
        segments(folder, record)
    if cut <= done.seq:
        return Moved(record=record, held_by=held_by)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob("*.tmp"):
        left.unlink()
    ledger, begun, files = _base(log, record), done.seq, spans(folder)
    _check_others(log, files, done.seq)
    while done.seq < cut:
        known = read_segment(files[done.seq + 1]) if done.seq + 1 in files else None
        last = min(done.seq + _ROWS, cut) if known is None else known.last
        rows = list(_with_keys(log, done.seq, last))
        if known is None:
            digest = archive.write_segment(folder, rows, done.digest).digest
        else:
            digest = chained(done.digest, rows)
            if known.digest != digest or read_rows(known)[0].seq != rows[0].seq:
                raise _foreign(f"{known.path} holds other events than this log")
        for row in rows:
            ledger.take(row)
        done = ArchiveRecord(last, rows[-1].time_us, str(folder.absolute()), digest)
        if progress is not None:
            progress(last - begun, cut - begun)
    return Moved(done.seq - begun, 0, done, ledger.snapshot().body, held_by)


def _cut(log: SqliteLog | PostgresLog, before_us: int) -> tuple[int, str]:
    """The last event to move, and the reason if later ones must stay: an open round or ticket, or the last event."""
    last = log.last()[0]
    old, held = first_since(log, before_us) - 1, [(last, "")]
    for task in fold(log).tasks:
        held += [(row.seq, f"task {task}, which has not ended") for row in log.about(task)[:1]]
    for ticket, (seq, decision) in _open_tickets(log).items():
        begun = min([seq, *(row.seq for row in log.about(decision))])
        held.append((begun, f"ticket {ticket}, which is open"))
    first, why = min(held)
    return min(old, first - 1), why if first <= old else ""


def _open_tickets(log: Log) -> dict[str, tuple[int, str]]:
    """Open tickets of the queue: the number of the first event, and the decision."""
    found: dict[str, tuple[int, str]] = {}
    for row in log.about("queue"):
        event = row.event()
        if isinstance(event, Noted) and event.topic == "queue.opened":
            found[event.ref] = row.seq, str(event.data.get("decision_id", "")).removeprefix("audit-")
        elif isinstance(event, Noted) and event.topic in _CLOSING:
            found.pop(event.ref, None)
    return found


def _base(log: SqliteLog | PostgresLog, record: ArchiveRecord | None) -> Ledger:
    """The state after the archived events; replayed from the files if another release wrote it."""
    base = log.base()
    if record is None or base is None:
        return Ledger()
    try:
        return Ledger.load(base)
    except StateFormatError:
        return fold(archive.whole(log), upto=record.seq, use_snapshot=False)


def _with_keys(log: SqliteLog | PostgresLog, after: int, upto: int) -> Iterator[Row]:
    keys = log.keys_between(after, upto)
    for row in log.read(after):
        if row.seq > upto:
            return
        key, digest = keys.get(row.seq, (None, None))
        yield row._replace(key=key, digest=digest)


def _check_others(log: SqliteLog | PostgresLog, files: dict[int, Path], done: int) -> None:
    """Check that files unknown to the log continue its archive and contain events that it has."""
    for first, path in files.items():
        if first > done:
            last = read_segment(path).last
            if first != done + 1 or last >= log.last()[0]:
                raise _foreign(f"{path} does not follow event {done} of this log")
            done = last


def _foreign(problem: str) -> InvalidInputError:
    return InvalidInputError("FOLDER", problem, "use an empty folder, or that of this log")


def main(given: bytes) -> tuple[int, bytes]:
    """Run a :class:`Job`; returns the exit status and the output: a :class:`Moved`, or the error."""
    job = msgspec.json.decode(given, type=Job)
    try:
        found = move_events(job.database, Path(job.folder), job.before_us, delete=job.delete)
    except RemovalBusyError:
        return BUSY, b""
    except (BotOrchError, OSError) as error:
        return 1, str(error).encode()
    return 0, msgspec.json.encode(found)


if __name__ == "__main__":
    os.nice(_NICE)
    status, answer = main(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer)
    sys.exit(status)
