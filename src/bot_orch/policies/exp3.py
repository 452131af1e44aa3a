"""EXP3 and EXP3-IX for adversarial bandits; the alignment penalty enters the choice, not the losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.numerics.choice import softmax, with_floor
from bot_orch.numerics.schedules import Power, Schedule
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration


@dataclass(frozen=True, slots=True)
class EXP3(Policy):
    """Exponential weights over importance-weighted losses of the reward, with a probability floor [1]_.

    Alignment is known before the choice, so it need not be learned: the weights depend on rewards only, and the
    penalty of this round, times ``eta_align``, is subtracted from the logits.

    References
    ----------
    .. [1] Auer, Cesa-Bianchi, Freund, Schapire. The nonstochastic multiarmed bandit problem. 2002.
    """

    eta: Schedule = field(default_factory=lambda: Power(1.0, -0.5))
    eta_align: float = 5.0
    floor: float = 0.01
    id: ClassVar[str] = "exp3"
    predicts: ClassVar[bool] = False

    def schema(self, n_features: int) -> Schema:
        """Cumulative importance-weighted losses."""
        return {"loss": Field()}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Softmax of minus the cumulative loss, minus the penalty."""
        gain = -self.eta(situation.t) * (state["loss"] - np.minimum.reduce(state["loss"], axis=-1, keepdims=True))
        p = softmax(gain - self.eta_align * situation.penalty, situation.eligible)
        return Choice(with_floor(p, self.floor, situation.eligible), gain, no_exploration(gain))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Add the importance-weighted loss of the observed agents."""
        known = np.logical_and.reduce(feedback.observed, axis=-1, keepdims=True)
        p = np.where(known, 1.0, self.denominator(feedback))
        state["loss"] += np.where(feedback.observed, (1.0 - feedback.reward) / p, 0.0)

    @property
    def can_revise(self) -> bool:
        """Always: losses are summed."""
        return type(self).update is EXP3.update

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Change the loss of the observed agents."""
        known = np.logical_and.reduce(new.observed, axis=-1, keepdims=True)
        p = np.where(known, 1.0, self.denominator(new))
        state["loss"] -= np.where(new.observed, (new.reward - old.reward) / p, 0.0)

    def denominator(self, feedback: Feedback) -> Floats:
        """Importance weight denominator: the propensity."""
        return np.maximum(feedback.propensities, 1e-12)


@dataclass(frozen=True, slots=True)
class EXP3IX(EXP3):
    """EXP3 with implicit exploration: the denominator is p + gamma, and no floor is needed [1]_.

    References
    ----------
    .. [1] Neu. Explore no more: improved high-probability regret bounds for non-stochastic bandits. NeurIPS 2015.
    """

    gamma: float = 0.05
    floor: float = 0.0
    id: ClassVar[str] = "exp3-ix"
    default_entrant: ClassVar[bool] = True

    def denominator(self, feedback: Feedback) -> Floats:
        """Importance weight denominator: the propensity plus gamma."""
        return feedback.propensities + self.gamma
