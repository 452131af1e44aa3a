"""The usual rule of deferral: trust an agent that is sure of itself, ask another one otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import argmax_ties
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration

__all__ = ["ClaimThreshold"]


@dataclass(frozen=True, slots=True)
class ClaimThreshold(Policy):
    """The agent with the largest claim if that reaches ``threshold``, else one of those without a claim, at random.

    It learns nothing. Where every eligible agent makes a claim, the largest counts; where none does, all are equal.

    Examples
    --------
    >>> rule, claims = ClaimThreshold(0.9), np.array([[0.95, np.nan], [0.6, np.nan]])
    >>> rule.choose({}, Situation(1, np.zeros((2, 2)), claims=claims)).propensities
    array([[1., 0.],
           [0., 1.]])
    """

    threshold: float = 0.9
    id: ClassVar[str] = "claim-threshold"
    uses_alignment: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise InvalidInputError("threshold", f"is {self.threshold}", "pass a probability in [0, 1]")

    def schema(self, n_features: int) -> Schema:
        """No state."""
        return {}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Certain, except among equals."""
        claims = np.full_like(situation.penalty, np.nan) if situation.claims is None else situation.claims
        value = np.where(np.isnan(claims), np.nextafter(self.threshold, -1.0), claims)  # a claim of 0.9 reaches 0.9
        return Choice(argmax_ties(value, situation.eligible), value, no_exploration(value))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn nothing."""
