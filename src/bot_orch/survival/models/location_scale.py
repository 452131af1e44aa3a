"""Location-scale models of log time: ``log T = mu + sigma * W``.

``W`` has the minimum extreme value (Weibull), normal (log-normal) or logistic (log-logistic) distribution. In the
coordinates ``(phi, eta) = (1, mu) / sigma`` the right-censored log-likelihood of all three is concave [1]_, so
Newton's method finds the unique maximum from any start, for many agents and seeds at once.

Covariates move the location, ``mu + x . beta``: accelerated failure time.

References
----------
.. [1] Burridge. A note on maximum likelihood estimation for regression models using grouped data. JRSS B 43, 1981.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.survival.base import Fit, SurvivalModel, check_observations
from bot_orch.survival.newton import Maximum, maximise

__all__ = ["EXTREME_VALUE", "LocationScaleModel", "Standard", "fit_location_scale"]

SHORTEST_S = 1e-9  # lower bound on times, because log 0 is undefined
Triple = tuple[Floats, Floats, Floats]


@dataclass(frozen=True, slots=True)
class Standard:
    """Distribution of W: value and two derivatives of log density and log survival, and the inverse hazard."""

    log_density: Callable[[Floats], Triple]
    log_survival: Callable[[Floats], Triple]
    at_hazard: Callable[[Floats], Floats]

    def terms(self, w: Floats, event: Bools) -> Triple:
        """Log-likelihood terms: log density of events, log survival of censored times."""
        seen, unseen = self.log_density(w), self.log_survival(w)
        return (
            np.where(event, seen[0], unseen[0]),
            np.where(event, seen[1], unseen[1]),
            np.where(event, seen[2], unseen[2]),
        )


def _extreme_log_density(w: Floats) -> Triple:
    e = np.exp(w)
    return w - e, 1 - e, -e


def _extreme_log_survival(w: Floats) -> Triple:
    e = np.exp(w)
    return -e, -e, -e


EXTREME_VALUE = Standard(_extreme_log_density, _extreme_log_survival, np.log)


class LocationScaleModel(SurvivalModel):
    """A survival model whose log time has a location ``mu`` and a scale ``sigma``."""

    standard: ClassVar[Standard]
    fixed_spread: ClassVar[bool] = False  # sigma = 1, as in the exponential

    @property
    @abstractmethod
    def location(self) -> Floats:
        """The location mu."""

    @property
    @abstractmethod
    def spread(self) -> Floats:
        """The scale sigma."""

    @classmethod
    @abstractmethod
    def from_location(cls, mu: npt.ArrayLike, sigma: npt.ArrayLike) -> Self:
        """The model with this location and scale of log time."""

    def accelerated(self, factor: npt.ArrayLike) -> Self:
        """The model of ``factor * T``."""
        return self.from_location(self.location + np.log(factor), self.spread)

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """H(t) = -log P(W > (log t - mu) / sigma)."""
        with np.errstate(divide="ignore", over="ignore"):
            w = (np.log(np.asarray(t_s, dtype=float)) - self.location) / self.spread
            return -self.standard.log_survival(w)[0]

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The logarithm of h(t)."""
        y = np.log(np.maximum(np.asarray(t_s, dtype=float), 1e-300))
        with np.errstate(over="ignore", invalid="ignore"):
            w = (y - self.location) / self.spread
            log_h = self.standard.log_density(w)[0] - self.standard.log_survival(w)[0] - np.log(self.spread) - y
        return np.where(np.isneginf(w), -np.inf, log_h)

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """exp(mu + sigma * w) where -log P(W > w) is the given hazard."""
        with np.errstate(divide="ignore", over="ignore"):
            w = self.standard.at_hazard(np.asarray(cumulative_hazard, dtype=float))
            return np.where(np.isposinf(self.location), np.inf, np.exp(self.location + self.spread * w))


class LogData(NamedTuple):
    """Standardised log times and covariates, with shifts and scales."""

    y: Floats  # (..., n)
    z: Floats  # (..., n, 1 + d), the first column is 1
    y_shift: Floats
    y_scale: Floats
    x_shift: Floats
    x_scale: Floats


def log_times(t_s: Floats) -> Floats:
    """Logarithms of times clipped to at least one nanosecond."""
    return np.log(np.maximum(t_s, SHORTEST_S))


