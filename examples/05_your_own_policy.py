"""Two policies of your own: write state, choice and update, run the conformance checks, use them by name."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch import Orchestrator, Outcome, Task, register_policy
from bot_orch.arrays import Arrays, Field, Schema
from bot_orch.policies import Choice, Feedback, Policy, Situation, argmax_ties, softmax
from bot_orch.testing import check_policy


@register_policy
@dataclass(frozen=True, slots=True)
class DiscountedUCB(Policy):
    """Upper confidence bounds of discounted means, for rewards that change (Garivier and Moulines, 2011)."""

    gamma: float = 0.99
    scale: float = 0.6
    id: ClassVar[str] = "discounted-ucb"

    def schema(self, n_features: int) -> Schema:
        """Sum and number of rewards."""
        return {"total": Field(), "count": Field()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the largest mean + bonus - penalty."""
        n = np.maximum(state["count"], 1e-9)
        mean, rounds = state["total"] / n, n.sum(axis=-1, keepdims=True)
        bonus = self.scale * np.sqrt(2.0 * np.log1p(rounds) / n)
        return Choice(argmax_ties(mean + bonus - situation.penalty, situation.eligible), mean, bonus)

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Discount what all agents earned, then add the new reward."""
        for name, new in (("total", feedback.reward), ("count", 1.0)):
            state[name][...] = self.gamma * state[name] + np.where(feedback.observed, new, 0.0)


@register_policy
@dataclass(frozen=True, slots=True)
class EXP3IX(Policy):
    """Exponential weights over importance-weighted losses, for rewards that an adversary chooses (Neu, 2015)."""

    gamma: float = 0.05
    id: ClassVar[str] = "exp3-ix"
    predicts: ClassVar[bool] = False  # the estimate is no expected reward: a warm start cannot be tested against it

    def schema(self, n_features: int) -> Schema:
        """Cumulative losses."""
        return {"loss": Field()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Softmax of minus the loss, minus the penalty, which is known and not learned."""
        gain = (state["loss"].min(axis=-1, keepdims=True) - state["loss"]) / np.sqrt(situation.t)
        p = softmax(gain - 5.0 * situation.penalty, situation.eligible)
        return Choice(p, gain, np.zeros_like(gain))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Divide the loss by the propensity plus gamma, which explores without a floor."""
        loss = (1.0 - feedback.reward) / (feedback.propensities + self.gamma)
        state["loss"] += np.where(feedback.observed, loss, 0.0)


for policy in (DiscountedUCB(), EXP3IX()):
    router, rng, chosen = Orchestrator(["a", "b"], policy.id, seed=1), np.random.default_rng(0), []
    for number in range(600):  # b becomes the better one
        decision = router.decide(Task(str(number)))
        right = {"a": 0.7, "b": 0.3 if number < 300 else 0.95}[decision.agent]
        router.observe(decision.id, Outcome.completed(float(rng.random() < right)))
        chosen.append(decision.agent)
    late = chosen[-100:].count("b")
    print(f"{policy.id}: {len(check_policy(policy))} checks passed; b got {late} of the last 100 tasks")
