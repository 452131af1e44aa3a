"""The contract of a log: rows in one order, appended in groups, durable when ``commit`` returns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from bot_orch.errors import BotOrchError, StateFormatError
from bot_orch.log.events import Event, decode_event

__all__ = [
    "Log",
    "LogConflictError",
    "LogFencedError",
    "LogInUseError",
    "PieceKeeper",
    "PieceStore",
    "Row",
    "Snapshot",
    "SnapshotPiece",
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


class SnapshotPiece(NamedTuple):
    """A part of a state, named by the hash of what it holds."""

    digest: bytes
    body: bytes


class Snapshot(NamedTuple):
    """State after the event ``seq``; the log is the truth, this only saves time.

    ``body`` is the state itself, or a list of its pieces (:mod:`bot_orch.log.snapshots`); ``pieces`` are those of
    them that storage lacks.
    """

    seq: int
    body: bytes
    pieces: tuple[SnapshotPiece, ...] = ()


class PieceStore(Protocol):
    """Where the pieces of snapshots are."""

    def missing(self, digests: Collection[bytes]) -> set[bytes]:
        """Those that are not there."""
        ...

    def pieces(self, digests: Collection[bytes]) -> dict[bytes, bytes]:
        """Bodies of those that are there."""
        ...


@runtime_checkable
class PieceKeeper(PieceStore, Protocol):
    """A place for pieces that takes them by themselves, before the snapshot that lists them."""

    def keep(self, pieces: Sequence[SnapshotPiece], kept: Collection[bytes]) -> None:
        """Store pieces, durably; remove all others but ``kept`` and those just stored by somebody else."""
        ...


class LogConflictError(BotOrchError):
    """A row does not continue the log: its number or its key is taken, or numbers are missing."""


class LogFencedError(BotOrchError):
    """Another process owns this log by now; what was staged here is not written."""


class LogInUseError(BotOrchError):
    """Another process writes to this log."""


class Log(PieceStore, Protocol):
    """Storage of rows. One writer; readers may be in other threads.

    ``append`` puts a group into an open transaction and is quick; ``commit`` makes everything appended durable and may
    take as long as a disk does. After an error from either, ``rollback`` returns to the last commit.
    ``folder`` is where pieces of snapshots go, if not into the log.
    """

    folder: PieceKeeper | None

    @property
    def instant(self) -> bool:
        """Whether ``commit`` never waits for anything."""
        ...

    def append(self, rows: Sequence[Row], snapshot: Snapshot | None = None) -> None:
        """Add rows that continue the log, without gaps; a key that is taken is refused here or by the commit.

        With a snapshot its pieces are added, the one before is kept, and older ones go with all pieces of their own.
        """
        ...

    def commit(self) -> None:
        """Make it durable; may be called from another thread than ``append``, never at the same time."""
        ...

    def rollback(self) -> None:
        """Forget what was appended since the last commit."""
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

    def snapshot(self, before: int | None = None) -> Snapshot | None:
        """The newest committed snapshot, or the newest of an event ``seq < before``; its pieces stay in storage."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...
