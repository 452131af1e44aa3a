"""Trial of a warm start: two copies of a policy, with and without evaluations, run until one proves better."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.registry import register_policy

#: Squared prediction error by which the warm state may fall behind over all agents; log(M) / 2 more for one of M
#: agents. With rewards in [0, 1] and right predictions exp(-2 * lead) is a supermartingale, so a right warm start is
#: dropped with probability 2 exp(-2 * 1.5) at most.
_MARGIN = 1.5
#: Share of the decisions that the cold state makes: it asks agents that the warm state avoids. It starts at the first
#: number and falls to the second as the warm state leads.
_COLD_SHARE = (0.1, 0.03)
#: Outcomes after which the trial ends with the state that predicted better.
_TRIAL = 1000.0

_SHARED = tuple({each.name for each in fields(Situation)} & {each.name for each in fields(Feedback)})


@dataclass(frozen=True)
class WarmStart(Policy):
    """A policy with two states: one taught by evaluations (warm), one without them (cold). Both learn from outcomes.

    While the trial lasts, the cold state makes a tenth of the decisions, and fewer (3 % at least) as the warm state
    predicts better; propensities are those of the mixture. Each outcome scores both predictions of its agent's reward
    by squared error. The warm state is dropped when it falls behind, for any one agent or over all, by a margin that
    right predictions reach with probability below 10 %; otherwise the better one stays after 1000 outcomes. Created by
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
        """The arrays of both states, the lead of the warm one per agent and the number of outcomes compared."""
        own = self.policy.schema(n_features)
        both = {f"{prefix}_{name}": field for prefix in ("warm", "cold") for name, field in own.items()}
        return {**both, "lead": Field(), "compared": Field(per_agent=False)}

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """Restore each state from its own part of the learned state."""
        found: Arrays = {name: learned.get(name, state[name]) for name in ("lead", "compared")}
        for prefix in ("warm", "cold"):
            part = self.policy.adopt(_half(state, prefix), _half(learned, prefix))
            found |= {f"{prefix}_{name}": array for name, array in part.items()}
        return found

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Mix the choices of both states during the trial; afterwards use the winning state's choice."""
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
            gain = np.where(open_[..., None] & feedback.observed, self._gain(state, feedback), 0.0)
            state["lead"] = state["lead"] + gain
            state["compared"] = state["compared"] + open_
        for prefix, shift in (("warm", self.taught), ("cold", 0)):
            part = _half(state, prefix)
            self.policy.update(part, replace(feedback, t=feedback.t + shift))
            state.update({f"{prefix}_{name}": array for name, array in part.items()})

    @staticmethod
    def phase(state: Arrays) -> str:
        """A short description of the trial's phase, shown after the policy's name."""
        share = float(_warm_share(state))
        if 0.0 < share < 1.0:
            return " (warm start)"
        return " (warm start, lessons dropped)" if share == 0.0 else " (warm start, lessons kept)"

    @property
    def can_revise(self) -> bool:
        """Whether the policy can revise lessons; both states are revised."""
        return self.policy.can_revise

    def position(self, state: Arrays, agent: int) -> float:
        """The position in the cold state; the warm one is ahead by its lessons."""
        return self.policy.position(_half(state, "cold"), agent)

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a lesson in both states. Predictions are not compared again."""
        agent, halves = int(new.agent), {prefix: _half(state, prefix) for prefix in ("cold", "warm")}
        before = {prefix: self.policy.position(part, agent) for prefix, part in halves.items()}
        for prefix, part in halves.items():
            shift = self.taught if prefix == "warm" else 0
            then, now = replace(old, t=old.t + shift), replace(new, t=new.t + shift)
            self.policy.revise(part, then, now, position=position + before[prefix] - before["cold"])
            state.update({f"{prefix}_{name}": array for name, array in part.items()})

    def _gain(self, state: Arrays, feedback: Feedback) -> Floats:
        """Reduction of the squared prediction error by the warm state, per agent."""
        given: dict[str, Any] = {name: getattr(feedback, name) for name in _SHARED}
        situation = Situation(**given)
        cold, warm = self._cold(state, situation).estimate, self._warm(state, situation).estimate
        return np.asarray(_error(cold, feedback.reward) - _error(warm, feedback.reward))

    def _warm(self, state: Arrays, situation: Situation) -> Choice:
        return self.policy.choose(_half(state, "warm"), replace(situation, t=situation.t + self.taught))

    def _cold(self, state: Arrays, situation: Situation) -> Choice:
        return self.policy.choose(_half(state, "cold"), situation)


def _error(estimate: Floats, reward: Floats) -> Floats:
    return np.asarray((np.clip(estimate, 0.0, 1.0) - reward) ** 2)


def _warm_share(state: Arrays) -> Floats:
    """Share of the decisions that the warm state makes, per batch element."""
    lead, compared = state["lead"], state["compared"]
    total = np.add.reduce(lead, axis=-1)
    cold = np.maximum(_COLD_SHARE[0] * np.exp(-0.5 * np.maximum(total, 0.0)), _COLD_SHARE[1])
    share = np.where(compared < _TRIAL, 1.0 - cold, np.where(total >= 0.0, 1.0, 0.0))
    one = np.minimum.reduce(lead, axis=-1) <= -_MARGIN - 0.5 * np.log(lead.shape[-1])
    return np.asarray(np.where(one | (total <= -_MARGIN), 0.0, share))


def _half(state: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(f"{prefix}_"): array for name, array in state.items() if name.startswith(f"{prefix}_")}


register_policy(WarmStart, listed=False)
