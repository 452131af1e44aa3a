"""BOT-Orch: softmax over reward estimate minus alignment cost (Algorithms 1 and 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from bot_orch.arrays import Arrays
from bot_orch.numerics.choice import softmax_scores
from bot_orch.numerics.estimators import EMA, Estimator, History, MeanReward
from bot_orch.numerics.schedules import Constant, Schedule
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation, no_exploration


@dataclass(frozen=True, slots=True)
class Bot(EstimatorPolicy):
    """pi_t(i) proportional to exp(eta_t * (rhat_t(i) - lambda * W_t(i) - cost_i)).

    Algorithm 1 uses a plain EMA for rhat; Algorithm 2 adds a history term to it (see :func:`algorithm_2`).

    Examples
    --------
    >>> import numpy as np
    >>> from bot_orch.arrays import allocate
    >>> bot = algorithm_1(eta=5.0)
    >>> state = allocate(bot.schema(0), (), 2)
    >>> bot.choose(state, Situation(1, penalty=np.array([0.0, 0.3]))).propensities.round(3)
    array([0.818, 0.182])
    """

    eta: Schedule = field(default_factory=lambda: Constant(5.0))
    estimator: Estimator = field(default_factory=EMA)
    id: ClassVar[str] = "bot"
    default_entrant: ClassVar[bool] = True

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Softmax with inverse temperature eta_t."""
        rhat = self.estimator.estimate(state)
        p = softmax_scores(rhat, situation.penalty, self.eta(situation.t), eligible=situation.eligible)
        return Choice(p, rhat, no_exploration(rhat))


def algorithm_1(*, alpha: float = 0.9, eta: float = 5.0) -> Bot:
    """BOT-Orch for i.i.d. tasks, with the paper's constants."""
    return Bot(Constant(eta), EMA(alpha))


def algorithm_2(*, alpha: float = 0.9, eta: float = 5.0, history: History | None = None) -> Bot:
    """BOT-Orch for history-dependent tasks; f defaults to 0.05 times the mean past reward."""
    return Bot(Constant(eta), EMA(alpha, MeanReward() if history is None else history))
