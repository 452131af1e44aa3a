"""Integrals over the unit interval and against the normal density."""

from __future__ import annotations

from functools import cache

import numpy as np

from bot_orch.arrays import Floats

__all__ = ["normal_nodes", "unit_nodes"]


@cache
def unit_nodes(n: int = 64) -> tuple[Floats, Floats]:
    """Nodes and weights on (0, 1): Gauss-Legendre after ``v = s^3 (10 - 15 s + 6 s^2)``.

    The substitution makes integrands with a power-law singularity at either end smooth enough for the rule.

    Examples
    --------
    >>> v, weights = unit_nodes()
    >>> round(float(weights @ v ** (1 / 3)), 10)
    0.75
    """
    node, weight = np.polynomial.legendre.leggauss(n)
    s = (node + 1) / 2
    return _frozen(s**3 * (10 - 15 * s + 6 * s**2)), _frozen(weight / 2 * 30 * (s * (1 - s)) ** 2)


@cache
def normal_nodes(n: int = 201, reach: float = 8.5) -> tuple[Floats, Floats]:
    """Nodes and log weights of the trapezoidal rule for a standard normal.

    Examples
    --------
    >>> z, log_weights = normal_nodes()
    >>> round(float(np.exp(log_weights) @ z**2), 10)
    1.0
    """
    z = np.linspace(-reach, reach, n)
    log_weights = -0.5 * z**2
    log_weights -= np.log(np.sum(np.exp(log_weights)))
    return _frozen(z), _frozen(log_weights)


def _frozen(array: Floats) -> Floats:
    array.flags.writeable = False
    return array
