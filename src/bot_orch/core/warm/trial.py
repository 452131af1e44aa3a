"""A policy that starts from evaluations, beside the same policy that did not, for as long as either may be right."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema, chosen_entries
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.registry import register_policy

__all__ = ["WarmStart"]

#: Squared prediction error by which the warm state may fall behind. With rewards in [0, 1] and predictions that are
#: right, exp(-2 * lead) is a supermartingale, so a right warm start is dropped with probability exp(-2 * 2) at most.
_MARGIN = 2.0
#: Share of the decisions that the cold state makes while the trial lasts: it asks agents that the warm state avoids.
#: It starts at the first number and falls to the second as the warm state leads.
_COLD_SHARE = (0.1, 0.02)
#: Outcomes after which the trial ends with the state that predicted better.
_TRIAL = 1000.0

_SHARED = tuple({each.name for each in fields(Situation)} & {each.name for each in fields(Feedback)})


@dataclass(frozen=True)
class WarmStart(Policy):
    """A policy with two states: one taught by evaluations (warm), one without them (cold). Both learn from outcomes.

    While the trial lasts, the cold state makes a tenth of the decisions, and fewer (2 % at least) as the warm state
    predicts better; propensities are those of the mixture. Each outcome scores both predictions of the reward by
    squared error. The warm state is dropped when it falls behind by a margin that a right prediction reaches with
    probability below 2 %; otherwise the better one stays after 1000 outcomes. Created by
    :meth:`bot_orch.Orchestrator.learn_from`.

    Parameters
    ----------
    policy
        The policy that both states belong to.
    taught
        Rounds that the lessons stand for; the warm state counts rounds from there.
    """

    policy: Policy
    taught: int = 0
    id: ClassVar[str] = "warm-start"

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses_alignment", self.policy.uses_alignment)

    def schema(self, n_features: int) -> Schema:
        """The arrays of both states, the lead of the warm one and the number of outcomes compared."""
        own = self.policy.schema(n_features)
        both = {f"{prefix}_{name}": field for prefix in ("warm", "cold") for name, field in own.items()}
        return {**both, "lead": Field(per_agent=False), "compared": Field(per_agent=False)}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """A mixture of both choices while the trial lasts, then the choice of the state that was kept."""
        share = _warm_share(state)
        if not share.any():
            return self._cold(state, situation)
        if share.all() and share.min() == 1.0:
            return self._warm(state, situation)
        warm, cold, part = self._warm(state, situation), self._cold(state, situation), share[..., None]
        favoured = part > 0.0
        return Choice(
            part * warm.propensities + (1.0 - part) * cold.propensities,
            np.where(favoured, warm.estimate, cold.estimate),
            np.where(favoured, warm.exploration, cold.exploration),
        )

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Compare both predictions with the reward, then teach it to both states."""
        share = _warm_share(state)
        open_ = (share > 0.0) & (share < 1.0)
        if open_.any():
            state["lead"] = state["lead"] + np.where(open_, self._gain(state, feedback), 0.0)
            state["compared"] = state["compared"] + open_
        for prefix, shift in (("warm", self.taught), ("cold", 0)):
            part = _half(state, prefix)
            self.policy.update(part, replace(feedback, t=feedback.t + shift))
            state.update({f"{prefix}_{name}": array for name, array in part.items()})

    def _gain(self, state: Arrays, feedback: Feedback) -> Floats:
        """How much smaller the squared error of the warm prediction is, per batch element."""
        given: dict[str, Any] = {name: getattr(feedback, name) for name in _SHARED}
        situation, agent = Situation(**given), np.asarray(feedback.agent)
        reward = chosen_entries(feedback.reward, agent)
        cold, warm = (
            np.clip(chosen_entries(choice.estimate, agent), 0.0, 1.0)
            for choice in (self._cold(state, situation), self._warm(state, situation))
        )
        return np.asarray((cold - reward) ** 2 - (warm - reward) ** 2)

    def _warm(self, state: Arrays, situation: Situation) -> Choice:
        return self.policy.choose(_half(state, "warm"), replace(situation, t=situation.t + self.taught))

    def _cold(self, state: Arrays, situation: Situation) -> Choice:
        return self.policy.choose(_half(state, "cold"), situation)


def _warm_share(state: Arrays) -> Floats:
    """Share of the decisions that the warm state makes, per batch element."""
    lead, compared = state["lead"], state["compared"]
    over = np.where(lead >= 0.0, 1.0, 0.0)
    cold = np.maximum(_COLD_SHARE[0] * np.exp(-np.maximum(lead, 0.0)), _COLD_SHARE[1])
    share = np.where(compared < _TRIAL, 1.0 - cold, over)
    return np.asarray(np.where(lead <= -_MARGIN, 0.0, share))


def _half(state: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(f"{prefix}_"): array for name, array in state.items() if name.startswith(f"{prefix}_")}


register_policy(WarmStart, listed=False)
