"""Relative distances: an agent's distance divided by the variability of the reference.

0 means equal to the reference and 1 means as far as the answer to another task. The scale of the embedding cancels, so
lambda is comparable across geometries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Bools, Floats, finite_rows
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry
from bot_orch.transport.noise import noise

_ROOM = 4.0  # for references with little variability: the unit, as a multiple of the closest eighth's distance
_RELATIVE_TOLERANCE = 1e-9  # a unit below this fraction of the mean distance counts as zero


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """Relative distances ``batch + (M,)``: estimate, lower confidence distance, and a mask of known agents."""

    mean: Floats
    lower: Floats
    known: Bools

    def pick(self, which: str) -> Floats:
        """``lower``, ``upper``, or the estimate for ``plug_in`` and ``debiased``."""
        if which == "lower":
            return self.lower
        if which == "upper":
            return 2.0 * self.mean - self.lower
        if which in ("plug_in", "debiased"):
            return self.mean
        raise InvalidInputError("distance", f"is {which!r}", "pass lower, plug_in, debiased or upper")

    @classmethod
    def nothing(cls, shape: tuple[int, ...]) -> Relative:
        """Zero distances, with no agent known."""
        zeros = np.zeros(shape)
        return cls(zeros, zeros, np.zeros(shape, dtype=bool))


def own_variability(geometry: Geometry, nu: Floats) -> Floats:
    """Expected distance between a reference and one outcome drawn from it; ``batch + (1,)``.

    References are ``batch + (q,)``; NaN rows, for tasks without one, give 0.
    """
    known: Bools = finite_rows(nu)
    target = nu if known.all() else np.where(known[..., None], nu, 0.0)
    one = np.ones((*target.shape[:-1], 1))
    b0, _, _ = noise(geometry, target[..., None, :], target, value=np.zeros_like(one), root=one)
    return np.asarray(np.where(known[..., None], b0, 0.0), dtype=float)


def settled_unit(unit: Floats, distance: Floats, known: Bools, *, least: float = 0.0) -> Floats:
    """The unit from the references, ``batch + (1,)``, or from agents' distances if references hardly vary.

    If even the closest agents are farther away than the unit, the unit grows with their distance. If references have no
    variability, the unit is at least ``least``.

    Examples
    --------
    >>> distance, known = np.array([1.0, 1.5, 2.0]), np.array([True, True, True])
    >>> settled_unit(np.array([3.0]), distance, known), settled_unit(np.array([1e-12]), distance, known).round(3)
    (array([3.]), array([4.]))
    """
    count = np.add.reduce(known, axis=-1, keepdims=True, dtype=np.float64)
    mean = np.add.reduce(np.where(known, distance, 0.0), axis=-1, keepdims=True) / np.maximum(count, 1.0)
    closest = closest_share(distance, known, share=8)
    usual = np.maximum(np.maximum(mean, _ROOM * closest), least)
    return np.where(unit > _RELATIVE_TOLERANCE * mean, np.maximum(unit, _ROOM * (closest - unit)), usual)


def closest_share(distance: Floats, known: Bools, share: int = 4) -> Floats:
    """The ``1 / share`` quantile of agents' distances, ``batch + (1,)``; unknown agents count as zero."""
    ordered = np.sort(np.where(known, distance, 0.0), axis=-1)
    last = (distance.shape[-1] - 1) // share
    return ordered[..., last : last + 1]


def in_units(values: Floats, unit: Floats) -> Floats:
    """``values / unit``; zero where the unit is zero, that is, unknown."""
    return np.divide(values, unit, out=np.zeros(np.broadcast_shapes(values.shape, unit.shape)), where=unit > 0.0)
