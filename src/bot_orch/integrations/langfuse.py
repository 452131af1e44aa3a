"""Langfuse: outcomes of decisions as scores of traces, and scores of traces as rewards."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Any

from bot_orch.errors import InvalidInputError, MissingExtraError, UnknownDecisionError
from bot_orch.integrations.adapter import Turn
from bot_orch.types import Outcome

try:
    from langfuse import Langfuse
    from opentelemetry import trace
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the Langfuse adapter", "langfuse") from _error

__all__ = ["LangfuseScores"]

_REWARD, _COMPLETED = "bot_orch.reward", "bot_orch.completed"
_PAGE = 100


class LangfuseScores:
    """Watches turns: ``Adapter(router, watchers=[LangfuseScores(client)])``, or ``adapter.watchers.append(...)``.

    A decision belongs to the trace it was made in; outside of one, to a trace whose id is derived from the decision's.
    Its outcome becomes the score ``bot_orch.reward``, or ``bot_orch.completed`` = 0 where there is no reward (timeouts,
    cancelled calls), with decision, agent and propensity as metadata.

    Parameters
    ----------
    langfuse
        The client.
    remembered
        How many turns to remember for :meth:`learn`.
    """

    def __init__(self, langfuse: Langfuse, *, remembered: int = 10_000) -> None:
        self._langfuse, self._most = langfuse, remembered
        self._traces: OrderedDict[str, str] = OrderedDict()  # by decision
        self._turns: dict[str, dict[str, Turn]] = {}  # by trace and decision

    def trace_of(self, turn: Turn) -> str:
        """The id of the trace that a turn belongs to."""
        return self._traces.get(turn.id) or str(Langfuse.create_trace_id(seed=turn.id))

    def decided(self, turn: Turn) -> None:
        """Remember the trace of a decision."""
        context = trace.get_current_span().get_span_context()
        trace_id = f"{context.trace_id:032x}" if context.is_valid else self.trace_of(turn)
        self._traces[turn.id] = trace_id
        self._turns.setdefault(trace_id, {})[turn.id] = turn
        while len(self._traces) > self._most:
            old, its = self._traces.popitem(last=False)
            self._turns[its].pop(old)
            if not self._turns[its]:
                del self._turns[its]

    def awaiting(self, turn: Turn) -> None:
        """Do nothing: there is no score yet."""

    def observed(self, turn: Turn, outcome: Outcome) -> None:
        """Send the outcome as a score; sending it again replaces it."""
        made = turn.decision
        name, value = (_COMPLETED, 0.0) if outcome.reward is None else (_REWARD, outcome.reward)
        details = {"elapsed_s": outcome.elapsed_s, "cost_usd": outcome.cost_usd, "policy": made.policy}
        self._langfuse.create_score(
            name=name,
            value=value,
            trace_id=self.trace_of(turn),
            score_id=f"{name}-{turn.id}",
            data_type="BOOLEAN" if outcome.reward is None else "NUMERIC",
            comment=outcome.reason,
            metadata=turn.labels | details,
        )

    def learn(self, name: str, *, low: float = 0.0, high: float = 1.0) -> int:
        """Read scores called ``name`` and report them as rewards; returns the number learned.

        Every turn of a trace that waits for a reward gets it; turns with an outcome are left out. Pass
        ``success_reward=None`` to the adapter, so that answers wait for their scores.

        Parameters
        ----------
        name
            Of scores that people or evaluators give; not one that this class writes.
        low, high
            Bounds of the score, rescaled to [0, 1].
        """
        if name in (_REWARD, _COMPLETED):
            raise InvalidInputError("name", f"is {name!r}", "name a score that others give")
        if not low < high:
            raise InvalidInputError("high", f"is {high}, low is {low}", "pass bounds with low < high")
        learned, cursor = 0, None
        while True:
            page = self._langfuse.api.scores.get_many(name=name, fields="subject", limit=_PAGE, cursor=cursor)
            learned += sum(self._take(each, low, high) for each in page.data)
            cursor = page.meta.cursor
            if not cursor:
                return learned

    def _take(self, score: Any, low: float, high: float) -> int:
        """Report one score to the waiting turns of its trace."""
        trace_id = str(getattr(score.subject, "trace_id", None) or getattr(score.subject, "id", ""))
        waiting = [turn for turn in self._turns.get(trace_id, {}).values() if turn.ended and turn.outcome is None]
        if not waiting or isinstance(score.value, str):
            return 0
        reward, learned = (float(score.value) - low) / (high - low), 0
        if not 0.0 <= reward <= 1.0:
            raise InvalidInputError(f"score {score.id}", f"is {score.value}", f"pass bounds wider than {low} to {high}")
        for turn in waiting:
            with suppress(UnknownDecisionError):  # dropped after the router's horizon
                turn.feedback(reward)
                learned += 1
        return learned
