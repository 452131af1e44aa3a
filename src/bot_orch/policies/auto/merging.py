"""Compression of a full memory: similar old outcomes of one agent are merged into one weighted row.

The ring buffer overwrites its oldest row. Dropping that row would lose the data of rarely chosen agents and its
coefficient, whose contribution to all predictions returns only as other coefficients are updated. Merging keeps both:
rewards and features are averaged, which is lossless for a linear model, and coefficients are added, which is exact for
equal tasks.
"""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints

__all__ = ["merge_oldest", "squared_distances"]

_HEAVIEST = 4.0  # maximal weight of a row, so that old data is forgotten eventually
_APART = 1e-3  # added to squared distances, so that among equal tasks the rows of least weight merge first


def merge_oldest(flat: Arrays, old: Ints, n_candidates: int, *, points: Floats | None, where: Bools) -> None:
    """Free row ``old[0]`` in the batch elements ``where`` by merging two rows of one agent.

    The pair minimises Ward's criterion [1]_; the first is among the ``n_candidates`` oldest, the second among all
    ``old``. If the first is not the oldest row, the oldest moves to its place, so that an agent's only outcome is kept.
    If no two rows have the same agent, nothing is merged and the oldest is lost.

    Parameters
    ----------
    flat
        State of the memory with one batch dimension, changed in place.
    old
        Rows that may be merged, oldest first.
    points
        Scaled features of their tasks, (B, len(old), d); ``None`` without features.

    References
    ----------
    .. [1] Ward. Hierarchical grouping to optimize an objective function. JASA 58, 1963.
    """
    cost = _costs(flat, old, n_candidates, points=points).reshape(len(where), -1)
    best = cost.argmin(axis=1)
    rows = np.flatnonzero(where & np.isfinite(cost[np.arange(len(best)), best]))
    first, second = np.divmod(best[rows], len(old))
    _merge(flat, rows, old[first], kept=old[second])
    for name in ("x", "reward", "owner", "alpha", "weight"):  # not "round", which all rows of a batch share
        flat[name][rows, old[first]] = flat[name][rows, old[0]]


def squared_distances(query: Floats, points: Floats) -> Floats:
    """Squared Euclidean distances (B, J, n) between (B, J, d) and (B, n, d)."""
    squares = np.add.reduce(points * points, axis=-1)[:, None, :]
    far = np.add.reduce(query * query, axis=-1)[:, :, None] + squares - 2.0 * (query @ points.swapaxes(1, 2))
    return np.asarray(np.maximum(far, 0.0))


def _costs(flat: Arrays, old: Ints, n_candidates: int, *, points: Floats | None) -> Floats:
    """Increase of the within-row sum of squares, (B, n_candidates, len(old)); infinite for different agents."""
    weight, owner = flat["weight"][:, old], flat["owner"][:, old]
    some = np.arange(n_candidates)
    far = 0.0 if points is None else squared_distances(points[:, some], points)
    cost = (far + _APART) / (1.0 / weight[:, some, None] + 1.0 / weight[:, None, :])
    cost[owner[:, some, None] != owner[:, None, :]] = np.inf
    cost[:, some, some] = np.inf
    return np.asarray(cost)


def _merge(flat: Arrays, rows: Ints, gone: Ints, *, kept: Ints) -> None:
    weight = flat["weight"]
    a, b = weight[rows, gone], weight[rows, kept]
    share = a / (a + b)
    flat["x"][rows, kept] += share[:, None] * (flat["x"][rows, gone] - flat["x"][rows, kept])
    flat["reward"][rows, kept] += share * (flat["reward"][rows, gone] - flat["reward"][rows, kept])
    flat["alpha"][rows, kept] += flat["alpha"][rows, gone]
    weight[rows, kept] = np.minimum(a + b, _HEAVIEST)
