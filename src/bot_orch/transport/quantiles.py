"""Quantile functions as vectors: cell means on cosine-spaced levels.

A sample is stored as the means of its quantile function Q over q cells [tau_j, tau_{j+1}] of the unit interval,
tau_j = (1 - cos(pi j / q)) / 2: fine in the tails, coarse in the middle. By Jensen's inequality distances
between such vectors never exceed the distances between the quantile functions, and equal them when both functions
are constant inside every cell [1]_.

References
----------
.. [1] Peyre, Cuturi. Computational Optimal Transport. 2019, section 2.6 (one-dimensional case).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bot_orch.arrays import Floats, Ints


@lru_cache(maxsize=64)
def cosine_levels(cells: int) -> Floats:
    """The q + 1 cell borders.

    Examples
    --------
    >>> cosine_levels(2)
    array([0. , 0.5, 1. ])
    """
    levels = 0.5 * (1.0 - np.cos(np.pi * np.arange(cells + 1) / cells))
    levels[0], levels[-1] = 0.0, 1.0
    if cells % 2 == 0:
        levels[cells // 2] = 0.5
    levels.flags.writeable = False
    return levels


@lru_cache(maxsize=64)
def level_widths(cells: int) -> Floats:
    """The q cell widths; they sum to one."""
    widths = np.diff(cosine_levels(cells))
    widths.flags.writeable = False
    return widths


@lru_cache(maxsize=4096)
def window_plan(n: int, cells: int) -> tuple[Ints, Floats, Floats]:
    """For n equally weighted sorted samples: index and fraction of every cell border, and 1 / (n * width)."""
    u = n * cosine_levels(cells)
    k = np.minimum(np.floor(u), n - 1).astype(np.int64)
    return k, u - k, 1.0 / (n * level_widths(cells))


def cell_means(ordered: Floats, n: Ints, cells: int) -> Floats:
    """Cell means of rows of sorted, equally weighted samples; row r uses its first ``n[r] >= 1`` entries.

    Parameters
    ----------
    ordered
        (R, C), ascending; entries after the first n may be +inf.
    n
        (R,).

    Examples
    --------
    >>> cell_means(np.array([[1.0, 2.0, np.inf]]), np.array([2]), 2)
    array([[1., 2.]])
    """
    u = n[:, None] * cosine_levels(cells)
    k = np.minimum(np.floor(u), (n - 1)[:, None]).astype(np.int64)
    cumulative = np.zeros((ordered.shape[0], ordered.shape[1] + 1))
    np.cumsum(ordered, axis=1, out=cumulative[:, 1:])
    at = np.take_along_axis(cumulative, k, 1) + (u - k) * np.take_along_axis(ordered, k, 1)
    means: Floats = np.diff(at, axis=1) / (n[:, None] * level_widths(cells))
    return means


def sample_cell_means(values: Floats, weights: Floats, cells: int) -> Floats:
    """Cell means of rows of sorted samples ``(..., C)`` with weights; entries of weight zero are ignored.

    Examples
    --------
    >>> sample_cell_means(np.array([0.0, 4.0]), np.array([0.75, 0.25]), 2)
    array([0., 2.])
    """
    lead, c = values.shape[:-1], values.shape[-1]
    x = np.where(weights > 0, values, 0.0).reshape(-1, c)
    w = weights.reshape(-1, c)
    levels = cosine_levels(cells)
    out = np.empty((x.shape[0], cells))
    for row in range(x.shape[0]):
        mass = np.concatenate([[0.0], np.cumsum(w[row])])
        area = np.concatenate([[0.0], np.cumsum(w[row] * x[row])])
        out[row] = np.diff(np.interp(levels, mass / mass[-1], area / mass[-1]))
    means: Floats = (out / level_widths(cells)).reshape(*lead, cells)
    return means
