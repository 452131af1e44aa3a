"""Exponential weights on R - lambda * W: the procedure of theorem item 1, and its bandit version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.numerics.choice import softmax
from bot_orch.numerics.schedules import Constant, Schedule
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration


@dataclass(frozen=True, slots=True)
class ExponentialWeights(Policy):
    """w_{t+1}(i) = w_t(i) * exp(eta_t * (R_t(i) - lambda * W_t(i))), for full feedback.

    The penalty enters the update, as in the theorem. Under bandit feedback unobserved agents
    keep their weight, which is biased; use :class:`ImportanceWeighted` there.

    Use a constant ``eta``: with a decreasing schedule this update, as printed in the theorem, gives late rounds less
    weight and can have linear regret against the best fixed agent (experiment ``theory-regret``).
    """

    eta: Schedule = field(default_factory=lambda: Constant(0.1))
    id: ClassVar[str] = "exp-weights"
    predicts: ClassVar[bool] = False

    def schema(self, n_features: int) -> Schema:
        """Log weights of all agents."""
        return {"log_weight": Field()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Normalised weights."""
        log_weight = state["log_weight"]
        p = softmax(log_weight, situation.eligible)
        return Choice(p, log_weight.copy(), no_exploration(log_weight))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Multiplicative weights update."""
        gain = np.where(feedback.observed, self.gain(feedback), 0.0)
        state["log_weight"] += self.eta(feedback.t) * gain
        state["log_weight"] -= np.maximum.reduce(state["log_weight"], axis=-1, keepdims=True)

    def gain(self, feedback: Feedback) -> Floats:
        """Reward minus penalty."""
        return feedback.reward - feedback.penalty


@dataclass(frozen=True, slots=True)
class ImportanceWeighted(ExponentialWeights):
    """Exponential weights under bandit feedback, with unbiased importance-weighted losses.

    ``ceiling`` is an upper bound on R - lambda * W; the loss is ``ceiling - u >= 0``.
    """

    ceiling: float = 1.0
    id: ClassVar[str] = "exp-weights-iw"

    def gain(self, feedback: Feedback) -> Floats:
        """Minus the importance-weighted loss."""
        loss = self.ceiling - (feedback.reward - feedback.penalty)
        known = np.logical_and.reduce(feedback.observed, axis=-1, keepdims=True)  # full feedback: no weights
        return -loss / np.where(known, 1.0, np.maximum(feedback.propensities, 1e-12))