def likelihood(standard: Standard, p: Floats, y: Floats, z: Floats, event: Bools, weights: Floats) -> Triple:
    """Value, gradient and Hessian in ``p = (phi, eta)`` of the log-likelihood of log times.

    ``w = phi * y - z . eta``; a ``p`` without ``phi`` (one entry fewer) has it fixed at 1, as in the exponential.
    """
    free = p.shape[-1] == z.shape[-1] + 1
    phi = p[..., 0] if free else np.ones(p.shape[:-1])
    positive = np.where(phi > 0, phi, 1.0)
    eta = p[..., 1:] if free else p
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        w = phi[..., None] * y - np.einsum("...nj,...j->...n", z, eta)
        value, first, second = (weights * part for part in standard.terms(w, event))
        n_events = np.sum(weights * event, axis=-1)
        # phi <= 0 is outside the domain: a value of -inf makes the step halve
        total = np.where(phi > 0, np.sum(value, axis=-1) + n_events * np.log(positive), -np.inf)
        slope = np.concatenate([y[..., None], -z], axis=-1) if free else -z
        gradient = np.einsum("...n,...nj->...j", first, slope)
        hessian = np.einsum("...n,...nj,...nk->...jk", second, slope, slope, optimize=True)
    if free:
        gradient[..., 0] += n_events / positive
        hessian[..., 0, 0] -= n_events / positive**2
    bad = ~np.isfinite(total)
    gradient[bad], hessian[bad] = 0.0, -np.eye(p.shape[-1])
    return total, gradient, hessian


def standardise(y: Floats, x: Floats | None, weights: Floats, fixed_scale: bool) -> LogData:
    """Centre and scale, so that Newton starts near the maximum for any unit of time."""
    total = np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    shift = np.sum(weights * y, axis=-1, keepdims=True) / total
    deviation = np.sqrt(np.sum(weights * (y - shift) ** 2, axis=-1, keepdims=True) / total)
    scale = np.where((deviation > 1e-12) & (not fixed_scale), deviation, 1.0)
    x = np.zeros((*y.shape, 0)) if x is None else x
    x_shift = np.sum(weights[..., None] * x, axis=-2, keepdims=True) / total[..., None]
    x_dev = np.sqrt(np.sum(weights[..., None] * (x - x_shift) ** 2, axis=-2, keepdims=True) / total[..., None])
    x_scale = np.where(x_dev > 1e-12, x_dev, 1.0)
    z = np.concatenate([np.ones((*y.shape, 1)), (x - x_shift) / x_scale], axis=-1)
    return LogData((y - shift) / scale, z, shift[..., 0], scale[..., 0], x_shift[..., 0, :], x_scale[..., 0, :])


def fit_log_times(
    standard: Standard, y: Floats, event: Bools, weights: Floats, x: Floats | None = None, fixed_scale: bool = False
) -> tuple[Floats, Floats, Floats, Maximum]:
    """Maximum likelihood: ``(mu, sigma, beta, maximum)``; rows without any event get ``mu = inf`` and ``sigma = 1``."""
    data = standardise(y, x, weights, fixed_scale)
    d = data.z.shape[-1] - 1
    start = np.zeros((*y.shape[:-1], d + 1 + (not fixed_scale)))
    if not fixed_scale:
        start[..., 0] = 1.0
    top = maximise(lambda p: likelihood(standard, p, data.y, data.z, event, weights), start)
    phi = top.argument[..., 0] if not fixed_scale else np.ones(y.shape[:-1])
    eta = top.argument if fixed_scale else top.argument[..., 1:]
    sigma = data.y_scale / phi
    beta = sigma[..., None] * eta[..., 1:] / data.x_scale
    mu = data.y_shift + sigma * eta[..., 0] - np.sum(beta * data.x_shift, axis=-1)
    n_events = np.sum(weights * event, axis=-1)
    some = n_events > 0
    # The Jacobian of log t, and of the standardised scale.
    value = top.value - np.sum(weights * event * y, axis=-1) - n_events * np.log(data.y_scale)
    top = top._replace(value=np.where(some, value, 0.0), converged=top.converged & some)
    return np.where(some, mu, np.inf), np.where(some, sigma, 1.0), np.where(some[..., None], beta, 0.0), top


ModelT = TypeVar("ModelT", bound=LocationScaleModel)


def fit_location_scale(
    kind: type[ModelT], t_s: npt.ArrayLike, event: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Fit[ModelT]:
    """Fit a model of this kind to right-censored times on the last axis, one fit per leading row."""
    data = check_observations(t_s, event, weights)
    y = log_times(data.t_s)
    mu, sigma, _, top = fit_log_times(kind.standard, y, data.event, data.weights, fixed_scale=kind.fixed_spread)
    return Fit(kind.from_location(mu, sigma), top.value, top.converged, n_iterations=top.n_iterations)
