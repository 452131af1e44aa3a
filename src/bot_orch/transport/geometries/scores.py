"""Bounded scores: W1 from distribution functions on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import LinearGeometry, samples_of
from bot_orch.types import Measure


@dataclass(frozen=True)
class Scores(LinearGeometry):
    """W1 between distributions of a score in [low, high], W1 = integral |F - G|.

    Coordinate j is the integral of the distribution function over grid cell j. It is linear in the measure, so
    counts and decayed counts are exact. For scores on the grid ``low + j * (high - low) / cells`` the L1 distance is W1
    exactly; between grid points it never exceeds W1.

    Parameters
    ----------
    on_grid
        Require scores on the grid (stars, percentages, 0-1 rewards); others are rejected, and the certificate
        is ``exact``.

    Examples
    --------
    >>> geometry = Scores(cells=10, on_grid=True)
    >>> bank = np.stack([geometry.embed_outcome(0.2), geometry.embed_outcome(0.9)])
    >>> geometry.distances(bank, geometry.embed_outcome(1.0)).round(12)
    array([0.8, 0.1])
    """

    name: ClassVar[str] = "scores"
    kind: ClassVar[str] = "samples"
    low: float = 0.0
    high: float = 1.0
    cells: int = 64
    on_grid: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high and self.cells >= 1):
            raise InvalidInputError(
                "scores", f"have bounds [{self.low}, {self.high}] and {self.cells} cells", "pass low < high, cells >= 1"
            )

    @property
    def certificate(self) -> str:
        """``exact`` on the grid, else ``lower_bound``."""
        return "exact" if self.on_grid else "lower_bound"

    @property
    def width(self) -> int:
        """One coordinate per cell."""
        return self.cells

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """A scalar, ()."""
        return ()

    @property
    def diameter(self) -> float:
        """The largest possible distance."""
        return self.high - self.low

    @property
    def step(self) -> float:
        """Width of a grid cell."""
        return (self.high - self.low) / self.cells

    def features(self, outcomes: Floats) -> Floats:
        """Integral of 1{x <= t} over every cell: the part of the cell above the score."""
        x = (np.asarray(outcomes)[..., None] - self.low) / self.step
        if self.on_grid:
            x = np.rint(x)
        covered: Floats = np.clip(np.arange(1.0, self.cells + 1.0) - x, 0.0, 1.0)
        return covered * self.step

    def check_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        x = super().check_outcome(outcome)
        slack = 1e-9 * (self.high - self.low)
        if ((x < self.low - slack) | (x > self.high + slack)).any():
            raise InvalidInputError("outcome", f"lies outside [{self.low}, {self.high}]", "rescale it, or use Scalars")
        if self.on_grid:
            steps = (x - self.low) / self.step
            if (np.abs(steps - np.rint(steps)) > 1e-6).any():
                raise InvalidInputError(
                    "outcome", "is not on the grid", "use on_grid=False, or another number of cells"
                )
        return x

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Values and weights of samples."""
        values, weights = samples_of(measure)
        return self.check_outcome(values), weights
