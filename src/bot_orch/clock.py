"""Clocks for dependency injection; no other module reads the system time."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "MonotoneStamp", "SteadyClock", "SystemClock"]


class Clock(Protocol):
    """A source of wall time in microseconds since the Unix epoch."""

    def now_us(self) -> int:
        """Current time; it may jump forwards or backwards."""
        ...


class SystemClock:
    """The system wall clock."""

    def now_us(self) -> int:
        """Current system time."""
        return time.time_ns() // 1000


class SteadyClock:
    """A monotonic clock that starts at the current wall time; use it to measure durations."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Monotonic time since construction, plus the wall time at construction."""
        return (self._offset_ns + time.monotonic_ns()) // 1000


class ManualClock:
    """A clock for tests and simulations; only :meth:`advance` moves it.

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
        """The time last set."""
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Add ``seconds``, which may be negative."""
        self._now_us += round(seconds * 1e6)


class MonotoneStamp:
    """Strictly increasing timestamps, even if the wall clock jumps backwards.

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
        """Return the current time, or the last timestamp plus 1 us if that is later."""
        self.last_us = max(self.last_us + 1, self._clock.now_us())
        return self.last_us
