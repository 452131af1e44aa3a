"""Covariates: task features that change the time scale or the hazard.

Accelerated time, ``T = exp(x . beta) T_0``, is natural for the log-normal and log-logistic; proportional hazards,
``h(t | x) = exp(x . beta) h_0(t)``, for a piecewise-constant hazard. For exponential and Weibull times the two are the
same family: a factor ``a`` on time is a ratio ``a^-shape`` on the hazard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import Fit, Observations, check_observations
from bot_orch.survival.models.location_scale import LocationScaleModel, fit_log_times, log_times
from bot_orch.survival.models.piecewise import PiecewiseConstant, exposures, interval
from bot_orch.survival.newton import maximise

__all__ = ["AcceleratedTime", "ProportionalHazards", "fit_accelerated", "fit_proportional"]

TimeModel = TypeVar("TimeModel", bound=LocationScaleModel)


class _HasRatio(Protocol):
    def with_hazard_ratio(self, ratio: npt.ArrayLike) -> Self: ...


HazardModel = TypeVar("HazardModel", bound=_HasRatio)


@dataclass(frozen=True, slots=True, eq=False)
class AcceleratedTime(Generic[TimeModel]):
    """Accelerated failure time, T = exp(x . beta) T_0.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> model = AcceleratedTime(Exponential(10.0), np.array([np.log(2.0)]))
    >>> model.at([1.0]).scale_s
    array(20.)
    """

    base: TimeModel
    coefficients: Floats

    def at(self, x: npt.ArrayLike) -> TimeModel:
        """The model of tasks with features ``x`` (on the last axis)."""
        return self.base.accelerated(np.exp(np.sum(np.asarray(x, dtype=float) * self.coefficients, axis=-1)))


@dataclass(frozen=True, slots=True, eq=False)
class ProportionalHazards(Generic[HazardModel]):
    """h(t | x) = exp(x . beta) h_0(t).

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> model = ProportionalHazards(Exponential(10.0), np.array([np.log(2.0)]))
    >>> model.at([1.0]).scale_s
    array(5.)
    """

    base: HazardModel
    coefficients: Floats

    def at(self, x: npt.ArrayLike) -> HazardModel:
        """The model of tasks with features ``x`` (on the last axis)."""
        return self.base.with_hazard_ratio(np.exp(np.sum(np.asarray(x, dtype=float) * self.coefficients, axis=-1)))


def check_features(x: npt.ArrayLike, lead: tuple[int, ...]) -> Floats:
    """Features of shape ``lead + (d,)``."""
    features = np.asarray(x, dtype=float)
    if features.ndim == 0 or not np.all(np.isfinite(features)):
        raise InvalidInputError("x", "is not an array of finite numbers", "pass features on the last axis")
    return np.broadcast_to(features, (*lead, features.shape[-1]))


def fit_accelerated(
    kind: type[TimeModel],
    t_s: npt.ArrayLike,
    event: npt.ArrayLike,
    x: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
) -> Fit[AcceleratedTime[TimeModel]]:
    """Joint maximum likelihood of base model and coefficients.

    Times have shape ``(..., n)``, features ``(..., n, d)``.

    Examples
    --------
    >>> from bot_orch.survival.models.exponential import Exponential
    >>> x = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> fit = fit_accelerated(Exponential, [1.0, 3.0, 8.0, 8.0], [True] * 4, x)
    >>> fit.model.at([1.0]).scale_s.round(6)
    np.float64(8.0)
    """
    data = check_observations(t_s, event, weights)
    features = check_features(x, data.t_s.shape)
    y = log_times(data.t_s)
    mu, sigma, beta, top = fit_log_times(
        kind.standard, y, data.event, data.weights, features, fixed_scale=kind.fixed_spread
    )
    model = AcceleratedTime(kind.from_location(mu, sigma), beta)
    return Fit(model, top.value, top.converged, n_iterations=top.n_iterations)


def fit_proportional(
    t_s: npt.ArrayLike,
    event: npt.ArrayLike,
    x: npt.ArrayLike,
    breaks_s: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
) -> Fit[ProportionalHazards[PiecewiseConstant]]:
    """Proportional hazards over a piecewise-constant baseline, by the profile likelihood of the coefficients.

    Given beta, the rate of an interval is its events over its hazard-weighted exposure; the profile is concave in
    beta. With a break at every event time, and censoring only at those times, it is Cox's partial likelihood [1]_.

    References
    ----------
    .. [1] Holford. The analysis of rates and of survivorship using log-linear models. Biometrics 36, 1980.

    Examples
    --------
    >>> x = np.array([[0.0], [0.0], [1.0], [1.0]])
    >>> fit = fit_proportional([4.0, 4.0, 1.0, 3.0], [True] * 4, x, breaks_s=[10.0])
    >>> np.exp(fit.model.coefficients).round(6)  # the rates are 1/4 and 1/2
    array([2.])
    """
    data = check_observations(t_s, event, weights)
    features = check_features(x, data.t_s.shape)
    total = np.maximum(data.weights.sum(axis=-1), 1e-300)[..., None]
    centre = np.sum(data.weights[..., None] * features, axis=-2) / total
    z = features - centre[..., None, :]
    breaks = np.asarray(breaks_s, dtype=float)
    profile = _Profile(data, z, breaks)
    top = maximise(profile.terms, np.zeros((*data.t_s.shape[:-1], z.shape[-1])))
    rates = profile.rates(top.argument) * np.exp(-np.sum(top.argument * centre, axis=-1))[..., None]
    model = ProportionalHazards(PiecewiseConstant(breaks, rates), top.argument)
    return Fit(model, top.value, top.converged, n_iterations=top.n_iterations)


class _Profile:
    """The profile likelihood: rates are eliminated interval by interval."""

    def __init__(self, data: Observations, z: Floats, breaks: Floats) -> None:
        seen: Floats = data.weights * data.event
        hit: Bools = interval(data.t_s, breaks)[..., None] == np.arange(breaks.size + 1)
        self.z = z
        self.events = np.sum(seen[..., None] * hit, axis=-2)
        self.exposure = data.weights[..., None] * exposures(data.t_s, breaks)
        self.score = np.einsum("...n,...nj->...j", seen, z)

    def _shares(self, beta: Floats) -> tuple[Floats, Floats]:
        risk = np.exp(np.einsum("...nj,...j->...n", self.z, beta))[..., None] * self.exposure
        total = risk.sum(axis=-2)
        shares = np.divide(risk, total[..., None, :], out=np.zeros_like(risk), where=total[..., None, :] > 0)
        return total, shares

    def rates(self, beta: Floats) -> Floats:
        total, _ = self._shares(beta)
        return np.asarray(np.divide(self.events, total, out=np.zeros_like(total), where=total > 0))

    def terms(self, beta: Floats) -> tuple[Floats, Floats, Floats]:
        total, shares = self._shares(beta)
        rates = np.divide(self.events, total, out=np.ones_like(total), where=self.events > 0)
        value = np.sum(self.events * (np.log(rates) - 1), axis=-1) + np.sum(self.score * beta, axis=-1)
        mean = np.einsum("...nk,...nj->...kj", shares, self.z)
        pull = np.einsum("...nk,...k->...n", shares, self.events)
        gradient = self.score - np.einsum("...k,...kj->...j", self.events, mean)
        second = np.einsum("...n,...ni,...nj->...ij", pull, self.z, self.z)
        hessian = np.einsum("...k,...ki,...kj->...ij", self.events, mean, mean) - second
        return value, gradient, hessian
