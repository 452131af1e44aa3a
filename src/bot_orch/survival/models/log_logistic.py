"""Log-logistic times: the odds of having finished are a power of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.survival.base import Fit
from bot_orch.survival.models.location_scale import Standard, Triple, fit_location_scale
from bot_orch.survival.models.scale_shape import ScaleShapeModel

__all__ = ["LOGISTIC", "LogLogistic", "fit_log_logistic"]


def _probability(w: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -w))


def _log_density(w: Floats) -> Triple:
    p = _probability(w)
    return w - 2 * np.logaddexp(0.0, w), 1 - 2 * p, -2 * p * (1 - p)


def _log_survival(w: Floats) -> Triple:
    p = _probability(w)
    return -np.logaddexp(0.0, w), -p, -p * (1 - p)


def _at_hazard(h: Floats) -> Floats:
    # log(e^h - 1), numerically stable for small and large h
    return h + np.log(-np.expm1(-h))


LOGISTIC = Standard(_log_density, _log_survival, _at_hazard)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class LogLogistic(ScaleShapeModel):
    """S(t) = 1 / (1 + (t / scale)^shape); the scale is the median time.

    Examples
    --------
    >>> LogLogistic(scale_s=10.0, shape=2.0).survival([5.0, 10.0, 30.0])
    array([0.8, 0.5, 0.1])
    """

    standard: ClassVar[Standard] = LOGISTIC


def fit_log_logistic(
    t_s: npt.ArrayLike, event: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Fit[LogLogistic]:
    """Maximum likelihood from right-censored times on the last axis.

    Examples
    --------
    >>> fit = fit_log_logistic([1.0, 2.0, 4.0], [True, True, True])
    >>> fit.model.scale_s.round(6)  # symmetric in log time
    np.float64(2.0)
    """
    return fit_location_scale(LogLogistic, t_s, event, weights)
