"""Epsilon-greedy: the agent with the best estimate, or a uniformly random one with probability epsilon."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import argmax_ties
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.numerics.schedules import Constant, Schedule
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation, no_exploration


@dataclass(frozen=True, slots=True)
class EpsilonGreedy(EstimatorPolicy):
    """Probability (1 - epsilon_t) on the best estimate, epsilon_t spread evenly over eligible agents."""

    epsilon: Schedule = field(default_factory=lambda: Constant(0.1))
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "epsilon-greedy"
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Mixture of the greedy and the uniform distribution."""
        estimate = self.estimator.estimate(state)
        epsilon = min(1.0, self.epsilon(situation.t))
        greedy = argmax_ties(estimate - situation.penalty, situation.eligible)
        anyone = argmax_ties(np.zeros_like(estimate), situation.eligible)
        return Choice((1.0 - epsilon) * greedy + epsilon * anyone, estimate, no_exploration(estimate))
