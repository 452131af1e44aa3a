"""UCB1: the empirical mean plus a confidence radius."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays
from bot_orch.kernels import kernel
from bot_orch.policies.base import Choice, EstimatorPolicy, Situation
from bot_orch.policies.choice import UNSEEN, as_rows, ucb_scores
from bot_orch.policies.estimators import Estimator, Mean
from bot_orch.policies.rows import ucb_rows

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
        found = self._compiled(state, situation)
        if found is not None:
            return found
        estimate, n = self.estimator.estimate(state), self.seen(state, situation)
        p, bonus = ucb_scores(estimate, n, situation.penalty, scale=self.scale, eligible=situation.eligible)
        return Choice(p, estimate, bonus)

    def _compiled(self, state: Arrays, s: Situation) -> Choice | None:
        """The choice by a compiled kernel; None where there is none for this estimator."""
        fast, estimator = kernel(ucb_rows), self.estimator
        if fast is None or type(estimator) is not Mean:
            return None
        count = state["count"]
        shape = count.shape
        inputs: list[Any] = [state["total"], count, s.pending, s.penalty, s.eligible]
        if count.ndim > 1 or s.eligible is not None or s.penalty.shape != shape or not s.penalty.flags.carray:
            inputs = [None if each is None else as_rows(each, shape) for each in inputs]
        p, estimate, bonus = np.empty(shape), np.empty(shape), np.empty(shape)
        out = [estimate, bonus, p] if count.ndim <= 2 else [as_rows(each, shape) for each in (estimate, bonus, p)]
        fast(*inputs, estimator.prior, self.scale, UNSEEN, *out)
        return Choice(p, estimate, bonus)
