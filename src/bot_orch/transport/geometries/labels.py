"""Labels under 0-1, ordered and tree costs, for which W1 is an L1 distance of embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import LinearGeometry
from bot_orch.transport.measures import require
from bot_orch.transport.vectors import l1
from bot_orch.types import Measure

_FEW = 100  # labels whose pseudo-inverse takes no time


@dataclass(frozen=True)
class LabelGeometry(LinearGeometry):
    """Base class of label geometries: an outcome is a label or a probability vector over K labels."""

    kind: ClassVar[str] = "labels"

    @property
    def n_labels(self) -> int:
        """Number of labels K."""
        return int(self.atoms.shape[0])

    @cached_property
    def atoms(self) -> Floats:
        """The embedding of every single label, (K, q)."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Length q of the atoms."""
        return int(self.atoms.shape[1])

    @property
    def outcome_shape(self) -> tuple[int, ...]:
        """One probability per label."""
        return (self.n_labels,)

    def features(self, outcomes: Floats) -> Floats:
        """Embedding of a probability vector: the mixture of atoms."""
        return outcomes @ self.atoms

    def check_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """Integers ``(...)`` are labels; floats ``(..., K)`` are probabilities."""
        x = np.asarray(outcome)
        k = self.n_labels
        if x.dtype.kind in "iub":
            if ((x < 0) | (x >= k)).any():
                raise InvalidInputError("outcome", f"holds the label {int(np.max(x))}", f"labels run from 0 to {k - 1}")
            return np.eye(k)[x.astype(np.int64)]
        p = super().check_outcome(x)
        if (p < 0).any() or (np.abs(p.sum(axis=-1) - 1.0) > 1e-6).any():
            raise InvalidInputError("outcome", "is not a probability vector", "pass a label, or K numbers with sum 1")
        return p

    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """The probability vector as one outcome of weight 1."""
        p: Floats = require(measure, "labels").probabilities
        if p.shape != (self.n_labels,):
            raise InvalidInputError(
                "measure", f"has {p.size} labels where {self.n_labels} are needed", "dimensions do not mix"
            )
        return p[None], np.ones(1)

    def distances(self, bank: Floats, reference: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.base.Geometry`."""
        return l1(bank, reference)

    def probabilities(self, embedding: Floats) -> Floats:
        """Label probabilities ``(..., K)`` from embeddings ``(..., q)``."""
        p: Floats = np.clip(embedding @ self._inverse[0] + self._inverse[1], 0.0, 1.0)
        return p

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        affine = np.linalg.pinv(np.hstack([self.atoms, np.ones((self.n_labels, 1))]))
        return affine[:-1], affine[-1]

    @cached_property
    def diameter(self) -> float:
        """The largest distance between two labels."""
        return float(max(np.abs(self.atoms - row).sum(axis=-1).max() for row in self.atoms))  # no cube in memory


@dataclass(frozen=True)
class ZeroOneLabels(LabelGeometry):
    """0-1 cost: W1 is the total variation distance, half the L1 distance of probabilities.

    Examples
    --------
    >>> geometry = ZeroOneLabels(3)
    >>> geometry.distances(geometry.embed_outcome(np.array([0, 2])), geometry.embed_outcome(2))
    array([1., 0.])
    """

    name: ClassVar[str] = "labels"
    labels: int

    def __post_init__(self) -> None:
        if self.labels < 2:
            raise InvalidInputError("labels", f"is {self.labels}", "pass two or more")

    @cached_property
    def atoms(self) -> Floats:
        """Unit vectors times 1/2."""
        return 0.5 * np.eye(self.labels)

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        """The inverse in closed form for many labels; for few it keeps the digits of earlier logs."""
        k = self.labels
        if k <= _FEW:
            return super()._inverse
        share = 4.0 / (1.0 + 4.0 * k)  # Sherman-Morrison: (I/4 + 11')^-1 = 4 (I - share 11')
        return 2.0 * np.eye(k) - 2.0 * share, np.full(k, share)

    @cached_property
    def diameter(self) -> float:
        """One: the distance of any two labels."""
        return 1.0


@dataclass(frozen=True)
class OrderedLabels(LabelGeometry):
    """Labels at positions on a line (grades, severities): W1 is the L1 distance of distribution functions.

    Examples
    --------
    >>> geometry = OrderedLabels((0.0, 1.0, 3.0))
    >>> geometry.distances(geometry.embed_outcome(np.array([0, 1])), geometry.embed_outcome(2))
    array([3., 2.])
    """

    name: ClassVar[str] = "ordered_labels"
    places: tuple[float, ...]

    def __post_init__(self) -> None:
        x = np.asarray(self.places, dtype=float)
        if x.ndim != 1 or x.size < 2 or not np.isfinite(x).all() or (np.diff(x) <= 0).any():
            raise InvalidInputError("places", "are not increasing numbers", "pass one place per label, in order")

    @cached_property
    def atoms(self) -> Floats:
        """1{label <= j} times the gap after label j."""
        k = len(self.places)
        below = np.tril(np.ones((k, k))).T[:, :-1]
        return below * np.diff(self.places)


@dataclass(frozen=True)
class TreeLabels(LabelGeometry):
    """Labels are nodes of a tree: W1 is the sum over edges of length times the difference of subtree masses [1]_.

    Parameters
    ----------
    parents
        The parent of every node; -1 for the single root. Every node is a label; unused ones get probability 0.
    lengths
        The length of the edge to the parent; ignored at the root.

    References
    ----------
    .. [1] Le, Yamada, Fukumizu, Cuturi. Tree-sliced variants of Wasserstein distances. NeurIPS 2019.

    Examples
    --------
    >>> geometry = TreeLabels((-1, 0, 0, 1), (0.0, 1.0, 2.0, 0.5))
    >>> geometry.distances(geometry.embed_outcome(np.array([0, 2])), geometry.embed_outcome(3))
    array([1.5, 3.5])
    """

    name: ClassVar[str] = "tree_labels"
    parents: tuple[int, ...]
    lengths: tuple[float, ...]

    def __post_init__(self) -> None:
        k = len(self.parents)
        lengths = np.asarray(self.lengths, dtype=float)
        if lengths.shape != (k,) or not np.isfinite(lengths).all() or (lengths < 0).any():
            raise InvalidInputError("lengths", "do not fit the parents", "pass one length >= 0 per node")
        if k < 2 or list(self.parents).count(-1) != 1 or any(not -1 <= parent < k for parent in self.parents):
            raise InvalidInputError("parents", f"are {self.parents}", "pass a node number each and -1 for one root")
        for node in range(k):
            self._path(node)

    def _path(self, node: int) -> list[int]:
        path = []
        while self.parents[node] != -1:
            path.append(node)
            node = self.parents[node]
            if len(path) > len(self.parents):
                raise InvalidInputError("parents", "hold a cycle", "every node must lead to the root")
        return path

    @cached_property
    def atoms(self) -> Floats:
        """1{label lies under edge e} times the length of e."""
        k = len(self.parents)
        under = np.zeros((k, k))
        for node in range(k):
            under[node, self._path(node)] = 1.0
        edges = [node for node in range(k) if self.parents[node] != -1]
        atoms: Floats = under[:, edges] * np.asarray(self.lengths, dtype=float)[edges]
        return atoms
