"""Base classes of geometries: measures are embedded once; all distances are then one array operation.

A *geometry* defines the accepted outcomes and the distance between them. It maps every measure to a vector such
that the Wasserstein distance is an L1 or L2 distance between vectors (a few geometries without such a map solve a
linear programme per pair and cache the result). Distances are always W, never a power of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.measures import require
from bot_orch.transport.quantiles import cell_means, level_widths
from bot_orch.transport.vectors import l1, l2
from bot_orch.types import Measure

_REGISTRY: dict[str, type[Geometry]] = {}


@dataclass(frozen=True)
class Geometry(ABC):
    """A Wasserstein distance between outcome distributions, with an embedding.

    Attributes
    ----------
    name
        Its name in a specification.
    kind
        The kind of measure it accepts.
    natural_unit
        A fixed unit for relative distances, if the geometry has one; else 0.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[str] = ""
    store: ClassVar[str] = ""
    natural_unit: ClassVar[float] = 0.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__dict__.get("name"):
            _REGISTRY[cls.name] = cls

    @property
    def order(self) -> int:
        """The order p of W_p: 1, or 2."""
        return 1

    @property
    def certificate(self) -> str:
        """``exact``, ``lower_bound`` (never above the true W) or ``approximate``."""
        return "exact"

    @property
    @abstractmethod
    def width(self) -> int:
        """Length q of an embedding."""

    @property
    @abstractmethod
    def outcome_shape(self) -> tuple[int, ...]:
        """The shape of one raw outcome: ``()`` for a number, ``(K,)`` for labels, ``(d,)`` for a point."""

    @abstractmethod
    def embed(self, measure: Measure) -> Floats:
        """The embedding (q,) of a measure."""

    @abstractmethod
    def embed_outcomes(self, outcomes: Floats) -> Floats:
        """The embedding (..., q) of n equally weighted outcomes ``(..., n) + outcome_shape``."""

    @abstractmethod
    def outcomes_of(self, measure: Measure) -> tuple[Floats, Floats]:
        """Raw outcomes (n, ...) and weights (n,) of an observed measure."""

    def embed_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """The embedding (..., q) of one outcome each, ``(...) + outcome_shape``."""
        raw = self.check_outcome(outcome)
        return self.embed_outcomes(np.expand_dims(raw, raw.ndim - len(self.outcome_shape)))

    def check_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """Validate outcomes and convert them to floats ``(...) + outcome_shape``."""
        x = np.asarray(outcome, dtype=float)
        d = len(self.outcome_shape)
        if d and x.shape[-d:] != self.outcome_shape:
            raise InvalidInputError(
                "outcome", f"has shape {x.shape}", f"{self.name} needs (..., {self.outcome_shape[0]})"
            )
        if not (math.isfinite(x) if x.ndim == 0 else np.isfinite(x).all()):
            raise InvalidInputError("outcome", "is not finite", "report it as censored, or drop it")
        return x

    def distances(self, bank: Floats, reference: Floats) -> Floats:
        """W between every agent's embedding ``(..., M, q)`` and the reference ``(..., q)``: ``(..., M)``."""
        return l1(bank, reference) if self.order == 1 else l2(bank, reference)

    def spec(self) -> dict[str, Any]:
        """JSON values; :func:`geometry_from_spec` is the inverse."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": self.name, **{name: _plain(value) for name, value in values.items()}}


@dataclass(frozen=True)
class LinearGeometry(Geometry):
    """Geometries whose embedding is a function of the mean of per-outcome features, so that feature sums suffice."""

    store: ClassVar[str] = "linear"

    @abstractmethod
    def features(self, outcomes: Floats) -> Floats:
        """Features ``(..., q)`` of outcomes ``(...) + outcome_shape``."""

    def finish(self, means: Floats) -> Floats:
        """The embedding ``(..., q)`` from mean features ``(..., q)``."""
        return means

    def embed_outcomes(self, outcomes: Floats) -> Floats:
        """See :class:`Geometry`."""
        features = self.features(outcomes)
        return self.finish(features[..., 0, :] if features.shape[-2] == 1 else features.mean(axis=-2))

    def embed(self, measure: Measure) -> Floats:
        """See :class:`Geometry`."""
        outcomes, weights = self.outcomes_of(measure)
        return self.finish(weights @ self.features(outcomes))


@dataclass(frozen=True)
class QuantileGeometry(Geometry):
    """Geometries based on quantile functions along one or more tracks (directions)."""

    store: ClassVar[str] = "order"
    cells: int

    @property
    @abstractmethod
    def n_tracks(self) -> int:
        """Number L of tracks."""

    @property
    @abstractmethod
    def constant(self) -> float:
        """Factor of all coordinates of a track."""

    @abstractmethod
    def tracks(self, outcomes: Floats) -> Floats:
        """One-dimensional projections ``(..., L)`` of outcomes ``(...) + outcome_shape``."""

    @property
    def width(self) -> int:
        """See :class:`Geometry`."""
        return self.n_tracks * self.cells

    @cached_property
    def scale(self) -> Floats:
        """Cell weights included in the coordinates of one track, (cells,)."""
        widths = level_widths(self.cells)
        return self.constant * (widths if self.order == 1 else np.sqrt(widths))

    def embed_outcomes(self, outcomes: Floats) -> Floats:
        """See :class:`Geometry`."""
        ordered = np.sort(np.moveaxis(self.tracks(outcomes), -1, -2), axis=-1)
        lead, n = ordered.shape[:-2], ordered.shape[-1]
        flat = ordered.reshape(-1, n)
        means = cell_means(flat, np.full(flat.shape[0], n), self.cells) * self.scale
        return means.reshape(*lead, self.width)


@dataclass(frozen=True)
class PointGeometry(Geometry):
    """Geometries without an embedding: small clouds are stored as points, and each pair is solved exactly."""

    store: ClassVar[str] = "points"


def geometry_from_spec(document: Mapping[str, Any]) -> Geometry:
    """The geometry a specification describes.

    Examples
    --------
    >>> from bot_orch.transport import Scalars
    >>> geometry_from_spec(Scalars(order=2).spec()) == Scalars(order=2)
    True
    >>> geometry_from_spec({"name": "labels", "label": 3})
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: geometry.label: is not a setting of labels; choose from labels
    """
    name = document.get("name")
    if name not in _REGISTRY:
        raise InvalidInputError("geometry.name", f"is {name!r}", f"pass one of {', '.join(sorted(_REGISTRY))}")
    arguments = {key: _frozen(value) for key, value in document.items() if key != "name"}
    known = [field.name for field in fields(_REGISTRY[name]) if field.init]
    for key in arguments:
        if key not in known:
            raise InvalidInputError(f"geometry.{key}", f"is not a setting of {name}", f"choose from {', '.join(known)}")
    try:
        return _REGISTRY[name](**arguments)
    except TypeError as error:
        remedy = f"its settings are {', '.join(known)}"
        raise InvalidInputError(f"geometry {name}", f"is malformed ({error})", remedy) from error


def distance(geometry: Geometry, mu: Measure, nu: Measure) -> float:
    """W between two measures.

    Examples
    --------
    >>> from bot_orch.transport import Samples, Scalars
    >>> distance(Scalars(), Samples([0.0, 1.0]), Samples([2.0, 3.0]))
    2.0
    """
    return float(geometry.distances(geometry.embed(mu)[None], geometry.embed(nu))[0])


def check_order(order: int) -> None:
    """Raise an error unless ``order`` is 1 or 2."""
    if order not in (1, 2):
        raise InvalidInputError("order", f"is {order}", "pass 1 or 2")


def samples_of(measure: Measure) -> tuple[Floats, Floats]:
    """Values and weights of one-dimensional samples."""
    samples = require(measure, "samples")
    return samples.values, samples.weights


def cloud_of(measure: Measure, dimension: int) -> tuple[Floats, Floats]:
    """Points and weights of a cloud of this dimension."""
    cloud = require(measure, "cloud")
    if cloud.dimension != dimension:
        raise InvalidInputError(
            "measure", f"lives in {cloud.dimension} dimensions where {dimension} are needed", "dimensions do not mix"
        )
    return cloud.points, cloud.weights


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
