"""Circuits shared between replicas: an agent that fails at one of them is not called by the others either."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from bot_orch.agents.breaker import BreakerState
from bot_orch.agents.guard import Guard

__all__ = ["RESET", "heed_circuits", "open_circuits"]

#: Topic of the note that somebody has reset an agent.
RESET = "agent.reset"


def open_circuits(agents: Mapping[str, object]) -> dict[str, float]:
    """Agents that failed here, with the seconds until the next attempt; what other replicas have told is left out."""
    found: dict[str, float] = {}
    for name, guard in agents.items():
        if isinstance(guard, Guard) and guard.breaker.state is BreakerState.OPEN and not guard.breaker.borrowed:
            found[name] = round(guard.breaker.view().retry_in_s, 3)
    return found


def heed_circuits(agents: Mapping[str, object], told: Iterable[Mapping[str, float]]) -> None:
    """Open the circuits that others have open, for as long; close those that no other has open any more."""
    left: dict[str, float] = {}
    for circuits in told:
        for name, seconds in circuits.items():
            left[name] = max(left.get(name, 0.0), seconds)
    for name, guard in agents.items():
        if not isinstance(guard, Guard):
            continue
        seconds = left.get(name, 0.0)
        if seconds > 0.0 and math.isfinite(seconds):
            guard.breaker.borrow(min(seconds, guard.breaker.settings.longest_open_s))
        else:
            guard.breaker.give_back()
