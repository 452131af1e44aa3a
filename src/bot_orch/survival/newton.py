"""Newton's method with step halving, vectorised over many concave problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bot_orch.arrays import Bools, Floats

__all__ = ["Maximum", "maximise"]

Objective = Callable[[Floats], tuple[Floats, Floats, Floats]]


class Maximum(NamedTuple):
    """Maximiser, maximum, and a mask of converged rows."""

    argument: Floats
    value: Floats
    converged: Bools
    n_iterations: int


def maximise(objective: Objective, start: Floats, max_iterations: int = 80, tolerance: float = 1e-13) -> Maximum:
    """Maximise a concave function for every leading row of ``start``.

    Parameters
    ----------
    objective
        Takes arguments ``(..., p)``; returns values ``(...)``, gradients ``(..., p)`` and Hessians ``(..., p, p)``.
        A value that is not finite marks an argument outside the domain.
    tolerance
        Stop when half the squared Newton decrement is below it, relative to ``1 + |value|``; one more full step is
        then taken, after which the error is of the order of rounding.

    Examples
    --------
    >>> quadratic = lambda p: (-(p[..., 0] - 3) ** 2, -2 * (p - 3), np.full((*p.shape, 1), -2.0))
    >>> maximise(quadratic, np.zeros((2, 1))).argument.tolist()
    [[3.0], [3.0]]
    """
    p = np.array(start, dtype=float)
    value, gradient, hessian = objective(p)
    done = np.zeros(value.shape, dtype=bool)
    n_iterations = 0
    while not done.all() and n_iterations < max_iterations:
        n_iterations += 1
        direction = _newton_direction(gradient, hessian)
        decrement = np.sum(gradient * direction, axis=-1)
        close = decrement <= 2 * tolerance * (1 + np.abs(value))
        p, value, gradient, hessian, moved = _step(objective, p, value, direction, decrement, ~done, close)
        done |= close | ~moved
    small = np.abs(np.sum(gradient * _newton_direction(gradient, hessian), axis=-1)) <= 1e-9 * (1 + np.abs(value))
    return Maximum(p, value, small & np.isfinite(value), n_iterations)


def _newton_direction(gradient: Floats, hessian: Floats) -> Floats:
    """Solve ``-hessian d = gradient`` with a tiny ridge for flat problems."""
    n = gradient.shape[-1]
    curvature = -hessian
    ridge = 1e-14 * np.trace(curvature, axis1=-2, axis2=-1)[..., None, None] + 1e-300
    direction: Floats = np.linalg.solve(curvature + ridge * np.eye(n), gradient[..., None])[..., 0]
    return direction


def _step(
    objective: Objective, p: Floats, value: Floats, direction: Floats, decrement: Floats, active: Bools, close: Bools
) -> tuple[Floats, Floats, Floats, Floats, Bools]:
    """One step per row, halved until the value increases; rows close to the maximum take a full step."""
    size = np.where(active, 1.0, 0.0)
    for _ in range(40):
        trial = p + size[..., None] * direction
        new, gradient, hessian = objective(trial)
        allowed = value - 1e-12 * (1 + np.abs(value)) * close + 1e-4 * size * decrement * ~close
        bad = ~(np.isfinite(new) & (new >= allowed)) & (size > 0)
        if not bad.any():
            return trial, new, gradient, hessian, size > 0
        size = np.where(bad, size / 2, size)
    size = np.where(bad, 0.0, size)
    trial = p + size[..., None] * direction
    return trial, *objective(trial), size > 0
