"""Log-normal times: the logarithm of time is normal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.survival.base import Fit
from bot_orch.survival.models.location_scale import LocationScaleModel, Standard, Triple, fit_location_scale
from bot_orch.survival.special import log_normal_sf, normal_isf_exp

__all__ = ["NORMAL", "LogNormal", "fit_log_normal"]

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)


def _log_density(w: Floats) -> Triple:
    return -0.5 * w**2 - _LOG_SQRT_2PI, -w, -np.ones_like(w)


def _log_survival(w: Floats) -> Triple:
    log_sf = log_normal_sf(w)
    finite = np.where(np.isfinite(w), w, 0.0)
    hazard = np.exp(-0.5 * finite**2 - _LOG_SQRT_2PI - np.where(np.isfinite(w), log_sf, 0.0))
    return log_sf, -hazard, -hazard * (hazard - finite)


NORMAL = Standard(_log_density, _log_survival, lambda h: normal_isf_exp(-h))


@dataclass(frozen=True, slots=True, eq=False)
class LogNormal(LocationScaleModel):
    """S(t) = P(Z > (log t - mu) / sigma); exp(mu) is the median time in seconds.

    Examples
    --------
    >>> model = LogNormal(mu=np.log(10.0), sigma=0.5)
    >>> model.survival([0.0, 10.0]).round(3)
    array([1. , 0.5])
    """

    mu: Floats
    sigma: Floats
    standard: ClassVar[Standard] = NORMAL
    own_axes: ClassVar[Mapping[str, int]] = {"mu": 0, "sigma": 0}

    def __init__(self, mu: npt.ArrayLike, sigma: npt.ArrayLike) -> None:
        object.__setattr__(self, "mu", np.asarray(mu, dtype=float))
        object.__setattr__(self, "sigma", np.asarray(sigma, dtype=float))

    @property
    def location(self) -> Floats:
        """The location mu."""
        return self.mu

    @property
    def spread(self) -> Floats:
        """The scale sigma."""
        return self.sigma

    @classmethod
    def from_location(cls, mu: npt.ArrayLike, sigma: npt.ArrayLike) -> Self:
        """The log-normal with these parameters."""
        return cls(mu, sigma)


def fit_log_normal(t_s: npt.ArrayLike, event: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Fit[LogNormal]:
    """Maximum likelihood from right-censored times on the last axis.

    Examples
    --------
    >>> fit = fit_log_normal(np.exp([0.0, 1.0, 2.0]), [True, True, True])
    >>> fit.model.mu.round(6), fit.model.sigma.round(6)
    (np.float64(1.0), np.float64(0.816497))
    """
    return fit_location_scale(LogNormal, t_s, event, weights)
