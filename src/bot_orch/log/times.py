"""Rows of a log by time: their times grow with their numbers."""

from __future__ import annotations

from bot_orch.log.archive.record import archived
from bot_orch.log.log import Log

__all__ = ["first_since"]


def first_since(log: Log, time_us: int) -> int:
    """Number of the first row that is not earlier than a time; one after the last row if all are.

    Rows that were moved to an archive are left out.

    Examples
    --------
    >>> from bot_orch.log.log import Row
    >>> from bot_orch.log.stores.memory import MemoryLog
    >>> log = MemoryLog()
    >>> log.append([Row(1, 10, "k", "", b""), Row(2, 20, "k", "", b""), Row(3, 30, "k", "", b"")])
    >>> log.commit()
    >>> first_since(log, 0), first_since(log, 20), first_since(log, 21), first_since(log, 31)
    (1, 2, 3, 4)
    """
    record = archived(log)
    low, high = 1 if record is None else record.seq + 1, log.last()[0] + 1
    while low < high:
        middle = (low + high) // 2
        row = log.row(middle)
        if row is not None and row.time_us < time_us:
            low = middle + 1
        else:
            high = middle
    return low
