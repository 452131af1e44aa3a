"""Exact transport under any ground cost: labels with a cost matrix, and small point clouds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError, MissingExtraError
from bot_orch.transport.geometries.base import PointGeometry, check_order, cloud_of
from bot_orch.transport.geometries.labels import LabelGeometry
from bot_orch.transport.label_distance import check_ground_cost, transport_plan_cost
from bot_orch.types import Measure


@dataclass(frozen=True)
class CostLabels(LabelGeometry):
    """Labels under any K x K ground distance c: W_p = (min over couplings of sum pi c^p)^(1/p), by linear programming.

    Results are cached per pair. For 0-1, ordered and tree costs the specialised geometries give the same result
    thousands of times faster.

    Examples
    --------
    >>> geometry = CostLabels(((0.0, 1.0, 5.0), (1.0, 0.0, 4.0), (5.0, 4.0, 0.0)))
    >>> geometry.distances(geometry.embed_outcome(np.array([0, 1])), geometry.embed_outcome(2))
    array([5., 4.])
    """

    name: ClassVar[str] = "cost_labels"
    cost: tuple[tuple[float, ...], ...]
    order: int = 1

    def __post_init__(self) -> None:
        check_ground_cost(self.cost)
        check_order(self.order)

    @cached_property
    def atoms(self) -> Floats:
        """The identity: embeddings are the probabilities."""
        return np.eye(len(self.cost))

    @cached_property
    def diameter(self) -> float:
        """The largest cost."""
        return float(np.max(self.cost))

    def distances(self, bank: Floats, reference: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`; one linear programme per unseen pair."""
        return self.solve(bank, reference)[0]

    def solve(self, bank: Floats, reference: Floats) -> tuple[Floats, Floats]:
        """Distances ``(..., M)`` and Kantorovich potentials of c^p ``(..., M, K)``."""
        bank, target = np.broadcast_arrays(bank, reference[..., None, :])
        flat, aims = bank.reshape(-1, self.n_labels), target.reshape(-1, self.n_labels)
        solved = [
            _label_programme(self.cost, self.order, p.tobytes(), r=r.tobytes()) for p, r in zip(flat, aims, strict=True)
        ]
        values = np.array([value for value, _ in solved]).reshape(bank.shape[:-1])
        potentials = np.array([potential for _, potential in solved]).reshape(bank.shape)
        return values, potentials


@lru_cache(maxsize=4096)
def _label_programme(cost: tuple[tuple[float, ...], ...], order: int, p: bytes, *, r: bytes) -> tuple[float, Floats]:
    a, b = np.frombuffer(p), np.frombuffer(r)
    if a.tobytes() == b.tobytes() or not a.any():  # equal, or an agent without outcomes
        return 0.0, np.zeros(a.size)
    value, potential = transport_plan_cost(a / a.sum(), b / b.sum(), np.asarray(cost, dtype=float) ** order)
    return value ** (1.0 / order), potential


@dataclass(frozen=True)
class CostCloud(PointGeometry):
    """Exact W_p between small clouds under any SciPy metric: W_p = (min over couplings of sum pi c^p)^(1/p).

    Equal numbers of equally weighted points are an assignment problem (SciPy); anything else is a linear programme,
    solved by POT (extra ``transport``). Results are cached per pair.

    Parameters
    ----------
    dimension
        Number of coordinates d of a point.
    capacity
        Maximal number of points in a cloud, and size of an agent's window.
    metric
        A metric of :func:`scipy.spatial.distance.cdist`.

    Examples
    --------
    >>> from bot_orch.transport import Cloud
    >>> geometry = CostCloud(dimension=2, capacity=4, metric="cityblock")
    >>> bank = geometry.embed(Cloud([[0.0, 0.0], [1.0, 1.0]]))[None]
    >>> geometry.distances(bank, geometry.embed(Cloud([[2.0, 2.0], [0.0, 1.0]])))
    array([1.5])
    """

    name: ClassVar[str] = "cost_cloud"
    kind: ClassVar[str] = "cloud"
    dimension: int
    capacity: int = 32
    metric: str = "euclidean"
    order: int = 1

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.dimension < 1 or self.capacity < 1:
            raise InvalidInputError("cost_cloud", "has no room", "pass dimension >= 1 and capacity >= 1")

    @property
    def width(self) -> int:
        """Length of an embedding: a weight and d coordinates per point; empty slots have weight zero."""
        return self.capacity * (1 + self.dimension)

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """A point, (d,)."""
        return (self.dimension,)

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Points and weights of a cloud."""
        return cloud_of(measure, self.dimension)

    def embed(self, measure: Measure) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        points, weights = cloud_of(measure, self.dimension)
        return self.pack(points, weights)

    def embed_outcomes(self, outcomes: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        n = outcomes.shape[-2]
        return self.pack(outcomes, np.full(outcomes.shape[:-1], 1.0 / n))

    def pack(self, points: Floats, weights: Floats) -> Floats:
        """Points ``(..., n, d)`` with weights ``(..., n)`` as a vector ``(..., q)``."""
        spare = self.capacity - points.shape[-2]
        if spare < 0:
            raise InvalidInputError(
                "measure", f"has {points.shape[-2]} points where {self.capacity} fit", "use Sliced, or raise capacity"
            )
        lead = points.shape[:-2]
        parts = [
            weights,
            np.zeros((*lead, spare)),
            points.reshape(*lead, -1),
            np.zeros((*lead, spare * self.dimension)),
        ]
        return np.concatenate(parts, axis=-1)

    def unpack(self, embedding: Floats) -> tuple[Floats, Floats]:
        """Points (n, d) with positive weights (n,)."""
        weights = embedding[: self.capacity]
        points = embedding[self.capacity :].reshape(self.capacity, self.dimension)
        return points[weights > 0], weights[weights > 0]

    def distances(self, bank: Floats, reference: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`; one exact problem per unseen pair."""
        bank, target = np.broadcast_arrays(bank, reference[..., None, :])
        pairs = zip(bank.reshape(-1, self.width), target.reshape(-1, self.width), strict=True)
        values = np.array([_cloud_programme(self, a.tobytes(), b.tobytes()) for a, b in pairs])
        return values.reshape(bank.shape[:-1])


@lru_cache(maxsize=4096)
def _cloud_programme(geometry: CostCloud, a: bytes, b: bytes) -> float:
    from scipy.spatial.distance import cdist

    x, v = geometry.unpack(np.frombuffer(a))
    y, w = geometry.unpack(np.frombuffer(b))
    if not (v.size and w.size):
        return 0.0
    c = cdist(x, y, geometry.metric) ** geometry.order
    if v.size == w.size and np.ptp(v) == np.ptp(w) == 0:
        from scipy.optimize import linear_sum_assignment

        return float(c[linear_sum_assignment(c)].mean() ** (1.0 / geometry.order))
    return float(max(0.0, _emd2(v / v.sum(), w / w.sum(), c)) ** (1.0 / geometry.order))


def _emd2(v: Floats, w: Floats, c: Floats) -> float:
    try:
        import ot
    except ImportError as error:
        raise MissingExtraError("transport between clouds of unequal size or weight", "transport") from error
    return float(ot.emd2(v, w, c))
