"""Compares the clock of this machine with the database server's.

Events are stamped by the process that owns the log. One whose clock is ahead would pull the time of the log, and so
that of the next owners, ahead: horizons and leases of tickets would end early, and time would stand still until the
clocks have caught up.
"""

from __future__ import annotations

from bot_orch.clock import Clock
from bot_orch.errors import BotOrchError
from bot_orch.log.stores.postgres.log import PostgresLog

__all__ = ["ClockAheadError", "check_clock", "clock_error", "seconds_ahead"]


class ClockAheadError(BotOrchError):
    """The clock of this machine is too far ahead of the database's."""


def seconds_ahead(log: PostgresLog, clock: Clock) -> float:
    """A lower bound of how far our clock is ahead: it is read first, so a slow answer does not count."""
    ours_us = clock.now_us()
    return (ours_us - log.clock_us()) / 1e6


def clock_error(ahead_s: float, bound_s: float) -> ClockAheadError | None:
    """The error if the clock is ahead by more than the bound, else None.

    Examples
    --------
    >>> clock_error(1.5, 2.0)
    >>> str(clock_error(172800.0, 2.0))
    "clock: is 172800.0 seconds ahead of the database's; set it (NTP), or raise clock_s=2 in the URL"
    """
    if ahead_s <= bound_s:
        return None
    ahead = f"clock: is {ahead_s:.1f} seconds ahead of the database's"
    return ClockAheadError(f"{ahead}; set it (NTP), or raise clock_s={bound_s:g} in the URL")


def check_clock(log: PostgresLog, clock: Clock) -> None:
    """Refuse to start with a clock that is ahead."""
    error = clock_error(seconds_ahead(log, clock), log.timing.clock_s)
    if error is not None:
        raise error
