"""Weibull times: the hazard is a power of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.survival.base import Fit
from bot_orch.survival.models.location_scale import EXTREME_VALUE, Standard, fit_location_scale
from bot_orch.survival.models.scale_shape import ScaleShapeModel

__all__ = ["Weibull", "fit_weibull"]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Weibull(ScaleShapeModel):
    """S(t) = exp(-(t / scale)^shape).

    The hazard increases for shape above 1 and decreases for shape below 1.

    Examples
    --------
    >>> model = Weibull(scale_s=10.0, shape=[0.5, 2.0])
    >>> model.survival(20.0).round(3)
    array([0.243, 0.018])
    >>> bool(np.allclose(model.survival(model.sample(0.3)), 0.7))
    True
    """

    standard: ClassVar[Standard] = EXTREME_VALUE

    def with_hazard_ratio(self, ratio: npt.ArrayLike) -> Self:
        """The Weibull whose hazard is ``ratio`` times as high."""
        return type(self)(self.scale_s * np.asarray(ratio, dtype=float) ** (-1 / self.shape), self.shape)


def fit_weibull(t_s: npt.ArrayLike, event: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Fit[Weibull]:
    """Maximum likelihood from right-censored times on the last axis.

    Examples
    --------
    >>> fit = fit_weibull([1.0, 2.0, 3.0, 4.0], [True, True, True, False])
    >>> fit.model.scale_s.round(4), fit.model.shape.round(4)
    (np.float64(3.1619), np.float64(1.8315))
    """
    return fit_location_scale(Weibull, t_s, event, weights)
