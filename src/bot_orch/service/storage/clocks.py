"""The clock of this machine against that of the database's server.

Events are stamped by the replicas. One whose clock is ahead would pull the time of the log, and so that of all others,
ahead: horizons and leases would end early, and time would stand still until the clocks have caught up.
"""

from __future__ import annotations

from typing import NamedTuple

from bot_orch.clock import Clock
from bot_orch.errors import BotOrchError
from bot_orch.eventlog.stores.postgres.log import PostgresLog

__all__ = ["ClockAheadError", "ClockSample", "check_clock", "clock_error", "sample"]


class ClockAheadError(BotOrchError):
    """The clock of this machine is too far ahead of the database's."""


class ClockSample(NamedTuple):
    """By how many seconds our clock is ahead, at least, and how long the server took to answer."""

    ahead_s: float
    took_s: float


def sample(log: PostgresLog, clock: Clock) -> ClockSample:
    """Ask the server for its time; ours is read before, so that a slow answer does not look like a fast clock."""
    ours_us = clock.now_us()
    theirs_us, took_s = log.timed_clock_us()
    return ClockSample((ours_us - theirs_us) / 1e6, took_s)


def clock_error(found: ClockSample, bound_s: float) -> ClockAheadError | None:
    """What is wrong, if it is ahead by more than the bound.

    Examples
    --------
    >>> clock_error(ClockSample(1.5, 0.1), 2.0)
    >>> str(clock_error(ClockSample(172800.0, 0.1), 2.0))
    "clock: is 172800.0 seconds ahead of the database's; set it (NTP), or raise clock_s=2 in the URL"
    """
    if found.ahead_s <= bound_s:
        return None
    ahead = f"clock: is {found.ahead_s:.1f} seconds ahead of the database's"
    return ClockAheadError(f"{ahead}; set it (NTP), or raise clock_s={bound_s:g} in the URL")


def check_clock(log: PostgresLog, clock: Clock) -> None:
    """Refuse to start with a clock that is ahead."""
    error = clock_error(sample(log, clock), log.timing.clock_s)
    if error is not None:
        raise error
