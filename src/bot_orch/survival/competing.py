"""Competing risks with a parametric hazard per cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.survival.base import SurvivalModel
from bot_orch.survival.quadrature import unit_nodes

__all__ = ["CompetingRisks"]


@dataclass(frozen=True, slots=True, eq=False)
class CompetingRisks(SurvivalModel):
    """Completion times under competing failures.

    Parameters
    ----------
    completion
        Cause-specific model of completion, fitted with failures as censoring.
    failure
        Cause-specific model of failure, fitted with completions as censoring.

    Notes
    -----
    The survival function is that of the completion time with ``T = inf`` for a failed task, so ``survival`` is
    one minus the cumulative incidence of completion, ``1 - int_0^t h_1 exp(-H_1 - H_2)``. Its limit is the probability
    of failure, not zero. The integral is computed by quadrature over ``v = 1 - exp(-H_1)``, where the integrand is
    bounded.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> model = CompetingRisks(Exponential(10.0), Exponential(30.0))
    >>> model.survival(1e9).round(6)  # a quarter crashes
    np.float64(0.25)
    """

    completion: SurvivalModel
    failure: SurvivalModel
    own_axes: ClassVar[Mapping[str, int]] = {}

    @property
    def lead(self) -> tuple[int, ...]:
        """Batch and agent dimensions of the two models together."""
        return np.broadcast_shapes(self.completion.lead, self.failure.lead)

    def select(self, index: object) -> CompetingRisks:
        """The model of the agents at ``index``."""
        return CompetingRisks(self.completion.select(index), self.failure.select(index))

    def incidence(self, t_s: npt.ArrayLike) -> Floats:
        """Cumulative incidence: the probability of completion by ``t``."""
        done = -np.expm1(-self.completion.cumulative_hazard(t_s))
        done = np.broadcast_to(done, np.broadcast_shapes(done.shape, self.lead))
        nodes, weights = unit_nodes()
        t = self.completion.quantile(np.multiply.outer(nodes, done))
        return np.asarray(done * np.tensordot(weights, self.failure.survival(t), axes=1))

    def survival(self, t_s: npt.ArrayLike) -> Floats:
        """The probability of no completion by ``t``: still running, or failed."""
        return np.clip(1 - self.incidence(t_s), 0.0, 1.0)

    def running(self, t_s: npt.ArrayLike) -> Floats:
        """The probability of neither completion nor failure by ``t``."""
        return self.completion.survival(t_s) * self.failure.survival(t_s)

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """-log P(not completed by t)."""
        with np.errstate(divide="ignore"):
            return -np.log(self.survival(t_s))

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The log of the subdistribution hazard of completion."""
        with np.errstate(divide="ignore"):
            return self.completion.log_hazard(t_s) + np.log(self.running(t_s)) - np.log(self.survival(t_s))

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """By bisection in the quantiles of the completion model; ``inf`` beyond the probability of completing."""
        goal = -np.expm1(-np.asarray(cumulative_hazard, dtype=float))
        shape = np.broadcast_shapes(goal.shape, self.lead)
        low, high = np.zeros(shape), np.ones(shape)
        for _ in range(60):
            middle = (low + high) / 2
            below = self.incidence(self.completion.quantile(middle)) < goal
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        t = np.where(low >= 1 - 1e-12, np.inf, self.completion.quantile(high))
        return np.where(goal <= 0, 0.0, t)
