"""P(agent i is best) for independent Beta posteriors, by Gauss-Legendre quadrature on panels that fit the posteriors.

Agent i's value is X_i minus its penalty, X_i with density x^(a-1) (1-x)^(b-1) / B(a, b). The integral of f_i times the
product of the others' distribution functions is taken downwards from the largest plausible value to the largest lower
end of a posterior. A panel is at most 2.8 standard deviations of every posterior it meets, ends where a posterior
begins, and shrinks towards an end of [0, 1] at which a density is not smooth. Within a panel, distribution functions
are integrals of the polynomial through the densities at the nodes. Errors stay below 1e-6 for up to a million outcomes
per agent.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaln

from bot_orch.arrays import Bools, Floats
from bot_orch.numerics.choice import as_rows

_PANEL = 2.8  # standard deviations per panel
_REACH, _SKEWED = 5.4, 6.0  # plausible range in standard deviations: 5.4 + 6 |skewness| on the long side
_ROUGH = 6.0  # exponents from here on are smooth enough
_EDGE, _LEAST = 1e-6, 1e-15  # the panel at a rough end holds a mass of about a millionth; it is not beyond rounding
_PANELS = 256
_CHUNK = 512  # posteriors at a time: larger arrays are slower to allocate than to fill


def _rule(n: int) -> tuple[Floats, Floats, Floats]:
    """Nodes and weights on [0, 1], and integrals of the Lagrange polynomials from each node to 1."""
    x, w = np.polynomial.legendre.leggauss(n)
    basis = np.linalg.inv(np.polynomial.legendre.legvander(x, n - 1))  # coefficients of the Lagrange polynomials
    primitive = np.polynomial.legendre.legint(basis, axis=0)
    above = np.polynomial.legendre.legval(1.0, primitive) - np.polynomial.legendre.legval(x, primitive).T
    return 0.5 * (x + 1.0), 0.5 * w, 0.5 * np.ascontiguousarray(above)


_K = 8
_NODES, _WEIGHTS, _ABOVE = _rule(_K)


def best_of_betas(a: Floats, b: Floats, penalty: Floats, *, eligible: Bools | None = None) -> Floats:
    """Probabilities ``batch + (M,)`` of having the largest value, from parameters ``batch + (M,)``.

    Examples
    --------
    >>> best_of_betas(np.array([1.0, 2.0]), np.array([1.0, 1.0]), np.zeros(2)).round(6)
    array([0.333333, 0.666667])
    """
    shape = a.shape
    m = shape[-1]
    mask = np.ones((math.prod(shape[:-1]), m), dtype=bool)
    if eligible is not None:
        mask[...] = np.broadcast_to(eligible, shape).reshape(-1, m)
    rows = [as_rows(each, shape).reshape(-1, m) for each in (a, b, penalty)]
    p = np.empty(rows[0].shape)
    parts = -(-len(p) // max(8, _CHUNK // m))  # of equal size
    count = -(-len(p) // max(parts, 1))
    for start in range(0, len(p), max(count, 1)):
        part = slice(start, start + count)
        p[part] = _best_batch(rows[0][part], rows[1][part], rows[2][part], eligible=mask[part])
    return p.reshape(shape)


def _best_batch(a: Floats, b: Floats, penalty: Floats, *, eligible: Bools) -> Floats:
    """All rows together: first the panels, then every density at every node, (M, B, P, k)."""
    s = _Ranges(a, b, penalty, eligible=eligible)
    edges = s.panels()  # (B, P + 1), descending
    width = edges[:, :-1] - edges[:, 1:]
    x = edges[:, 1:, None] + width[..., None] * _NODES  # (B, P, k)
    if (penalty == penalty[:, :1]).all():  # all agents see the same values
        penalty = penalty[:, :1]
    value = x + penalty.T[:, :, None, None]
    inside = (value > 0.0) & (value < 1.0) & (width > 0.0)[..., None]
    if not inside.all():
        value = np.where(inside, value, 0.5)
    f = np.empty((a.shape[1], *x.shape))  # C-ordered
    np.multiply(_spread(a - 1.0), np.log(value), out=f)
    f += _spread(b - 1.0) * np.log1p(-value)
    f -= _spread(s.log_b)
    np.exp(f, out=f)
    f *= np.where(inside, width[..., None], 0.0)
    if not eligible.all():
        f *= _spread(eligible)
    return _won(f)


def _spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array (B, M) as (M, B, 1, 1)."""
    return values.T[:, :, None, None]


