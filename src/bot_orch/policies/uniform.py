"""Uniformly random choice, the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import argmax_ties
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation, no_exploration


@dataclass(frozen=True, slots=True)
class Uniform(EstimatorPolicy):
    """Equal probability for every eligible agent, independent of estimates."""

    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "random"
    uses_alignment: ClassVar[bool] = False

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Uniform over eligible agents."""
        estimate = self.estimator.estimate(state)
        return Choice(argmax_ties(np.zeros_like(estimate), situation.eligible), estimate, no_exploration(estimate))
