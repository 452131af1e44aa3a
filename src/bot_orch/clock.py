"""Clocks for dependency injection; no other module reads the system time.

A clock tells wall time, which may jump, and elapsed time, which may not. Events are stamped with :class:`ServiceTime`:
it starts at the wall time, or at the last event if that is later, and then advances with elapsed time.
"""

from __future__ import annotations

import re
import time
from typing import Protocol

from bot_orch.errors import InvalidInputError

_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the latter stands still in a suspended machine
_DRIFT_US = 1_000_000
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


class Clock(Protocol):
    """A source of wall time and of elapsed time, in microseconds."""

    def now_us(self) -> int:
        """Current time since the Unix epoch; it may jump forwards or backwards."""
        ...

    def elapsed_us(self) -> int:
        """Monotonic time since an arbitrary moment."""
        ...


class SystemClock:
    """The system wall clock."""

    def now_us(self) -> int:
        """Current system time."""
        return time.time_ns() // 1000

    def elapsed_us(self) -> int:
        """Time since the machine was started, also while it was suspended."""
        return time.clock_gettime_ns(_ELAPSED) // 1000


class SteadyClock:
    """A monotonic clock that starts at the current wall time; use it to measure durations."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_us(self) -> int:
        """Monotonic time since construction, plus the wall time at construction."""
        return (self._offset_ns + time.monotonic_ns()) // 1000

    def elapsed_us(self) -> int:
        """The same."""
        return self.now_us()


class ManualClock:
    """A clock for tests and simulations; only :meth:`advance` and :meth:`jump` move it.

    Examples
    --------
    >>> clock = ManualClock(5)
    >>> clock.advance(2.0)
    >>> clock.now_us()
    2000005
    """

    def __init__(self, now_us: int = 1_700_000_000_000_000) -> None:
        self._now_us, self._elapsed_us = now_us, 0

    def now_us(self) -> int:
        """The time last set."""
        return self._now_us

    def elapsed_us(self) -> int:
        """The sum of all advances."""
        return self._elapsed_us

    def advance(self, seconds: float) -> None:
        """Advance by ``seconds``; a negative number sets the wall time back."""
        self.jump(seconds)
        self._elapsed_us += max(0, round(seconds * 1e6))

    def jump(self, seconds: float) -> None:
        """Set the wall time forwards or backwards; no time passes."""
        self._now_us += round(seconds * 1e6)


class ServiceTime:
    """Strictly increasing timestamps that advance with elapsed time, whatever the wall clock does.

    A log whose last event is ahead of the wall clock (one start had a wrong clock) is continued from that event on, at
    the rate of elapsed time, so that horizons, leases and budgets go on. A jump of the wall clock is not followed; a
    drift of the wall clock, less than a second ahead, is.

    Parameters
    ----------
    clock
        Wall and elapsed time.
    last_us
        The last timestamp of the log.

    Examples
    --------
    >>> clock = ManualClock(100)
    >>> stamp = ServiceTime(clock)
    >>> stamp(), stamp()
    (100, 101)
    >>> clock.advance(-1.0)
    >>> stamp()
    102
    >>> clock.advance(5e-6)
    >>> stamp()
    105
    """

    def __init__(self, clock: Clock, last_us: int = 0) -> None:
        self._clock, self.last_us = clock, last_us
        self._offset_us = max(clock.now_us(), last_us) - clock.elapsed_us()

    @property
    def ahead_us(self) -> int:
        """How far the service's time is ahead of the wall clock; negative if it is behind."""
        return self.now_us() - self._clock.now_us()

    def now_us(self) -> int:
        """The current time, never before the last timestamp."""
        now_us, wall_us = self._clock.elapsed_us() + self._offset_us, self._clock.now_us()
        if 0 < wall_us - now_us < _DRIFT_US:
            self._offset_us += wall_us - now_us
            now_us = wall_us
        return max(now_us, self.last_us)

    def __call__(self) -> int:
        """A new timestamp: the current time, or the last timestamp plus 1 us if that is later."""
        self.last_us = max(self.last_us + 1, self.now_us())
        return self.last_us

    def reach(self, time_us: int) -> None:
        """Advance to ``time_us``, the time of another writer's event, if that is later than now."""
        self._offset_us += max(0, time_us - self.now_us())
        self.last_us = max(self.last_us, time_us)


def seconds_of(text: str, name: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``.

    Examples
    --------
    >>> seconds_of("30d", "--before"), seconds_of("0s", "--before")
    (2592000.0, 0.0)
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if found is None:
        raise InvalidInputError(name, f"{text[:40]!r} is no age", "write a number and s, m, h, d or w, such as 30d")
    return float(int(found[1]) * _UNITS_S[found[2]])
