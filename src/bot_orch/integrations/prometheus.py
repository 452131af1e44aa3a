"""Prometheus: counters and histograms of a router in this process, under the names that the service uses."""

from __future__ import annotations

from typing import Any

from bot_orch.errors import MissingExtraError
from bot_orch.integrations.adapter import Turn
from bot_orch.types import Outcome

try:
    from prometheus_client import REGISTRY, Counter, Histogram
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("metrics", "prometheus") from _error

__all__ = ["DecisionMetrics"]

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class DecisionMetrics:
    """Watches turns: ``Adapter(router, watchers=[DecisionMetrics()])``, or ``adapter.watchers.append(...)``.

    Parameters
    ----------
    registry
        Where the metrics are registered; by default the process's global registry.
    """

    def __init__(self, registry: Any = REGISTRY) -> None:
        self._decisions = Counter("bot_orch_decisions", "Decisions by agent.", ["agent"], registry=registry)
        self._feedback = Counter(
            "bot_orch_feedback", "Outcomes by agent and ending.", ["agent", "ending"], registry=registry
        )
        self._rewards = Counter("bot_orch_agent_rewards", "Sum of rewards.", ["agent"], registry=registry)
        self._rewarded = Counter("bot_orch_agent_rewarded", "Outcomes with a reward.", ["agent"], registry=registry)
        self._cost = Counter("bot_orch_agent_cost_usd", "Dollars.", ["agent"], registry=registry)
        self._seconds = Histogram(
            "bot_orch_agent_call_seconds", "Seconds of calls.", ["agent"], buckets=_SECONDS, registry=registry
        )

    def decided(self, turn: Turn) -> None:
        """Count a decision."""
        self._decisions.labels(turn.agent).inc()

    def awaiting(self, turn: Turn) -> None:
        """Do nothing: there is no outcome yet."""

    def observed(self, turn: Turn, outcome: Outcome) -> None:
        """Count an outcome, its reward, seconds and dollars."""
        self._feedback.labels(turn.agent, outcome.reason or "completed").inc()
        if outcome.reward is not None:
            self._rewards.labels(turn.agent).inc(outcome.reward)
            self._rewarded.labels(turn.agent).inc()
        if outcome.elapsed_s is not None:
            self._seconds.labels(turn.agent).observe(outcome.elapsed_s)
        if outcome.cost_usd is not None:
            self._cost.labels(turn.agent).inc(outcome.cost_usd)
