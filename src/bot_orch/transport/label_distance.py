"""Exact Wasserstein distances between distributions over a finite label set, under any ground cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
    """W under 0-1 cost, closed form: half the L1 distance. Broadcasts over leading dimensions.

    Examples
    --------
    >>> total_variation([0.2, 0.8], [[1.0, 0.0], [0.0, 1.0]])
    array([0.8, 0.2])
    """
    difference = np.abs(np.asarray(p, dtype=float) - np.asarray(q, dtype=float))
    half: Floats = 0.5 * difference.sum(axis=-1)
    return half


def check_ground_cost(cost: npt.ArrayLike) -> Floats:
    """Validate a cost matrix: square, non-negative, finite, zero diagonal."""
    c = np.array(cost, dtype=float)
    if c.ndim != 2 or c.shape[0] != c.shape[1]:
        raise InvalidInputError("ground_cost", f"has shape {c.shape}", "pass a K x K matrix")
    if not np.all(np.isfinite(c)) or np.any(c < 0):
        raise InvalidInputError("ground_cost", "holds a negative or non-finite number", "pass costs >= 0")
    if np.any(np.diag(c) != 0):
        raise InvalidInputError("ground_cost", "has a non-zero diagonal", "moving nothing must cost nothing")
    return c


def is_zero_one(cost: Floats) -> bool:
    """Whether the cost is 0 on the diagonal and 1 elsewhere."""
    return bool(np.array_equal(cost, 1.0 - np.eye(cost.shape[0])))


def label_distance(p: npt.ArrayLike, q: npt.ArrayLike, ground_cost: npt.ArrayLike) -> float:
    """Min over couplings of sum_ij pi_ij c_ij, by linear programming; closed form when the cost is 0-1.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer(range(3), range(3)))
    >>> label_distance([1, 0, 0], [0, 0, 1], line)
    2.0
    """
    a, b, c = np.asarray(p, dtype=float), np.asarray(q, dtype=float), check_ground_cost(ground_cost)
    k = c.shape[0]
    if a.shape != (k,) or b.shape != (k,):
        raise InvalidInputError("probabilities", f"have shapes {a.shape} and {b.shape}", f"pass {k} numbers each")
    if is_zero_one(c):
        return float(total_variation(a, b))
    return transport_plan_cost(a, b, c)[0]


def transport_plan_cost(a: Floats, b: Floats, c: Floats) -> tuple[float, Floats]:
    """The least cost of moving ``a`` to ``b`` and the Kantorovich potential on the side of ``a``, by HiGHS."""
    from scipy.optimize import linprog  # slow import, needed only without a closed form

    m, n = c.shape
    constraints = np.vstack([np.kron(np.eye(m), np.ones((1, n))), np.kron(np.ones((1, m)), np.eye(n))])
    solution = linprog(c.ravel(), A_eq=constraints[:-1], b_eq=np.concatenate([a, b])[:-1], method="highs")
    return max(0.0, float(solution.fun)), np.asarray(solution.eqlin.marginals[:m], dtype=float)
