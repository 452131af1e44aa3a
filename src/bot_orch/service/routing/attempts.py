"""How long an agent is waited for in a round with a deadline, so that another one can be asked in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from bot_orch.log.events import DecisionMade
from bot_orch.service.runtime import Runtime

__all__ = ["Allowance", "allowance"]

_LEAST_S = 1e-3


class Allowance(NamedTuple):
    """Seconds that an agent gets, None for no limit, and whether another one would be asked afterwards."""

    seconds: float | None
    stops: bool = False


def allowance(
    runtime: Runtime, decision: DecisionMade, left_s: float | None, *, made: int, tried: Collection[str]
) -> Allowance:
    """What the agent of a decision gets of the ``left_s`` seconds of its round, in which ``made`` decisions were made.

    Everything, unless ``router.attempts`` lets another agent have a turn: then what
    :meth:`bot_orch.Orchestrator.patience` says.
    """
    if left_s is None:
        return Allowance(None)
    left_s, settings, router = max(left_s, _LEAST_S), runtime.config.router, runtime.ledger.router
    others = [name for name in decision.eligible or decision.agents if name not in tried and name in router.agents]
    if made >= min(settings.attempts, settings.max_attempts) or not others:
        return Allowance(left_s)
    seconds = max(router.patience(decision.decision(), left_s, eligible=others), _LEAST_S)
    return Allowance(min(seconds, left_s), seconds < left_s)
