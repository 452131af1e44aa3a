"""Numerical primitives of ``auto`` in NumPy; :mod:`.compiled` has loops for numba."""

from __future__ import annotations

import math

import numpy as np

from bot_orch.arrays import Bools, Floats

__all__ = ["envelope", "nearness", "rank_one", "regressions"]


def nearness(points: Floats, point: Floats, scale: Floats, out: Floats) -> None:
    """Kernel exp(-distance) of ``point`` with the first rows of ``points``, scaled, into ``out``."""
    gap = (points[: len(out)] - point) * scale
    np.exp(-np.sqrt(np.einsum("nd,nd->n", gap, gap)), out=out)


def regressions(inverse: Floats, theta: Floats, z: Floats, shared: Floats, value: Floats, leverage: Floats) -> None:
    """Prediction and leverage of ridge regressions (M, D, D) on ``z`` (M, D), into the last two.

    ``shared`` is the prior mean of the coefficients, which ``theta`` does not include.
    """
    gain = (inverse @ z[:, :, None])[:, :, 0]
    value[:] = np.einsum("md,md->m", theta, z) + gain @ shared
    leverage[:] = np.maximum(np.einsum("md,md->m", gain, z), 0.0)


def rank_one(inverse: Floats, theta: Floats, z: Floats, target: float) -> None:
    """Add one observation to a ridge regression with unit noise; ``theta`` is relative to its prior mean."""
    wide = inverse.astype(np.float64)
    gain = wide @ z
    total = 1.0 + np.sum(gain * z)
    error = target - np.sum(theta * z)
    theta += gain * (error / total)
    inverse -= np.outer(gain, gain / total)


def envelope(location: Floats, sd: Floats, eligible: Bools, p: Floats) -> None:
    """Coupled RandUCB into ``p``: P(agent i has the largest ``location + |Z| * sd``), one standard normal Z for all.

    As a function of |Z| each score is a line. The walk follows the upper envelope of the lines from |Z| = 0 on: from
    each agent to the steeper one that overtakes it first. Equal lines share their probability.
    """
    height = np.where(eligible, location, -np.inf)
    p[:] = 0.0
    best = height.max()
    level = np.where(height == best, sd, -np.inf)
    now, before = np.argmax(level), 0.0
    while True:
        steeper = eligible & (sd > sd[now])
        after = 1.0
        following = now
        if steeper.any():
            cross = np.where(steeper, (height[now] - height) / np.where(steeper, sd - sd[now], 1.0), np.inf)
            first = cross.min()
            following = np.argmax(np.where(cross == first, sd, -np.inf))
            after = math.erf(max(first, 0.0) / math.sqrt(2.0))
        twins = eligible & (height == height[now]) & (sd == sd[now])
        p += np.where(twins, (after - before) / twins.sum(), 0.0)
        before = after
        if following == now:
            break
        now = following
    p /= p.sum()
