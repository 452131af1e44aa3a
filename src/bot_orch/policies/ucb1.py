"""UCB1: the empirical mean plus a confidence radius."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation
from bot_orch.policies.choice import UNSEEN, argmax_ties
from bot_orch.policies.estimators import Estimator, Mean

__all__ = ["UCB1"]


@dataclass(frozen=True, slots=True)
class UCB1(EstimatorPolicy):
    """argmax of mean_i + scale * sqrt(2 ln n / n_i), after each agent was chosen once [1]_.

    References
    ----------
    .. [1] Auer, Cesa-Bianchi, Fischer. Finite-time analysis of the multiarmed bandit problem. 2002.
    """

    scale: float = 1.0
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "ucb1"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the largest upper confidence bound."""
        estimate, n = self.estimator.estimate(state), self.seen(state, situation)
        total = np.maximum(np.add.reduce(n, axis=-1, keepdims=True), 1.0)
        radius = self.scale * np.sqrt(2.0 * np.log(total) / np.maximum(n, 1e-12))
        bonus = np.where(n > 0.0, np.minimum(radius, UNSEEN), UNSEEN)
        p = argmax_ties(estimate + bonus - situation.penalty, situation.eligible)
        return Choice(p, estimate, bonus)
