"""Frailty: a latent multiplier theta of the hazard, common to all agents on a task, with mean 1.

Given theta, the times of different agents are independent with survival ``S_i(t)^theta``. Marginally they are
dependent: one slow agent suggests a hard task, on which the others are slow too. Theta is never observed, but outcomes
determine its posterior: with ``d`` events and total cumulative hazard ``H`` so far the likelihood is
``theta^d exp(-theta H)``.

Both laws are given by a quantile function of a normal number ``z``, which also drives the history-dependent version
(:mod:`~bot_orch.survival.frailty_process`) and the quadrature: integrals against the normal density by the
trapezoidal rule, which converges geometrically for such integrands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import SurvivalModel
from bot_orch.survival.quadrature import normal_nodes
from bot_orch.survival.special import gamma_quantile, normal_quantile

__all__ = ["Baseline", "Frailty", "GammaFrailty", "LogNormalFrailty", "conditional_survival", "marginal_survival"]


class Frailty(ABC):
    """Distribution of theta: positive, mean 1, with a given variance; variance 0 means theta = 1."""

    __slots__ = ()
    variance: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.variance) and self.variance >= 0):
            raise InvalidInputError("variance", f"is {self.variance}", "pass a variance of zero or more")

    @abstractmethod
    def at_normal(self, z: npt.ArrayLike) -> Floats:
        """The quantile at P(Z <= z): increasing in z, and distributed as theta if z is standard normal."""

    @abstractmethod
    def laplace(self, s: npt.ArrayLike) -> Floats:
        """E exp(-s theta): the marginal survival at cumulative hazard s."""

    @abstractmethod
    def hazard_of_marginal(self, survival: npt.ArrayLike) -> Floats:
        """The baseline cumulative hazard H with ``laplace(H) = survival``."""

    def sample(self, u: npt.ArrayLike) -> Floats:
        """Draws from uniforms in [0, 1)."""
        u = np.clip(np.asarray(u, dtype=float), 1e-300, 1 - 1e-16)
        return self.at_normal(normal_quantile(u))

    def log_posterior(self, events: npt.ArrayLike, hazard: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Nodes of theta and their normalised log weights ``(..., n)`` after these outcomes."""
        z, log_weights = normal_nodes()
        theta = self.at_normal(z)
        d, h = (np.asarray(part, dtype=float)[..., None] for part in (events, hazard))
        log_theta = np.log(np.maximum(theta, 1e-300))
        joint = log_weights + np.where(d > 0, d * log_theta, 0.0) - h * theta
        joint = joint - joint.max(axis=-1, keepdims=True)
        return theta, joint - np.log(np.sum(np.exp(joint), axis=-1, keepdims=True))

    def posterior_mean(self, events: npt.ArrayLike, hazard: npt.ArrayLike) -> Floats:
        """E[theta | outcomes] after ``events`` completions and total baseline cumulative ``hazard``.

        A censored outcome adds hazard but no event, so repeated timeouts indicate a hard task (small theta).
        """
        theta, log_p = self.log_posterior(events, hazard)
        return np.asarray(np.sum(np.exp(log_p) * theta, axis=-1))

    def posterior_survival(self, s: npt.ArrayLike, events: npt.ArrayLike, hazard: npt.ArrayLike) -> Floats:
        """E[exp(-s theta) | outcomes]: predicted survival of the next attempt."""
        theta, log_p = self.log_posterior(events, hazard)
        return np.asarray(np.sum(np.exp(log_p - np.asarray(s, dtype=float)[..., None] * theta), axis=-1))

    def kendall_tau(self) -> float:
        """Kendall's tau between the times of two agents on one task.

        For any frailty it is ``E ((theta - theta') / (theta + theta'))^2`` with theta' an independent copy.
        """
        z, log_weights = normal_nodes()
        theta, p = self.at_normal(z), np.exp(log_weights)
        ratio = (theta[:, None] - theta) / np.maximum(theta[:, None] + theta, 1e-300)
        return float(p @ ratio**2 @ p)


@dataclass(frozen=True)
class GammaFrailty(Frailty):
    """Gamma distribution with mean 1: conjugate, with closed forms.

    Examples
    --------
    >>> law = GammaFrailty(variance=0.5)
    >>> law.laplace(1.0).round(4)  # (1 + v H)^(-1/v)
    np.float64(0.4444)
    >>> law.posterior_mean(events=0, hazard=3.0).round(2)  # (1/v + d) / (1/v + H): it did not finish, so it is hard
    np.float64(0.4)
    >>> law.kendall_tau()  # v / (v + 2)
    0.2
    """

    variance: float

    def at_normal(self, z: npt.ArrayLike) -> Floats:
        """Gamma quantile at P(Z <= z)."""
        if self.variance == 0:
            return np.ones(np.shape(z))
        return self.variance * gamma_quantile(1 / self.variance, z)

    def laplace(self, s: npt.ArrayLike) -> Floats:
        """(1 + v s)^(-1/v)."""
        s = np.asarray(s, dtype=float)
        return np.asarray(np.exp(-s if self.variance == 0 else -np.log1p(self.variance * s) / self.variance))

    def hazard_of_marginal(self, survival: npt.ArrayLike) -> Floats:
        """(S^-v - 1) / v."""
        with np.errstate(divide="ignore"):
            log_s = np.log(np.asarray(survival, dtype=float))
        return np.asarray(-log_s if self.variance == 0 else np.expm1(-self.variance * log_s) / self.variance)

    def posterior_mean(self, events: npt.ArrayLike, hazard: npt.ArrayLike) -> Floats:
        """(1/v + d) / (1/v + H)."""
        d, h = np.asarray(events, dtype=float), np.asarray(hazard, dtype=float)
        return (1 + self.variance * d) / (1 + self.variance * h)

    def posterior_survival(self, s: npt.ArrayLike, events: npt.ArrayLike, hazard: npt.ArrayLike) -> Floats:
        """(1 + s / (1/v + H))^-(1/v + d)."""
        s, d, h = (np.asarray(part, dtype=float) for part in (s, events, hazard))
        if self.variance == 0:
            return np.asarray(np.exp(-s) + 0.0 * d)
        return np.asarray(np.exp(-(1 / self.variance + d) * np.log1p(s / (1 / self.variance + h))))

    def kendall_tau(self) -> float:
        """The closed form v / (v + 2)."""
        return self.variance / (self.variance + 2)


