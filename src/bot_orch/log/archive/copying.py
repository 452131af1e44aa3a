"""Copy the old events of a log to its archive, and fold them: the log is only read, by whomever."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.archive.folder import ArchiveFolder
from bot_orch.log.archive.record import ArchiveRecord, archived, base_of
from bot_orch.log.archive.segments import NOTHING_BEFORE, chained, parquet, read_rows, sync_folder, write_segment
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import Row
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.texts import open_tickets
from bot_orch.log.times import first_since

__all__ = ["BLOCK", "Copied", "StoredLog", "copy_out", "cut_of", "read_state"]

StoredLog = SqliteLog | PostgresLog
BLOCK = 4096  # events move in blocks
_BLOCKS = 8  # per segment
_STATE = "state.bin"


@dataclass(frozen=True, slots=True)
class Copied:
    """How far the archive goes now, and the state after its last event; ``held_by`` is what no event may pass."""

    record: ArchiveRecord
    base: bytes
    events: int
    held_by: str = ""


def copy_out(
    log: StoredLog, folder: Path, before_us: int, progress: Callable[[int, int], None] | None = None
) -> Copied | None:
    """Write events before a time to segments, and the state after them beside; ``None`` if there is nothing to do.

    The log is left as it is. Whole blocks are taken, never the last event, nor events of rounds and tickets that are
    open. Segments that an earlier run has left are taken if they hold the same events.
    """
    parquet()
    record = archived(log)
    done = ArchiveRecord(0, 0, str(folder), NOTHING_BEFORE) if record is None else record
    cut, held_by = cut_of(log, before_us)
    archive = ArchiveFolder(folder)
    if record is not None:
        archive.check(record)
    if cut <= done.seq:
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in folder.glob("*.tmp"):
        left.unlink()
    ledger, begun = _state(log, record, archive), done.seq
    spans = archive.spans()
    _check_rest(log, folder, spans, done.seq)
    while done.seq < cut:
        first, digest, time_us = done.seq + 1, done.digest, 0
        last = spans.get(first) or min(first - 1 + _BLOCKS * BLOCK, cut)
        rows = list(_with_keys(log, done.seq, last))
        if first in spans:
            _check_same(archive, first, last, chained(digest, rows))
            digest = chained(digest, rows)
        else:
            digest = write_segment(folder, rows, digest).digest
        for row in rows:
            ledger.take(row)
            time_us = row.time_us
        done = ArchiveRecord(last, time_us, str(folder.absolute()), digest)
        if progress is not None:
            progress(last - begun, cut - begun)
    base = ledger.to_bytes()
    _write_state(folder, done.digest, base)
    return Copied(done, base, done.seq - begun, held_by)


def read_state(folder: Path, digest: bytes) -> bytes:
    """The state after the last event of an archive, as :func:`copy_out` has left it."""
    found = (folder / _STATE).read_bytes()
    if found[: len(digest)] != digest:
        raise StateFormatError(f"archive: {folder / _STATE} is of other events; archive again")
    return found[len(digest) :]


def cut_of(log: StoredLog, before_us: int) -> tuple[int, str]:
    """The last event to archive, and what keeps later ones, if something does."""
    last = log.last()[0]
    old = min(first_since(log, before_us) - 1, last - 1)
    if old < BLOCK:
        return 0, ""
    held, why = _held(log)
    cut = min(old, held - 1)
    return cut // BLOCK * BLOCK, why if held <= old else ""


def _held(log: StoredLog) -> tuple[int, str]:
    """The first event of an open round or ticket, which a restart reads again, and what it is."""
    found = [(log.last()[0], "the last event")]
    for task in fold(log).tasks:
        found += [(row.seq, f"task {task}, which has not ended") for row in log.about(task)[:1]]
    for ticket, (seq, decision) in open_tickets(log).items():
        begun = min([seq, *(row.seq for row in log.about(decision))])
        found.append((begun, f"ticket {ticket}, which is open"))
    return min(found)


def _state(log: StoredLog, record: ArchiveRecord | None, archive: ArchiveFolder) -> Ledger:
    """The state after the events that are archived; folded from the archive if another release has left it."""
    base, ledger = base_of(log), Ledger()
    if record is None or base is None:
        return ledger
    try:
        return Ledger.from_bytes(base.body)
    except StateFormatError:
        for row in archive.rows(record):
            ledger.take(row)
        return ledger


def _with_keys(log: StoredLog, after: int, upto: int) -> Iterator[Row]:
    keys = log.keys_between(after, upto)
    for row in log.read(after):
        if row.seq > upto:
            return
        key, digest = keys.get(row.seq, (None, None))
        yield row._replace(key=key, digest=digest)


def _check_rest(log: StoredLog, folder: Path, spans: dict[int, int], done: int) -> None:
    """Segments that the log does not know of must go on where its archive ends, and hold events that it has."""
    beyond = {first: last for first, last in spans.items() if last > done}
    expected = done + 1
    for first, last in beyond.items():
        if first != expected or last >= log.last()[0]:
            problem = f"{folder} holds events {first} to {last}, which do not follow event {expected - 1} of this log"
            raise InvalidInputError("FOLDER", problem, "use an empty folder, or that of this log")
        expected = last + 1


def _check_same(archive: ArchiveFolder, first: int, last: int, digest: bytes) -> None:
    found = archive.segment(first, last)
    if found.digest != digest or not read_rows(found):
        problem = f"{found.path} holds other events than this log"
        raise InvalidInputError("FOLDER", problem, "use an empty folder, or that of this log")


def _write_state(folder: Path, digest: bytes, base: bytes) -> None:
    temporary = folder / f"{_STATE}.tmp"
    with open(temporary, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(digest + base)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / _STATE)
    sync_folder(folder)
