"""The Robbins-Monro recursion of theorem item 4: weights move by steps towards a softmax."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Schema
from bot_orch.policies.base import Choice, EstimatorPolicy, Feedback, Situation, no_exploration
from bot_orch.policies.choice import softmax
from bot_orch.policies.estimators import Estimator, Mean
from bot_orch.policies.schedules import InverseTime, Schedule

__all__ = ["SoftmaxRecursion"]


@dataclass(frozen=True, slots=True)
class SoftmaxRecursion(EstimatorPolicy):
    """phi_{t+1} = phi_t + eta_t * (softmax(sharpness * (r - lambda * W)) - phi_t), drawing from phi.

    Under full feedback r is the vector of realised rewards, as in the paper's proof; under bandit feedback it is the
    running estimate. ``phi`` holds unnormalised weights, so that agents can be added and removed.
    """

    step: Schedule = field(default_factory=lambda: InverseTime(1.0, 1.0))
    sharpness: float = 1.0
    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "softmax-recursion"

    def schema(self, n_features: int) -> Schema:
        """The estimator's arrays and the weights phi."""
        return {**EstimatorPolicy.schema(self, n_features), "phi": Field(fill=1.0)}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Normalised weights phi."""
        estimate = self.estimator.estimate(state)
        p = softmax(np.log(np.maximum(state["phi"], 1e-300)), situation.eligible)
        return Choice(p, estimate, no_exploration(estimate))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """One stochastic-approximation step."""
        EstimatorPolicy.update(self, state, feedback)
        full = np.logical_and.reduce(feedback.observed, axis=-1, keepdims=True)
        reward = np.where(full, feedback.reward, self.estimator.estimate(state))
        target = softmax(self.sharpness * (reward - feedback.penalty))
        phi = state["phi"] / np.add.reduce(state["phi"], axis=-1, keepdims=True)
        state["phi"][...] = phi + min(1.0, self.step(feedback.t)) * (target - phi)
