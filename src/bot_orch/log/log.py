"""A log: totally ordered rows, appended in groups, durable when ``commit`` returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from bot_orch.core.events import Event
from bot_orch.errors import BotOrchError, InvalidInputError, StateFormatError
from bot_orch.log.events import decode_event, encode_event


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

    @classmethod
    def of(
        cls, seq: int, time_us: int, event: Event, ref: str, *, key: str | None = None, digest: bytes | None = None
    ) -> Row:
        """The row that stores an event.

        Examples
        --------
        >>> from bot_orch.core.events import Censored
        >>> row = Row.of(1, 5, Censored("d-1", 1.5, "horizon"), "d-1")
        >>> row.kind, row.event()
        ('censored@1', Censored(decision_id='d-1', elapsed_s=1.5, reason='horizon'))
        """
        return cls(seq, time_us, event.kind, ref, encode_event(event, ref), key, digest)

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
        >>> from bot_orch.core.events import TaskEnded, TaskSubmitted
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


class Wanted(NamedTuple):
    """A lookup: events by keys, rows by refs."""

    keys: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


NOTHING = Wanted()
ARCHIVED = "archived"
"""The kind of a row that used a key and was moved to an archive: only its number and digest are known."""


class Found(NamedTuple):
    """Result of a lookup; unknown keys are omitted."""

    keys: dict[str, Row]
    refs: dict[str, list[Row]]


class Log(ABC):
    """Storage of rows. One writer; readers may be in other threads.

    ``append`` puts a group into an open transaction and is quick; ``commit`` makes everything appended durable and may
    take as long as a disk does. After an error from either, ``rollback`` returns to the last commit. A log that is only
    read refuses all of them.
    """

    #: Whether ``commit`` never blocks.
    instant = False

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows that continue the log, without gaps; a key that is taken is refused here or by the commit."""
        self._refuse()

    def commit(self) -> None:
        """Make appended rows durable; may run in another thread than ``append``, but never concurrently."""
        self._refuse()

    def rollback(self) -> None:
        """Discard rows appended since the last commit."""
        self._refuse()

    def probe(self) -> None:
        """Commit a harmless write; raises while the storage does not work."""
        self._refuse()

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot of committed events, replacing the previous one; may run in any thread."""
        self._refuse()

    @abstractmethod
    def read(self, after: int = 0) -> Iterator[Row]:
        """Committed rows with ``seq > after``, in order."""

    @abstractmethod
    def about(self, ref: str) -> list[Row]:
        """Committed rows with this ``ref``, in order."""

    @abstractmethod
    def row(self, seq: int) -> Row | None:
        """One committed row."""

    @abstractmethod
    def find(self, key: str) -> tuple[int, bytes] | None:
        """(seq, digest) of the committed row that used ``key``."""

    @abstractmethod
    def last(self) -> tuple[int, int]:
        """(seq, time_us) of the last committed row; (0, 0) of an empty log."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The snapshot that was saved last."""

    def look_up(self, wanted: Wanted) -> Found:
        """Committed rows by keys and refs; a row found by its key carries key and digest.

        Examples
        --------
        >>> from bot_orch.log.stores.memory import MemoryLog
        >>> log = MemoryLog()
        >>> log.append([Row(1, 5, "kind", "a", b"", "key", b"digest")])
        >>> log.commit()
        >>> found = log.look_up(Wanted(("key", "other"), ("a", "b")))
        >>> found.keys["key"].digest, list(found.keys), len(found.refs["a"]), found.refs["b"]
        (b'digest', ['key'], 1, [])
        """
        used = {key: known for key in wanted.keys if (known := self.find(key)) is not None}
        rows = {key: self.row(seq) or Row(seq, 0, ARCHIVED, "", b"") for key, (seq, _) in used.items()}
        return Found(
            {key: row._replace(key=key, digest=used[key][1]) for key, row in rows.items()},
            {ref: self.about(ref) for ref in wanted.refs},
        )

    def archived(self) -> ArchiveRecord | None:
        """The end of the archive (:mod:`bot_orch.log.archive`); None if the log contains all of its events."""
        return None

    def base(self) -> Snapshot | None:
        """The state after the last archived event; None if the log contains all of its events."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def _refuse(self) -> NoReturn:
        raise InvalidInputError("log", "was opened to look at", "open it for writing")
