"""Growth rates: the slope of a curve on log-log axes, with a confidence interval over seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.rng import generator

__all__ = ["Slope", "loglog_slope"]


@dataclass(frozen=True, slots=True)
class Slope:
    """A fitted exponent and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def loglog_slope(x: npt.ArrayLike, values: npt.ArrayLike, resamples: int = 1000) -> Slope:
    """Least-squares slope of log mean(values) on log x; the interval is a bootstrap over seeds.

    Parameters
    ----------
    x
        Horizons, ``(n,)``.
    values
        ``(n, seeds)``. Means that are not positive count as 1e-12, so that a vanished quantity shows as one.

    Examples
    --------
    >>> str(loglog_slope([1, 10, 100], [[2, 4], [20, 40], [200, 400]]))
    '1.00 [1.00, 1.00]'
    """
    v = np.atleast_2d(np.asarray(values, dtype=float))
    centred = np.log(np.asarray(x, dtype=float))
    centred -= centred.mean()

    def fit(mean: Floats) -> Floats:
        fitted: Floats = centred @ np.log(np.maximum(mean, 1e-12)) / (centred @ centred)
        return fitted

    picks = generator("theory", "bootstrap").integers(v.shape[1], size=(v.shape[1], resamples))
    low, high = np.quantile(fit(v[:, picks].mean(axis=1)), [0.025, 0.975])
    return Slope(float(fit(v.mean(axis=1))), float(low), float(high))
