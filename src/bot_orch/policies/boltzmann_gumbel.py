"""Boltzmann-Gumbel exploration: a softmax with a temperature per agent that decreases with its count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Floats
from bot_orch.numerics.choice import UNSEEN, argmax_ties, best_of_family
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation


@dataclass(frozen=True, slots=True)
class BoltzmannGumbel(EstimatorPolicy):
    """argmax of mean_i + (scale / sqrt(n_i)) * Gumbel noise, after each agent was chosen once [1]_.

    References
    ----------
    .. [1] Cesa-Bianchi, Gentile, Lugosi, Neu. Boltzmann exploration done right. NeurIPS 2017.
    """

    scale: float = 0.5
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "boltzmann-gumbel"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The probability of being the argmax, by quadrature."""
        estimate, n = self.estimator.estimate(state), self.seen(state, situation)
        fresh = n <= 0.0
        spread = self.scale / np.sqrt(np.maximum(n, 1.0))
        p = best_of_family(
            estimate - situation.penalty,
            spread,
            _gumbel_cdf,
            eligible=situation.eligible,
            reach=(3.5, 18.0),
            points=192,
        )
        bonus = np.where(fresh, UNSEEN, spread)
        allowed = fresh if situation.eligible is None else fresh & situation.eligible
        any_fresh = np.logical_or.reduce(allowed, axis=-1, keepdims=True)
        first = argmax_ties(bonus - situation.penalty, situation.eligible)
        return Choice(np.where(any_fresh, first, p), estimate, bonus)


def _gumbel_cdf(z: Floats) -> Floats:
    return np.exp(-np.exp(np.minimum(-z, 50.0)))
