"""Time, handed in: the only place that asks the operating system what time it is."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "MonotoneStamp", "SteadyClock", "SystemClock"]


class Clock(Protocol):
    """Wall time in microseconds since 1970."""

    def now_us(self) -> int:
        """The time now; it may jump, as wall clocks do."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_us(self) -> int:
        """The time now."""
        return time.time_ns() // 1000


class SteadyClock:
    """The machine's wall time when it was made, and from then on seconds that never jump: for measuring how long."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """The time now."""
        return (self._offset_ns + time.monotonic_ns()) // 1000


class ManualClock:
    """A clock that moves when told.

    Examples
    --------
    >>> clock = ManualClock(5)
    >>> clock.advance(2.0)
    >>> clock.now_us()
    2000005
    """

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = now_us

    def now_us(self) -> int:
        """The time now."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move forward, or backward with a negative number."""
        self._now_us += round(seconds * 1e6)


class MonotoneStamp:
    """Stamps that never repeat nor run backwards, whatever the wall clock does.

    Examples
    --------
    >>> clock = ManualClock(100)
    >>> stamp = MonotoneStamp(clock)
    >>> stamp(), stamp()
    (100, 101)
    >>> clock.advance(-1.0)
    >>> stamp()
    102
    """

    def __init__(self, clock: Clock, last_us: int = 0) -> None:
        self._clock = clock
        self.last_us = last_us

    def __call__(self) -> int:
        """The next stamp."""
        self.last_us = max(self.last_us + 1, self._clock.now_us())
        return self.last_us
