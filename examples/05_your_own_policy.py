"""A policy of your own: write the choice, run the conformance checks, use it by name."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch import Orchestrator, Task, register_policy
from bot_orch.arrays import Arrays
from bot_orch.policies import Choice, Estimator, EstimatorPolicy, Mean, Situation, softmax
from bot_orch.testing import check_policy


@register_policy
@dataclass(frozen=True, slots=True)
class Sharper(EstimatorPolicy):
    """A softmax that sharpens with the square root of time."""

    estimator: Estimator = field(default_factory=lambda: Mean(prior=2.0))
    id: ClassVar[str] = "sharper"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Softmax with inverse temperature sqrt(t)."""
        mean = self.estimator.estimate(state)
        p = softmax(np.sqrt(situation.t) * (mean - situation.penalty), situation.eligible)
        return Choice(p, mean, np.zeros_like(mean))


print("checks passed:", len(check_policy(Sharper())))
print(Orchestrator(["a", "b"], "sharper").decide(Task("first")).agent)
