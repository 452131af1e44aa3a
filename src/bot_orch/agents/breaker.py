"""Circuit breaker: rejects calls to an agent after repeated failures, and probes it after a pause.

::

    closed --(failures in a row)--> open --(open_s passed)--> half-open --(a probe succeeds)--> closed
                                     ^                            |
                                     +-------- a probe fails -----+   (and stays open twice as long)

A pure state machine with an injected clock. Every permit stores the state in which it was issued: the end of a call
from before the breaker opened neither closes it nor opens it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from bot_orch.agents.endings import Ending

Clock = Callable[[], float]
"""Monotonic seconds from any origin."""


class BreakerState(StrEnum):
    """Closed admits calls, open rejects them, half-open admits a probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """Thresholds and durations of a circuit breaker.

    Parameters
    ----------
    failures
        Consecutive failures that open it.
    open_s, longest_open_s
        Initial time in the open state; doubled after each failed probe, up to the longest.
    """

    failures: int = 3
    open_s: float = 10.0
    longest_open_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission for one call; pass it to :meth:`Breaker.settle` with the ending."""

    era: int
    probe: bool


@dataclass(frozen=True, slots=True)
class BreakerView:
    """Snapshot of a breaker for the dashboard."""

    state: BreakerState
    failures: int
    retry_in_s: float
    _: KW_ONLY
    last_failure: Ending | None
    opened: int


class Breaker:
    """The circuit breaker of one agent.

    Examples
    --------
    >>> now = 0.0
    >>> breaker = Breaker(BreakerSettings(failures=2, open_s=10.0), lambda: now)
    >>> for _ in range(2):
    ...     breaker.settle(breaker.acquire(), Ending.UPSTREAM_5XX)
    >>> breaker.state, breaker.acquire()
    (<BreakerState.OPEN: 'open'>, None)
    >>> now = 10.0
    >>> breaker.settle(breaker.acquire(), Ending.COMPLETED)
    >>> breaker.state
    <BreakerState.CLOSED: 'closed'>
    """

    def __init__(self, settings: BreakerSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._open_until: float | None = None  # None while closed
        self._era = 0  # number of state changes
        self._failures = 0  # consecutive
        self._probing = False
        self._reopened = 0
        self._opened = 0
        self._last: Ending | None = None

    @property
    def state(self) -> BreakerState:
        """The current state."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if self._clock() < self._open_until else BreakerState.HALF_OPEN

    def view(self) -> BreakerView:
        """Snapshot of state and counters."""
        wait = 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())
        return BreakerView(self.state, self._failures, wait, last_failure=self._last, opened=self._opened)

    def ready(self) -> bool:
        """Whether :meth:`acquire` would return a permit now."""
        state = self.state
        return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and not self._probing)

    def acquire(self) -> Permit | None:
        """A permit for one call, or ``None`` if the breaker rejects it."""
        if not self.ready():
            return None
        probe = self._open_until is not None
        self._probing = probe
        return Permit(self._era, probe)

    def settle(self, permit: Permit | None, ending: Ending) -> None:
        """Report the ending of a permitted call. Endings that neither trip nor complete change nothing."""
        if permit is None or permit.era != self._era:
            return
        self._probing = False
        if ending.meaning.trips:
            self._last = ending
            self._failures += 1
            if permit.probe or self._failures >= self.settings.failures:
                self._open(again=permit.probe)
        elif ending is Ending.COMPLETED:
            self._failures = 0
            if permit.probe:
                self._open_until, self._reopened = None, 0
                self._new_era()

    def reset(self) -> None:
        """Close the breaker and forget past failures."""
        self._open_until, self._failures, self._reopened, self._last = None, 0, 0, None
        self._new_era()

    def _open(self, *, again: bool) -> None:
        self._reopened = self._reopened + 1 if again else 0
        longest = self.settings.longest_open_s
        self._open_until = self._clock() + min(self.settings.open_s * 2.0 ** min(self._reopened, 60), longest)
        self._opened += 1
        self._new_era()

    def _new_era(self) -> None:
        self._era += 1
        self._probing = False
