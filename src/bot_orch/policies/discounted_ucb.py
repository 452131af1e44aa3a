"""Discounted UCB, for rewards that change over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from bot_orch.numerics.estimators import Discounted, Estimator
from bot_orch.policies.ucb1 import UCB1


@dataclass(frozen=True, slots=True)
class DiscountedUCB(UCB1):
    """UCB over discounted means and counts [1]_.

    References
    ----------
    .. [1] Garivier, Moulines. On upper-confidence bound policies for switching bandit problems. 2011.
    """

    scale: float = 0.6
    estimator: Estimator = field(default_factory=Discounted)
    id: ClassVar[str] = "discounted-ucb"
