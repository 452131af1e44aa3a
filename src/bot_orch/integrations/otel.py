"""OpenTelemetry: decisions as spans by the conventions for generative AI, with propensity and terms of the score."""

from __future__ import annotations

import time
from typing import Any

from bot_orch._version import __version__
from bot_orch.errors import MissingExtraError
from bot_orch.integrations.adapter import Turn
from bot_orch.recent import Newest
from bot_orch.types import TERMS, Outcome

try:
    from opentelemetry import trace
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("traces", "otel") from _error

__all__ = ["DecisionSpans"]

_OPERATION = "invoke_agent"
_MOST = 10_000


class DecisionSpans:
    """Watches turns: ``Adapter(router, watchers=[DecisionSpans()])``, or ``adapter.watchers.append(...)``.

    A span lasts from the decision to the answer, as a child of the span it was decided in. Its attributes have the
    names that the service uses. A reward after the answer becomes a separate, linked span ``evaluate``.
    Texts of tasks and answers are never written.

    Parameters
    ----------
    provider
        A tracer provider; by default the process's global one.
    """

    def __init__(self, provider: Any = None) -> None:
        chosen = provider or trace.get_tracer_provider()
        self._tracer = chosen.get_tracer("bot_orch", __version__)
        self._open: dict[str, tuple[Any, int]] = {}  # span and its start by decision
        self._answered = Newest[str, Any](_MOST)  # contexts of spans whose reward is awaited

    def decided(self, turn: Turn) -> None:
        """Start the span of a decision."""
        made, began = turn.decision, time.time_ns()
        row = made.agents.index(made.agent)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": _OPERATION,
            "gen_ai.agent.name": made.agent,
            "bot_orch.decision.id": made.id,
            "bot_orch.agent": made.agent,
            "bot_orch.propensity": made.propensity,
            "bot_orch.policy": made.policy,
        }
        columns = made.columns()
        attributes |= {f"bot_orch.terms.{name}": float(columns[name][row]) for name in TERMS if name in columns}
        span = self._tracer.start_span(f"{_OPERATION} {made.agent}", attributes=attributes, start_time=began)
        self._open[made.id] = (span, began)
        if len(self._open) > _MOST:  # its outcome was never reported
            self._open.pop(next(iter(self._open)))[0].end()

    def awaiting(self, turn: Turn) -> None:
        """End the span: the answer arrived, its reward will follow."""
        if turn.id in self._open:
            span, _ = self._open.pop(turn.id)
            span.end()
            self._answered[turn.id] = span.get_span_context()

    def observed(self, turn: Turn, outcome: Outcome) -> None:
        """Write the outcome to the span and end it; after the answer, to a separate span."""
        if turn.id in self._open:
            span, began = self._open.pop(turn.id)
            ended = None if outcome.elapsed_s is None else began + round(outcome.elapsed_s * 1e9)
        elif turn.id in self._answered:
            link = trace.Link(self._answered.pop(turn.id))
            span, ended = self._tracer.start_span("evaluate", links=[link]), None
            span.set_attribute("bot_orch.decision.id", turn.id)
        else:
            return
        for name, value in _attributes(outcome).items():
            span.set_attribute(name, value)
        if not outcome.event or outcome.reason:
            span.set_status(trace.StatusCode.ERROR, outcome.reason)
        span.end(ended)


def _attributes(outcome: Outcome) -> dict[str, Any]:
    found = {
        "gen_ai.evaluation.score.value": outcome.reward,
        "bot_orch.reward": outcome.reward,
        "bot_orch.elapsed_s": outcome.elapsed_s,
        "bot_orch.cost_usd": outcome.cost_usd,
        "error.type": outcome.reason,
    }
    return {name: value for name, value in found.items() if value is not None}
