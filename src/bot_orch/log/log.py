"""Interface of a log: totally ordered rows, appended in groups, durable when ``commit`` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from bot_orch.errors import BotOrchError, StateFormatError
from bot_orch.log.events import Event, decode_event

__all__ = [
    "ArchiveRecord",
    "Log",
    "LogConflictError",
    "LogFencedError",
    "LogInUseError",
    "Row",
    "Snapshot",
]


class Row(NamedTuple):
    """One event as stored.

    ``ref`` is what it is about (a decision or task id), for lookups. ``key`` is a name that may be used once
    (an idempotency key, a feedback id), with ``digest`` telling a repetition from a clash.
    """

    seq: int
    time_us: int
    kind: str
    ref: str
    body: bytes
    key: str | None = None
    digest: bytes | None = None

    def event(self) -> Event:
        """The event itself; an error names the row."""
        try:
            return decode_event(self.body, self.ref)
        except StateFormatError as error:
            raise StateFormatError(f"log: row {self.seq}: {str(error).removeprefix('log: ')}") from error

    def holds(self, type_: type[Event]) -> bool:
        """Whether the event is of this type; the body is not decoded.

        Examples
        --------
        >>> from bot_orch.log.events import TaskEnded, TaskSubmitted
        >>> [Row(2, 2, "task-ended@1", "t", b"").holds(each) for each in (TaskSubmitted, TaskEnded)]
        [False, True]
        """
        return self.kind == type_.kind


class Snapshot(NamedTuple):
    """State after the event ``seq``; the log is the truth, this only saves time."""

    seq: int
    body: bytes


class ArchiveRecord(NamedTuple):
    """Events up to ``seq`` were moved to files in ``folder``; ``digest`` chains all of them."""

    seq: int
    time_us: int
    folder: str
    digest: bytes


class LogConflictError(BotOrchError):
    """A row does not continue the log: its number or its key is taken, or numbers are missing."""


class LogFencedError(BotOrchError):
    """Another process now owns this log; staged rows are not written."""


class LogInUseError(BotOrchError):
    """Another process writes to this log."""


class Log(Protocol):
    """Storage of rows. One writer; readers may be in other threads.

    ``append`` puts a group into an open transaction and is quick; ``commit`` makes everything appended durable and may
    take as long as a disk does. After an error from either, ``rollback`` returns to the last commit.
    """

    @property
    def instant(self) -> bool:
        """Whether ``commit`` never blocks."""
        ...

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows that continue the log, without gaps; a key that is taken is refused here or by the commit."""
        ...

    def commit(self) -> None:
        """Make appended rows durable; may run in another thread than ``append``, but never concurrently."""
        ...

    def rollback(self) -> None:
        """Discard rows appended since the last commit."""
        ...

    def probe(self) -> None:
        """Commit a harmless write; raises while the storage does not work."""
        ...

    def read(self, after: int = 0) -> Iterator[Row]:
        """Committed rows with ``seq > after``, in order."""
        ...

    def about(self, ref: str) -> list[Row]:
        """Committed rows with this ``ref``, in order."""
        ...

    def row(self, seq: int) -> Row | None:
        """One committed row."""
        ...

    def find(self, key: str) -> tuple[int, bytes] | None:
        """(seq, digest) of the committed row that used ``key``."""
        ...

    def last(self) -> tuple[int, int]:
        """(seq, time_us) of the last committed row; (0, 0) of an empty log."""
        ...

    def snapshot(self) -> Snapshot | None:
        """The snapshot that was saved last."""
        ...

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot of committed events, replacing the previous one; may run in any thread."""
        ...

    def archived(self) -> ArchiveRecord | None:
        """The end of the archive (:mod:`bot_orch.log.archive`); None if the log contains all of its events."""
        ...

    def base(self) -> Snapshot | None:
        """The state after the last archived event; None if the log contains all of its events."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
