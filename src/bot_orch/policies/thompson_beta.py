"""Thompson sampling with Beta posteriors, as exact propensities."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.special import betaln

from bot_orch.arrays import Arrays, Floats
from bot_orch.numerics.choice import best_probabilities
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation


@dataclass(frozen=True, slots=True)
class ThompsonBeta(EstimatorPolicy):
    """P(agent i is best) under independent Beta posteriors shifted by the penalty.

    Rewards in [0, 1] count as fractional successes. The probability is computed by quadrature and the agent is drawn
    from it, so propensities are exact and match sampling from the posterior.

    Parameters
    ----------
    prior
        Pseudo-successes and pseudo-failures of every agent.
    points
        Equal cells of the quadrature grid. Errors are below 1e-4 up to 100 000 outcomes per agent.
    reach
        Half of the plausible range of a posterior, in standard deviations.
    """

    prior: float = 1.0
    points: int = 1024
    reach: float = 12.0
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "thompson-beta"
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability of being the best agent, by quadrature."""
        n = self.estimator.count(state)
        wins = self.estimator.estimate(state) * n
        a, b = self.prior + wins, self.prior + np.maximum(n - wins, 0.0)
        mean = a / (a + b)
        sd = np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
        cdf = self._cdf(a, b, mean, sd=sd, situation=situation)
        return Choice(best_probabilities(cdf, situation.eligible), mean, sd)

    def _cdf(self, a: Floats, b: Floats, mean: Floats, *, sd: Floats, situation: Situation) -> Floats:
        """Distribution functions on equal cells between the largest lower and the largest upper end of a posterior."""
        left, right = np.maximum(mean - self.reach * sd, 0.0), np.minimum(mean + self.reach * sd, 1.0)
        ends = np.stack([left, right]) - situation.penalty
        if situation.eligible is not None:
            ends = np.where(situation.eligible, ends, -np.inf)
        low, high = np.maximum.reduce(ends, axis=-1)[..., None]
        width = (high - low) / self.points
        cell = low + width * (np.arange(self.points) + 0.5)
        x = cell[..., None, :] + situation.penalty[..., None]
        inside = (x > 0.0) & (x < 1.0)
        x = np.where(inside, x, 0.5)
        log_density = (a - 1.0)[..., None] * np.log(x) + (b - 1.0)[..., None] * np.log1p(-x)
        mass = np.where(inside, np.exp(log_density - betaln(a, b)[..., None]), 0.0) * width[..., None]
        above = np.cumsum(mass[..., ::-1], axis=-1)[..., ::-1]
        top = np.concatenate([above[..., 1:], np.zeros_like(above[..., :1])], axis=-1)
        return np.clip(1.0 - top, 0.0, 1.0)
