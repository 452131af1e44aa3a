"""Move old events to an archive: they are removed from the log once the archive has them, verified and on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from bot_orch.log.archive.copying import StoredLog, copy_out, cut_of
from bot_orch.log.archive.record import ArchiveRecord, archived
from bot_orch.log.stores.open import check_database, is_url, open_file, open_url
from bot_orch.log.stores.postgres.archive import removal
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.times import first_since

__all__ = ["Moved", "Removal", "archive", "remove", "removing"]

_BATCH = 4096


class Removal(Protocol):
    """Where archived rows are removed."""

    def note_archive(self, record: ArchiveRecord, base: bytes) -> None:
        """Note that rows up to ``record.seq`` are in an archive; they may be removed from now on."""
        ...

    def drop_archived(self, upto: int, most: int) -> int:
        """Remove rows up to a number that are in an archive, at most so many; returns how many."""
        ...

    def compact(self) -> None:
        """Give the space back."""
        ...


@dataclass(frozen=True, slots=True)
class Moved:
    """How many events were moved, how many were removed from the log, and how far the archive goes.

    ``old`` events of the log are before the time and were not moved; ``held_by`` is what keeps them, if something does.
    """

    events: int
    removed: int
    record: ArchiveRecord | None
    held_by: str = ""
    old: int = 0


def archive(
    database: str | Path,
    folder: Path,
    before_us: int,
    *,
    copy_only: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Moved:
    """Move events before a time to an archive; what a run that was killed has left, this one completes.

    Refused while a service uses a log in a file, unless ``copy_only``, which leaves the log as it is. In PostgreSQL
    the service goes on.
    """
    check_database(database)
    if not is_url(database):
        open_file(database).close()  # fails if the file does not exist, which writing=True would create
    log: StoredLog = open_url(str(database)) if is_url(database) else open_file(database, writing=not copy_only)
    try:
        if copy_only:
            copied = copy_out(log, folder, before_us, progress)
            return (
                _nothing(log, before_us) if copied is None else Moved(copied.events, 0, copied.record, copied.held_by)
            )
        with removing(log) as target:
            copied = copy_out(log, folder, before_us, progress)
            if copied is not None:
                target.note_archive(copied.record, copied.base)
            record = archived(log)
            removed = 0 if record is None else remove(target, record.seq)
            if removed:
                target.compact()
        if copied is None:
            return replace(_nothing(log, before_us), removed=removed, record=record)
        return Moved(copied.events, removed, record, copied.held_by)
    finally:
        log.close()


def _nothing(log: StoredLog, before_us: int) -> Moved:
    """No event was moved; what keeps those that are old."""
    record = archived(log)
    done = 0 if record is None else record.seq
    return Moved(0, 0, None, cut_of(log, before_us)[1], max(0, first_since(log, before_us) - 1 - done))


def remove(target: Removal, upto: int) -> int:
    """Remove archived rows in batches; returns how many."""
    removed = 0
    while dropped := target.drop_archived(upto, _BATCH):
        removed += dropped
    return removed


@contextmanager
def removing(log: StoredLog) -> Iterator[Removal]:
    """Change what a log says of its archive, as the only one who does."""
    if isinstance(log, PostgresLog):
        with removal(log) as target:
            yield target
    else:
        yield log
