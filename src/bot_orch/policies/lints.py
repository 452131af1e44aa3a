"""Linear Thompson sampling with one regression per agent, as exact propensities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import best_of_family
from bot_orch.policies.base import Choice, Situation
from bot_orch.policies.linucb import LinearPolicy


@dataclass(frozen=True, slots=True)
class LinTS(LinearPolicy):
    """P(agent i is best) when x'theta_i has the posterior N(x'theta_i, scale^2 x' A_i^-1 x).

    Agents' posteriors are independent, so the probability is a one-dimensional integral and needs no sampling.
    """

    scale: float = 0.5
    ridge: float = 1.0
    id: ClassVar[str] = "lints"
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability of being the best agent, by quadrature."""
        mean, leverage = self.predict(state, situation.context)
        sd = np.maximum(self.scale * np.sqrt(leverage), 1e-9)
        return Choice(best_of_family(mean - situation.penalty, sd, ndtr, eligible=situation.eligible), mean, sd)
