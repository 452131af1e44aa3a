"""Outcomes that count as reward zero although no reward was reported: timeouts, failures, silence of the patience."""

from __future__ import annotations

from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.reward import BoundedReward
from bot_orch.types import Outcome

__all__ = ["counts_as_zero"]


def counts_as_zero(router: Orchestrator, outcome: Outcome) -> bool:
    """Whether a router with these settings learns an outcome without a reward as zero.

    Examples
    --------
    >>> router = Orchestrator(["a", "b"])
    >>> counts_as_zero(router, Outcome.censored(elapsed_s=30.0, reason="timeout"))
    True
    >>> counts_as_zero(router, Outcome.censored(elapsed_s=30.0, reason="cancelled"))
    False
    """
    if outcome.reward is not None or not isinstance(router.reward, BoundedReward):
        return False
    return router.meaning(outcome) in ("reward", "zero")
