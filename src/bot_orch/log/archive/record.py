"""What a log knows of its archive: how far it goes, where it is, and the state after its last event."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from bot_orch.log.log import Log, Snapshot

__all__ = ["ArchiveRecord", "archived", "archived_us", "base_of"]


class ArchiveRecord(NamedTuple):
    """Events up to ``seq`` are in ``folder``; ``digest`` chains all of them."""

    seq: int
    time_us: int
    folder: str
    digest: bytes


@runtime_checkable
class _KeepsRecord(Protocol):
    """A log whose beginning may be in an archive."""

    def archived(self) -> ArchiveRecord | None:
        """The record of its archive."""
        ...

    def base(self) -> Snapshot | None:
        """The state after the last event of the archive."""
        ...


def archived(log: Log) -> ArchiveRecord | None:
    """The record of a log's archive; ``None`` if the log has all of its events.

    Examples
    --------
    >>> from bot_orch.log.stores.memory import MemoryLog
    >>> archived(MemoryLog()) is None
    True
    """
    return log.archived() if isinstance(log, _KeepsRecord) else None


def archived_us(log: Log) -> int:
    """The time of the last archived event; 0 if there is none."""
    record = archived(log)
    return 0 if record is None else record.time_us


def base_of(log: Log) -> Snapshot | None:
    """The state after the last archived event; ``None`` if the log has all of its events."""
    return log.base() if isinstance(log, _KeepsRecord) else None
