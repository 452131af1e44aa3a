"""Sliding-window UCB, for rewards that change abruptly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from bot_orch.numerics.estimators import Estimator, Windowed
from bot_orch.policies.ucb1 import UCB1


@dataclass(frozen=True, slots=True)
class SlidingWindowUCB(UCB1):
    """UCB over the last rounds only (Garivier and Moulines, 2011)."""

    scale: float = 0.6
    estimator: Estimator = field(default_factory=Windowed)
    id: ClassVar[str] = "sliding-window-ucb"