@dataclass(frozen=True)
class LogNormalFrailty(Frailty):
    """Log-normal with mean 1: ``theta = exp(sigma z - sigma^2 / 2)``, ``sigma^2 = log(1 + variance)``.

    Laplace transform and posterior by quadrature.

    Examples
    --------
    >>> law = LogNormalFrailty(variance=0.5)
    >>> law.posterior_mean(events=0, hazard=0.0).round(6)
    np.float64(1.0)
    >>> bool(law.posterior_mean(events=0, hazard=3.0) < 1)
    True
    """

    variance: float

    @property
    def sigma(self) -> float:
        """The standard deviation of log theta."""
        return float(np.sqrt(np.log1p(self.variance)))

    def at_normal(self, z: npt.ArrayLike) -> Floats:
        """exp(sigma z - sigma^2 / 2)."""
        return np.exp(self.sigma * np.asarray(z, dtype=float) - self.sigma**2 / 2)

    def laplace(self, s: npt.ArrayLike) -> Floats:
        """E exp(-s theta), by quadrature."""
        return self.posterior_survival(s, 0.0, 0.0)

    def hazard_of_marginal(self, survival: npt.ArrayLike) -> Floats:
        """Invert :meth:`laplace` by Newton's method on its logarithm, which is convex."""
        with np.errstate(divide="ignore"):
            goal = np.log(np.asarray(survival, dtype=float))
        s = np.maximum(-goal, 0.0)  # a lower bound by Jensen, from which Newton converges monotonically
        finite = np.isfinite(s)
        s = np.where(finite, s, 1.0)
        for _ in range(100):
            theta, log_p = self.log_posterior(0.0, s)
            value = np.log(self.laplace(s))
            step = (value - np.where(finite, goal, value)) / np.sum(np.exp(log_p) * theta, axis=-1)
            s = np.maximum(s + step, 0.0)
            if np.all(np.abs(step) <= 1e-13 * (1 + s)):
                break
        return np.where(finite, s, np.inf)


def conditional_survival(model: SurvivalModel, t_s: npt.ArrayLike, theta: npt.ArrayLike) -> Floats:
    """Conditional survival given theta, S(t)^theta."""
    return np.asarray(model.survival(t_s) ** np.asarray(theta, dtype=float))


def marginal_survival(model: SurvivalModel, t_s: npt.ArrayLike, frailty: Frailty) -> Floats:
    """Marginal survival E S(t)^theta: what an empirical distribution of completion times estimates.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> marginal_survival(Exponential(1.0), 1.0, GammaFrailty(1.0))
    array(0.5)
    """
    return frailty.laplace(model.cumulative_hazard(t_s))


@dataclass(frozen=True, slots=True, eq=False)
class Baseline(SurvivalModel):
    """The baseline S of a marginal model: ``E S(t)^theta = marginal.survival(t)``.

    A model fitted to completion times of many tasks estimates the *marginal* survival, with theta averaged
    out. The reward ``S(T)^theta`` needs the baseline, which this class recovers.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> fitted, law = Exponential(10.0), GammaFrailty(0.5)
    >>> marginal_survival(Baseline(fitted, law), [5.0, 20.0], law).round(6) == fitted.survival([5.0, 20.0]).round(6)
    array([ True,  True])
    """

    marginal: SurvivalModel
    frailty: Frailty
    own_axes: ClassVar[Mapping[str, int]] = {}

    @property
    def lead(self) -> tuple[int, ...]:
        """Batch and agent dimensions of the marginal model."""
        return self.marginal.lead

    def select(self, index: Any) -> Baseline:
        """The baseline of the agents at ``index``."""
        return Baseline(self.marginal.select(index), self.frailty)

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The H whose Laplace transform is the marginal survival."""
        return self.frailty.hazard_of_marginal(self.marginal.survival(t_s))

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The log of the marginal hazard divided by the mean theta of tasks still running."""
        still = self.frailty.posterior_mean(0.0, self.cumulative_hazard(t_s))
        return self.marginal.log_hazard(t_s) - np.log(still)

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """The time at which the marginal survival equals the Laplace transform at the given hazard."""
        with np.errstate(divide="ignore"):
            return self.marginal.time_at(-np.log(self.frailty.laplace(cumulative_hazard)))
