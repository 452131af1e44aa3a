"""Room in a full memory: old outcomes of one agent on tasks that are alike become one that counts for more.

The ring of a memory overwrites its oldest row. Dropped outright, that row takes two things along: what is known of
agents that are seldom chosen now, and its coefficient, whose share in all predictions the others take over only as they
are renewed. Merging keeps both: rewards and features are averaged, so that a linear model loses nothing, and
coefficients add up, as they do in the exact solution where the tasks are the same.
"""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints

__all__ = ["merge_oldest", "squared_distances"]

_HEAVIEST = 4.0  # outcomes that a row counts for at most: what is older fades, so that a changed world can be learnt
_APART = 1e-3  # squared distance between equal tasks: of those, the lightest merge first


def merge_oldest(flat: Arrays, old: Ints, n_candidates: int, points: Floats | None, where: Bools) -> None:
    """Free row ``old[0]``, in the batch elements ``where``, by merging one of the oldest rows into another.

    The pair is the one of one agent that Ward's criterion [1]_ merges first: the first is among ``n_candidates``, the
    second among all ``old``. If the first is not the oldest, the oldest moves to its row, so that an agent's only
    outcome stays. Where no two belong together, nothing happens and the oldest is lost.

    Parameters
    ----------
    flat
        State of the memory with one batch dimension, changed in place.
    old
        Rows that may be merged, oldest first.
    points
        Features of their tasks, scaled, (B, len(old), d); ``None`` if all tasks are alike.

    References
    ----------
    .. [1] Ward. Hierarchical grouping to optimize an objective function. JASA 58, 1963.
    """
    cost = _costs(flat, old, n_candidates, points).reshape(len(where), -1)
    best = cost.argmin(axis=1)
    rows = np.flatnonzero(where & np.isfinite(cost[np.arange(len(best)), best]))
    first, second = np.divmod(best[rows], len(old))
    _merge(flat, rows, old[first], old[second])
    for name in ("x", "reward", "owner", "alpha", "weight"):  # not "round": a batch has one clock
        flat[name][rows, old[first]] = flat[name][rows, old[0]]


def squared_distances(query: Floats, points: Floats) -> Floats:
    """(B, J, n), between (B, J, d) and (B, n, d)."""
    squares = np.add.reduce(points * points, axis=-1)[:, None, :]
    far = np.add.reduce(query * query, axis=-1)[:, :, None] + squares - 2.0 * (query @ points.swapaxes(1, 2))
    return np.asarray(np.maximum(far, 0.0))


def _costs(flat: Arrays, old: Ints, n_candidates: int, points: Floats | None) -> Floats:
    """What the sum of squares within rows grows by, (B, n_candidates, len(old)); infinite where agents differ."""
    weight, owner = flat["weight"][:, old], flat["owner"][:, old]
    some = np.arange(n_candidates)
    far = 0.0 if points is None else squared_distances(points[:, some], points)
    cost = (far + _APART) / (1.0 / weight[:, some, None] + 1.0 / weight[:, None, :])
    cost[owner[:, some, None] != owner[:, None, :]] = np.inf
    cost[:, some, some] = np.inf
    return np.asarray(cost)


def _merge(flat: Arrays, rows: Ints, gone: Ints, kept: Ints) -> None:
    weight = flat["weight"]
    a, b = weight[rows, gone], weight[rows, kept]
    share = a / (a + b)
    flat["x"][rows, kept] += share[:, None] * (flat["x"][rows, gone] - flat["x"][rows, kept])
    flat["reward"][rows, kept] += share * (flat["reward"][rows, gone] - flat["reward"][rows, kept])
    flat["alpha"][rows, kept] += flat["alpha"][rows, gone]
    weight[rows, kept] = np.minimum(a + b, _HEAVIEST)
