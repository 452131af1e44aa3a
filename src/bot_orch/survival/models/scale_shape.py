"""Location-scale models parameterised by a scale in seconds and a shape: Weibull and log-logistic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.survival.models.location_scale import LocationScaleModel

__all__ = ["ScaleShapeModel"]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ScaleShapeModel(LocationScaleModel):
    """The log of time has the location log(scale) and the scale 1 / shape."""

    scale_s: Floats
    shape: Floats
    own_axes: ClassVar[Mapping[str, int]] = {"scale_s": 0, "shape": 0}

    def __init__(self, scale_s: npt.ArrayLike, shape: npt.ArrayLike) -> None:
        object.__setattr__(self, "scale_s", np.asarray(scale_s, dtype=float))
        object.__setattr__(self, "shape", np.asarray(shape, dtype=float))

    @property
    def location(self) -> Floats:
        """The log of the scale."""
        return np.log(self.scale_s)

    @property
    def spread(self) -> Floats:
        """1 / shape."""
        return 1 / self.shape

    @classmethod
    def from_location(cls, mu: npt.ArrayLike, sigma: npt.ArrayLike) -> Self:
        """The model whose log time has this location and scale."""
        return cls(np.exp(mu), 1 / np.asarray(sigma, dtype=float))
