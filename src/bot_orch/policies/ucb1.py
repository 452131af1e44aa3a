"""UCB1: the empirical mean plus a confidence radius."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import ucb_scores
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation


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
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the largest upper confidence bound."""
        estimate, n = self.estimator.estimate(state), self.seen(state, situation)
        p, bonus = ucb_scores(estimate, n, situation.penalty, scale=self.scale, eligible=situation.eligible)
        return Choice(p, estimate, bonus)
