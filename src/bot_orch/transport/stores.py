"""Storage of outcome profiles with incremental updates: feature sums, sorted windows, quantile digests, points.

A store declares its arrays and adds one outcome to each of several profiles (rows) in place. Arrays are flattened
over batch and agents: (N, ...).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry, LinearGeometry, QuantileGeometry
from bot_orch.transport.geometries.ground_cost import CostCloud
from bot_orch.transport.memory import Memory
from bot_orch.transport.quantiles import sample_cell_means
from bot_orch.transport.vectors import push_window


class ProfileStore(Protocol):
    """Arrays of a profile and their update rule."""

    def fields(self) -> dict[str, Field]:
        """The arrays other than ``seen`` and ``embedding``."""
        ...

    def push(self, arrays: Arrays, rows: Ints, raw: Floats) -> None:
        """Add outcome ``raw[b]`` to profile ``rows[b]``; the caller increments ``seen`` afterwards."""
        ...


@dataclass(frozen=True)
class LinearStore:
    """A weighted sum of features."""

    geometry: LinearGeometry
    memory: Memory

    def fields(self) -> dict[str, Field]:
        """The sum, and for a window also its outcomes."""
        declared = {"total": Field(shape=(self.geometry.width,))}
        if self.memory.mode == "window":
            declared["ring"] = Field(shape=(self.memory.size, *self.geometry.outcome_shape))
        return declared

    def push(self, arrays: Arrays, rows: Ints, raw: Floats) -> None:
        """Decay the sum, add the new features and subtract those that leave the window."""
        seen, total = arrays["seen"][rows], arrays["total"][rows] * self.memory.factor
        total += self.geometry.features(raw)
        if self.memory.mode == "window":
            ring, slot = arrays["ring"], seen % self.memory.size
            full = seen >= self.memory.size
            if full.any():
                total[full] -= self.geometry.features(ring[rows[full], slot[full]])
            ring[rows, slot] = raw
        arrays["total"][rows] = total
        arrays["embedding"][rows] = self.geometry.finish(total / self.memory.mass(seen + 1)[:, None])


@dataclass(frozen=True)
class WindowStore:
    """A sliding window of outcomes, in order of arrival and sorted."""

    geometry: QuantileGeometry
    memory: Memory

    def fields(self) -> dict[str, Field]:
        """Ring and sorted window of every track."""
        shape = (self.geometry.n_tracks, self.memory.size)
        return {"ring": Field(shape=shape, fill=np.inf), "ordered": Field(shape=shape, fill=np.inf)}

    def push(self, arrays: Arrays, rows: Ints, raw: Floats) -> None:
        """Insert with :func:`push_window`."""
        geometry = self.geometry
        push_window(
            arrays["ring"],
            arrays["ordered"],
            arrays["seen"],
            arrays["embedding"],
            rows,
            geometry.tracks(raw),
            geometry.cells,
            geometry.scale,
        )


@dataclass(frozen=True)
class DigestStore:
    """A digest of sorted, weighted support points; the nearest two merge beyond the capacity."""

    geometry: QuantileGeometry
    memory: Memory

    def fields(self) -> dict[str, Field]:
        """Points, weights and a bound on the W1 error of merging, times the total weight."""
        shape = (self.geometry.n_tracks, self.memory.size)
        return {
            "points": Field(shape=shape, fill=np.inf),
            "weights": Field(shape=shape),
            "error": Field(shape=(self.geometry.n_tracks,)),
        }

    def push(self, arrays: Arrays, rows: Ints, raw: Floats) -> None:
        """Decay the weights, insert the outcome, merge if the digest is full."""
        geometry = self.geometry
        points, weights = arrays["points"][rows], arrays["weights"][rows]
        points, weights, cost = digest_push(points, weights, geometry.tracks(raw), factor=self.memory.factor)
        arrays["points"][rows], arrays["weights"][rows] = points, weights
        arrays["error"][rows] = arrays["error"][rows] * self.memory.factor + cost
        means = sample_cell_means(points, weights, geometry.cells) * geometry.scale
        arrays["embedding"][rows] = means.reshape(len(rows), geometry.width)


@dataclass(frozen=True)
class PointStore:
    """A ring of raw points, for geometries without an embedding."""

    geometry: CostCloud
    memory: Memory

    def fields(self) -> dict[str, Field]:
        """The ring of points."""
        return {"ring": Field(shape=(self.geometry.capacity, self.geometry.dimension))}

    def push(self, arrays: Arrays, rows: Ints, raw: Floats) -> None:
        """Replace the oldest point and recompute the weights by age."""
        capacity = self.geometry.capacity
        seen = arrays["seen"][rows]
        arrays["ring"][rows, seen % capacity] = raw
        weights = age_weights(seen + 1, capacity, self.memory)
        arrays["embedding"][rows] = self.geometry.pack(arrays["ring"][rows], weights)


def age_weights(seen: Ints, capacity: int, memory: Memory) -> Floats:
    """Normalised weights ``(..., capacity)`` of the slots of a ring after ``seen`` entries."""
    age = (seen[..., None] - 1 - np.arange(capacity)) % capacity
    size = min(capacity, memory.size) if memory.mode == "window" else capacity
    weights = np.where((age < seen[..., None]) & (age < size), memory.factor**age, 0.0)
    total: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return total


def digest_push(points: Floats, weights: Floats, arriving: Floats, *, factor: float) -> tuple[Floats, Floats, Floats]:
    """Insert one point into each sorted digest ``(..., C)``; returns points, weights and the merging cost ``(...)``.

    The merged pair minimises mass times distance to its mean, 2 w v |x - y| / (w + v), which is the W1 distance (times
    total weight) between the digest before and after.
    """
    capacity = points.shape[-1]
    x = np.concatenate([points, arriving[..., None]], axis=-1).reshape(-1, capacity + 1)
    w = np.concatenate([weights * factor, np.ones((*arriving.shape, 1))], axis=-1).reshape(-1, capacity + 1)
    order = np.argsort(x, axis=1, kind="stable")
    x, w = np.take_along_axis(x, order, 1), np.take_along_axis(w, order, 1)
    cost = np.zeros(x.shape[0])
    full = np.flatnonzero(np.isfinite(x[:, -1]))
    if full.size:
        x[full, :-1], w[full, :-1], cost[full] = _merge_nearest(x[full], w[full])
    return x[:, :-1].reshape(points.shape), w[:, :-1].reshape(points.shape), cost.reshape(arriving.shape)


def _merge_nearest(x: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
    left, right = w[:, :-1], w[:, 1:]
    both = left + right
    cost = 2.0 * left * right / np.where(both > 0, both, 1.0) * np.diff(x, axis=1)
    j = np.argmin(cost, axis=1)
    row = np.arange(len(j))
    mass = both[row, j]
    share = right[row, j] / np.where(mass > 0, mass, 1.0)
    middle = x[row, j] + share * (x[row, j + 1] - x[row, j])
    keep = np.arange(x.shape[1] - 1) + (np.arange(x.shape[1] - 1) > j[:, None])
    x, w = np.take_along_axis(x, keep, 1), np.take_along_axis(w, keep, 1)
    x[row, j], w[row, j] = middle, mass
    return x, w, cost[row, j]


def store_for(geometry: Geometry, memory: Memory) -> ProfileStore:
    """The store for a geometry and a memory; raises an error for unsupported combinations."""
    if isinstance(geometry, LinearGeometry):
        return LinearStore(geometry, memory)
    if isinstance(geometry, QuantileGeometry):
        return WindowStore(geometry, memory) if memory.mode == "window" else DigestStore(geometry, memory)
    if not isinstance(geometry, CostCloud):
        raise InvalidInputError("geometry", f"is {type(geometry).__name__}", "derive it from one of the bases")
    if memory.mode == "all" or (memory.mode == "window" and memory.size > geometry.capacity):
        raise InvalidInputError(
            "memory", f"cannot be kept in {geometry.capacity} points", "use a window no larger, or fading memory"
        )
    return PointStore(geometry, memory)
