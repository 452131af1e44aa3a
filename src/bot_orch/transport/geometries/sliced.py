"""Embeddings in R^d: quantile functions along a tight frame of directions, a certified lower bound of W1 or W2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator
from bot_orch.transport.geometries.base import QuantileGeometry, check_order, cloud_of
from bot_orch.transport.quantiles import sample_cell_means
from bot_orch.types import Measure

_PLANE = 32  # directions in d = 2: a multiple of two, so that direction k and k + 16 are orthogonal


@dataclass(frozen=True)
class Sliced(QuantileGeometry):
    """Sliced W_p over an orthonormal frame u_1 .. u_d (in the plane: 32 equispaced directions).

    With L directions forming a tight frame, |x - y|^2 = (d / L) sum_k (u_k . (x - y))^2, so
    W2^2 >= (d / L) sum_k W2^2(u_k . mu, u_k . nu). For W1 the sum over directions is divided by the largest value
    sum_k |u_k . v| can take on the unit sphere: sqrt(d) for a frame, 1 / sin(pi / 2L) in the plane. Both are lower
    bounds of the true distance [1]_; a translation by v has W2 distance |v|.

    Parameters
    ----------
    seed
        Seed of the random orthonormal frame.

    References
    ----------
    .. [1] Bonneel, Rabin, Peyre, Pfister. Sliced and Radon Wasserstein barycenters of measures. JMIV 2015.

    Examples
    --------
    >>> from bot_orch.transport import Cloud
    >>> geometry = Sliced(dimension=3)
    >>> cloud = np.eye(3)
    >>> bank = geometry.embed(Cloud(cloud + [0.0, 3.0, 4.0]))[None]
    >>> geometry.distances(bank, geometry.embed(Cloud(cloud))).round(12)
    array([5.])
    """

    name: ClassVar[str] = "sliced"
    kind: ClassVar[str] = "cloud"
    cells: int = 16
    dimension: int = 2
    order: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.dimension < 1 or self.cells < 2:
            raise InvalidInputError(
                "sliced", f"has dimension {self.dimension} and {self.cells} cells", "pass dimension >= 1, cells >= 2"
            )

    @property
    def certificate(self) -> str:
        """Always ``lower_bound``."""
        return "lower_bound"

    @cached_property
    def frame(self) -> Floats:
        """The directions, (d, L)."""
        d = self.dimension
        if d == 2:
            angles = np.pi * np.arange(_PLANE) / _PLANE
            return np.stack([np.cos(angles), np.sin(angles)])
        q, r = np.linalg.qr(generator("sliced", d, self.seed).normal(size=(d, d)))
        return np.asarray(q * np.sign(np.diag(r)), dtype=float)

    @property
    def n_tracks(self) -> int:
        """Number L of directions."""
        return _PLANE if self.dimension == 2 else self.dimension

    @property
    def constant(self) -> float:
        """The factor that makes the sum over directions a lower bound."""
        if self.order == 2:
            return float(np.sqrt(self.dimension / self.n_tracks))
        if self.dimension == 2:
            return float(np.sin(0.5 * np.pi / _PLANE))
        return float(1.0 / np.sqrt(self.dimension))

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """A point, (d,)."""
        return (self.dimension,)

    def tracks(self, outcomes: Floats) -> Floats:
        """Projections onto the frame."""
        return outcomes @ self.frame

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Points and weights of a cloud."""
        return cloud_of(measure, self.dimension)

    def embed(self, measure: Measure) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        points, weights = cloud_of(measure, self.dimension)
        views = self.tracks(points).T
        order = np.argsort(views, axis=1, kind="stable")
        means = sample_cell_means(np.take_along_axis(views, order, 1), weights[order], self.cells)
        return (means * self.scale).reshape(self.width)
