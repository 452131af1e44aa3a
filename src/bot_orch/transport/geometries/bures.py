"""Gaussians: W2 in closed form, from means and covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import LinearGeometry, cloud_of
from bot_orch.transport.measures import require
from bot_orch.transport.vectors import l2
from bot_orch.types import Measure


def psd_root(s: Floats) -> Floats:
    """The symmetric square root of positive semi-definite matrices ``(..., d, d)``."""
    values, vectors = np.linalg.eigh(s)
    roots = np.sqrt(np.clip(values, 0.0, None))
    root: Floats = (vectors * roots[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return root


@dataclass(frozen=True)
class Bures(LinearGeometry):
    """W2^2 = |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2), exact between Gaussians [1]_.

    Between any two distributions with these moments it is a lower bound of W2 (Gelbrich). ``shrinkage`` pulls learned
    covariances towards a multiple of the identity; it reduces variance for few samples but loses the certificate.

    Parameters
    ----------
    diagonal
        Use variances only: an L2 distance, still a lower bound of W2.
    clouds
        Accept point clouds (their moments) instead of Gaussians.

    References
    ----------
    .. [1] Gelbrich. On a formula for the L2 Wasserstein metric between measures on Euclidean and Hilbert spaces. 1990.

    Examples
    --------
    >>> from bot_orch.transport import Gaussian
    >>> geometry = Bures(dimension=1)
    >>> bank = geometry.embed(Gaussian([3.0], [[4.0]]))[None]
    >>> (geometry.distances(bank, geometry.embed(Gaussian([0.0], [[1.0]]))) ** 2).round(12)
    array([10.])
    """

    name: ClassVar[str] = "bures"
    kind: ClassVar[str] = "gaussian"
    dimension: int
    diagonal: bool = False
    clouds: bool = False
    shrinkage: float = 0.0

    def __post_init__(self) -> None:
        if self.dimension < 1 or not 0.0 <= self.shrinkage <= 1.0:
            raise InvalidInputError(
                "bures", f"has dimension {self.dimension}, shrinkage {self.shrinkage}", "pass >= 1, and [0, 1]"
            )

    @property
    def order(self) -> int:
        """Always W2."""
        return 2

    @property
    def certificate(self) -> str:
        """``exact`` for Gaussians, ``lower_bound`` for clouds or variances only, ``approximate`` with shrinkage."""
        if self.shrinkage:
            return "approximate"
        return "lower_bound" if self.clouds or self.diagonal else "exact"

    @property
    def width(self) -> int:
        """2 d (mean, standard deviations) or d + d^2 (mean, covariance)."""
        d = self.dimension
        return 2 * d if self.diagonal else d + d * d

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """A point, (d,)."""
        return (self.dimension,)

    def features(self, outcomes: Floats) -> Floats:
        """x, then x * x or the outer product of x."""
        if self.diagonal:
            return np.concatenate([outcomes, outcomes * outcomes], axis=-1)
        outer = outcomes[..., :, None] * outcomes[..., None, :]
        return np.concatenate([outcomes, outer.reshape(*outcomes.shape[:-1], self.dimension**2)], axis=-1)

    def finish(self, means: Floats) -> Floats:
        """Mean and standard deviations, or mean and covariance, from moments."""
        d = self.dimension
        m = means[..., :d]
        if self.diagonal:
            spread = np.maximum(means[..., d:] - m * m, 0.0)
            if self.shrinkage:
                average = spread.mean(axis=-1, keepdims=True)
                spread = (1 - self.shrinkage) * spread + self.shrinkage * average
            sd = np.sqrt(spread)
            return np.concatenate([m, sd], axis=-1)
        s = means[..., d:].reshape(*m.shape[:-1], d, d) - m[..., :, None] * m[..., None, :]
        average = np.trace(s, axis1=-2, axis2=-1)[..., None, None] / d
        s = (1 - self.shrinkage) * s + self.shrinkage * average * np.eye(d)
        return np.concatenate([m, s.reshape(*m.shape[:-1], d * d)], axis=-1)

    def embed(self, measure: Measure) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        if self.clouds and getattr(measure, "kind", "") == "cloud":
            return super().embed(measure)
        gaussian = require(measure, *(("gaussian", "cloud") if self.clouds else ("gaussian",)))
        if gaussian.dimension != self.dimension:
            raise InvalidInputError(
                "measure",
                f"lives in {gaussian.dimension} dimensions where {self.dimension} are needed",
                "dimensions do not mix",
            )
        s = gaussian.covariance
        return np.concatenate([gaussian.mean, np.sqrt(np.diag(s)) if self.diagonal else s.ravel()])

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Points and weights of a cloud."""
        return cloud_of(measure, self.dimension)

    def distances(self, bank: Floats, reference: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`; one batched eigenvalue problem if not diagonal."""
        if self.diagonal:
            return l2(bank, reference)
        m, s = self.split(bank)
        n, t = self.split(reference[..., None, :])
        root = psd_root(t)
        cross = np.linalg.eigvalsh(root @ s @ root)
        overlap = np.sqrt(np.clip(cross, 0.0, None)).sum(axis=-1)
        traces = np.trace(s, axis1=-2, axis2=-1) + np.trace(t, axis1=-2, axis2=-1)
        squared = ((m - n) ** 2).sum(axis=-1) + traces - 2.0 * overlap
        w: Floats = np.sqrt(np.clip(squared, 0.0, None))
        return w

    def split(self, embedding: Floats) -> tuple[Floats, Floats]:
        """Mean ``(..., d)`` and covariance ``(..., d, d)`` of a full embedding."""
        d = self.dimension
        return embedding[..., :d], embedding[..., d:].reshape(*embedding.shape[:-1], d, d)