def _won(f: Floats) -> Floats:
    """P(best), (B, M), from densities times panel widths at the nodes, (M, B, P, k)."""
    flat = f.reshape(-1, _K)
    mass = (flat @ _WEIGHTS).reshape(f.shape[:-1])
    tail = np.cumsum(mass, axis=-1)
    tail -= mass  # above the panel
    cdf = (flat @ _ABOVE.T).reshape(f.shape)
    cdf += tail[..., None]
    np.subtract(1.0, cdf, out=cdf)
    np.clip(cdf, 0.0, 1.0, out=cdf)
    for order in (range(len(f)), range(len(f) - 1, -1, -1)):  # the agents before agent i, then those after it
        others = np.ones(f.shape[1:])
        for i in order:
            f[i] *= others
            others *= cdf[i]
    p = (flat @ _WEIGHTS).reshape(f.shape[:-1]).sum(axis=-1).T
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


class _Ranges:
    """Plausible ranges of the posteriors, rows (B, M), and the panels that fit them."""

    def __init__(self, a: Floats, b: Floats, penalty: Floats, *, eligible: Bools) -> None:
        total = a + b
        mean, product = a / total, a * b
        self.penalty, self.sd = penalty, np.sqrt(product / (total + 1.0)) / total
        skew = 2.0 * (b - a) * np.sqrt(total + 1.0) / ((total + 2.0) * np.sqrt(product))
        left = np.maximum(mean - (_REACH + _SKEWED * np.maximum(-skew, 0.0)) * self.sd, 0.0) - penalty
        right = np.minimum(mean + (_REACH + _SKEWED * np.maximum(skew, 0.0)) * self.sd, 1.0) - penalty
        self.right = np.where(eligible, right, -np.inf)
        self.low = np.where(eligible, left, -np.inf).max(axis=-1)
        self.high = self.right.max(axis=-1)
        self.log_b = betaln(a, b)
        self.rough_left, self.rough_right = self._rough(a), self._rough(b)

    def _rough(self, exponent: Floats) -> Floats | None:
        """The shortest panel at an end where a density is not smooth, infinite where it is; None if all are."""
        smooth = (exponent >= _ROUGH) | (np.abs(exponent - np.round(exponent)) < 1e-9)
        if smooth.all():
            return None
        return np.where(smooth, np.inf, np.maximum(self.sd * _EDGE ** (1.0 / exponent), _LEAST))

    def panels(self) -> Floats:
        """Edges of the panels, descending, ``(B, P + 1)``; panels of zero width at the end of shorter rows."""
        top, edges, plain = self.high, [self.high], _PANEL * self.sd
        while len(edges) < _PANELS and (top > self.low).any():
            below = top[:, None] - self.right
            step = np.where(below > 0.0, below, self._longest(top[:, None], plain)).min(axis=-1)
            top = np.maximum(top - step, self.low)
            edges.append(top)
        return np.stack(edges, axis=-1)

    def _longest(self, top: Floats, step: Floats) -> Floats:
        """The longest panel below ``top`` that every posterior allows; ``step`` where densities are smooth."""
        if self.rough_left is not None:
            near = np.maximum(0.6 * (top + self.penalty), self.rough_left)
            step = np.minimum(step, near)
        if self.rough_right is not None:
            step = np.minimum(step, np.maximum(1.0 - self.penalty - top, self.rough_right))
        return step
