"""Thompson sampling with Gaussian posteriors, as exact propensities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import best_of_family
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation


@dataclass(frozen=True, slots=True)
class ThompsonGaussian(EstimatorPolicy):
    """P(agent i is best) when its mean reward has the posterior N(m_i, sigma^2 / (n_i + prior_count))."""

    sigma: float = 0.5
    prior_mean: float = 0.5
    prior_count: float = 1.0
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "thompson-gaussian"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability of being the best agent, by quadrature."""
        n = self.estimator.count(state)
        weight = n + self.prior_count
        mean = (n * self.estimator.estimate(state) + self.prior_count * self.prior_mean) / weight
        sd = self.sigma / np.sqrt(weight)
        p = best_of_family(mean - situation.penalty, sd, ndtr, eligible=situation.eligible)
        return Choice(p, mean, sd)
