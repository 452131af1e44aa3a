"""Unbounded real numbers: W1 or W2 from quantile functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import QuantileGeometry, check_order, samples_of
from bot_orch.transport.quantiles import sample_cell_means
from bot_orch.types import Measure


@dataclass(frozen=True)
class Scalars(QuantileGeometry):
    """W_p between one-dimensional distributions, W_p^p = integral over (0, 1) of |Q_mu - Q_nu|^p.

    Quantile functions are stored as means over ``cells`` cosine-spaced cells. The result never exceeds W_p; for smooth
    distributions 64 cells underestimate it by well under one per cent.

    Examples
    --------
    >>> from bot_orch.transport import Samples
    >>> geometry = Scalars(order=2)
    >>> bank = np.stack([geometry.embed(Samples([0.0, 1.0])), geometry.embed(Samples([5.0]))])
    >>> geometry.distances(bank, geometry.embed(Samples([1.0, 2.0]))).round(12)
    array([1.        , 3.53553391])
    """

    name: ClassVar[str] = "scalars"
    kind: ClassVar[str] = "samples"
    cells: int = 64
    order: int = 1

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.cells < 2:
            raise InvalidInputError("cells", f"is {self.cells}", "pass two or more")

    @property
    def certificate(self) -> str:
        """``lower_bound``, by Jensen's inequality in every cell."""
        return "lower_bound"

    @property
    def n_tracks(self) -> int:
        """A single track."""
        return 1

    @property
    def constant(self) -> float:
        """1: a single track needs no factor."""
        return 1.0

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """A scalar, ()."""
        return ()

    def tracks(self, outcomes: Floats) -> Floats:
        """The scalar itself, on a new last axis."""
        return np.asarray(outcomes)[..., None]

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Values and weights of samples."""
        return samples_of(measure)

    def embed(self, measure: Measure) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        values, weights = samples_of(measure)
        order = np.argsort(values, kind="stable")
        return sample_cell_means(values[order], weights[order], self.cells) * self.scale
