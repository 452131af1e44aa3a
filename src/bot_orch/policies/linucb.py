"""LinUCB with one regression per agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays
from bot_orch.policies.base import Choice, Situation
from bot_orch.policies.choice import argmax_ties
from bot_orch.policies.linear import LinearPolicy

__all__ = ["LinUCB"]


@dataclass(frozen=True, slots=True)
class LinUCB(LinearPolicy):
    """argmax of x'theta_i + scale * sqrt(x' A_i^-1 x) [1]_.

    References
    ----------
    .. [1] Li, Chu, Langford, Schapire. A contextual-bandit approach to personalized news recommendation. WWW 2010.
    """

    scale: float = 1.0
    ridge: float = 1.0
    id: ClassVar[str] = "linucb"

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """All probability on the largest upper confidence bound."""
        mean, leverage = self.predict(state, situation.context)
        bonus = self.scale * np.sqrt(leverage)
        return Choice(argmax_ties(mean + bonus - situation.penalty, situation.eligible), mean, bonus)
