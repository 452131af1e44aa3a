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

from bot_orch.arrays import Bools, Floats
from bot_orch.kernels import kernel
from bot_orch.policies.choice import as_rows

__all__ = ["best_of_betas"]

_PANEL = 2.8  # standard deviations per panel
_REACH, _SKEWED = 5.4, 6.0  # plausible range in standard deviations: 5.4 + 6 |skewness| on the long side
_ROUGH = 6.0  # exponents from here on are smooth enough
_EDGE, _LEAST = 1e-6, 1e-15  # the panel at a rough end holds a mass of about a millionth; it is not beyond rounding
_PANELS = 256
_CHUNK = 128


def _rule(n: int) -> tuple[Floats, Floats, Floats]:
    """Nodes and weights on [0, 1], and integrals of the Lagrange polynomials from each node to 1."""
    x, w = np.polynomial.legendre.leggauss(n)
    basis = np.linalg.inv(np.polynomial.legendre.legvander(x, n - 1))  # coefficients of the Lagrange polynomials
    primitive = np.polynomial.legendre.legint(basis, axis=0)
    above = np.polynomial.legendre.legval(1.0, primitive) - np.polynomial.legendre.legval(x, primitive).T
    return 0.5 * (x + 1.0), 0.5 * w, 0.5 * np.ascontiguousarray(above)


_K = 8
_NODES, _WEIGHTS, _ABOVE = _rule(_K)
_HALF_BITS = 0x3FE6A09E667F3BCD  # of the square root of 1/2


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
    fast = kernel(_best_rows)
    if fast is not None:
        fast(*rows, mask, p, _NODES, _WEIGHTS, np.ascontiguousarray(_ABOVE.T))
    else:
        for start in range(0, len(p), _CHUNK):
            part = slice(start, start + _CHUNK)
            p[part] = _best_batch(rows[0][part], rows[1][part], rows[2][part], eligible=mask[part])
    return p.reshape(shape)


def _best_rows(
    a: Floats,
    b: Floats,
    penalty: Floats,
    eligible: Bools,
    p: Floats,
    nodes: Floats,
    weights: Floats,
    above: Floats,
) -> None:
    """Row by row, for numba."""
    rows, m = a.shape
    left, right, sd, log_b = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    rough_left, rough_right, tail = np.empty(m), np.empty(m), np.empty(m)
    active, index = np.empty(m, np.int64), np.empty(m, np.int64)
    # one block of _K nodes per posterior that a panel meets: densities, distribution functions, logarithms
    f, cdf, scratch = np.empty((m, _K)), np.empty((m, _K)), np.empty(m * _K)
    points, exponent = np.empty((m, 2, _K)), np.empty(2 * m * _K)  # x and 1 - x, then their logarithms
    log_flat = points.ravel()
    log_bits = log_flat.view(np.int64)
    flat = f.ravel()
    before, after = np.empty(_K), np.empty(_K)
    f_bits, scratch_bits = flat.view(np.int64), scratch.view(np.int64)
    for row in range(rows):
        low, high, n, same = -np.inf, -np.inf, 0, True
        for i in range(m):
            p[row, i] = 0.0
            if not eligible[row, i]:
                continue
            s, t, c = a[row, i], b[row, i], penalty[row, i]
            total = s + t
            mean = s / total
            sd[i] = math.sqrt(s * t / (total + 1.0)) / total
            skew = 2.0 * (t - s) * math.sqrt(total + 1.0) / ((total + 2.0) * math.sqrt(s * t))
            left[i] = max(mean - (_REACH + _SKEWED * max(-skew, 0.0)) * sd[i], 0.0) - c
            right[i] = min(mean + (_REACH + _SKEWED * max(skew, 0.0)) * sd[i], 1.0) - c
            low, high = max(low, left[i]), max(high, right[i])
            index[n] = i
            n += 1
        if n == 1:
            p[row, index[0]] = 1.0
            continue
        relevant = 0
        for j in range(n):
            i = index[j]
            if right[i] <= low and left[i] < low:
                continue
            index[relevant] = i
            relevant += 1
            s, t = a[row, i], b[row, i]
            rough_left[i] = -1.0 if s >= _ROUGH or abs(s - round(s)) < 1e-9 else max(sd[i] * _EDGE ** (1.0 / s), _LEAST)
            rough_right[i] = (
                -1.0 if t >= _ROUGH or abs(t - round(t)) < 1e-9 else max(sd[i] * _EDGE ** (1.0 / t), _LEAST)
            )
            same = same and penalty[row, i] == penalty[row, index[0]]
            tail[i] = 0.0
            # log B(a, b): Stirling's series beyond 8, reached by the recurrence of the gamma function
            u, v, w = s, t, s + t
            ratio = 1.0
            while u < 8.0:
                ratio /= u
                u += 1.0
            while v < 8.0:
                ratio /= v
                v += 1.0
            while w < 8.0:
                ratio *= w
                w += 1.0
            log_b[i] = (
                (u - 0.5) * math.log(u)
                + (v - 0.5) * math.log(v)
                - (w - 0.5) * math.log(w)
                - (u + v - w)
                + 0.9189385332046727
                + (1.0 / u + 1.0 / v - 1.0 / w) / 12.0
                - (1.0 / u**3 + 1.0 / v**3 - 1.0 / w**3) / 360.0
                + (1.0 / u**5 + 1.0 / v**5 - 1.0 / w**5) / 1260.0
                + math.log(ratio)
            )
        top = high
        for _ in range(_PANELS):
            if top <= low:
                break
            step = top - low
            for j in range(relevant):
                i = index[j]
                if top > right[i]:
                    step = min(step, top - right[i])
                    continue
                step = min(step, _PANEL * sd[i])
                if rough_left[i] >= 0.0:
                    step = min(step, max(0.6 * (top + penalty[row, i]), rough_left[i]))
                if rough_right[i] >= 0.0:
                    step = min(step, max(1.0 - penalty[row, i] - top, rough_right[i]))
            start = max(top - step, low)
            width = top - start
            middle = 0.5 * (start + top)
            n = 0
            for j in range(relevant):
                i = index[j]
                if middle <= right[i] and top > left[i]:
                    active[n] = i
                    n += 1
            blocks = min(n, 1) if same else n
            for j in range(blocks):
                shift = start + penalty[row, active[j]]
                for q in range(_K):
                    x = shift + width * nodes[q]
                    y = 1.0 - x
                    points[j, 0, q] = x if x > 1e-18 else 1e-18
                    points[j, 1, q] = y if y > 1e-16 else 1e-16
            for q in range(blocks * 2 * _K):  # logarithm: the exponent, and a series in (x - 1) / (x + 1)
                whole = (log_bits[q] - _HALF_BITS) >> 52
                log_bits[q] -= whole << 52
                exponent[q] = whole
            for q in range(blocks * 2 * _K):
                r = (log_flat[q] - 1.0) / (log_flat[q] + 1.0)
                z = r * r
                t = 0.058823529411764705
                t = t * z + 0.06666666666666667
                t = t * z + 0.07692307692307693
                t = t * z + 0.09090909090909091
                t = t * z + 0.1111111111111111
                t = t * z + 0.14285714285714285
                t = t * z + 0.2
                t = t * z + 0.3333333333333333
                t = t * z + 1.0
                log_flat[q] = exponent[q] * 0.6931471805599453 + 2.0 * r * t
            for j in range(n):
                i = active[j]
                s, t, scale, at = a[row, i] - 1.0, b[row, i] - 1.0, log_b[i], 0 if same else j
                for q in range(_K):
                    f[j, q] = s * points[at, 0, q] + t * points[at, 1, q] - scale
            for q in range(n * _K):  # exponential, as in bot_orch.policies.rows
                x = flat[q] if flat[q] > -700.0 else -700.0
                scratch[q] = x * 1.4426950408889634 + 6755399441055744.0
                z = scratch[q] - 6755399441055744.0
                r = (x - z * 6.93147180369123816490e-01) - z * 1.90821492927058770002e-10
                t = 1.6059043836821613e-10
                t = t * r + 2.08767569878681e-09
                t = t * r + 2.505210838544172e-08
                t = t * r + 2.7557319223985893e-07
                t = t * r + 2.755731922398589e-06
                t = t * r + 2.48015873015873e-05
                t = t * r + 0.0001984126984126984
                t = t * r + 0.001388888888888889
                t = t * r + 0.008333333333333333
                t = t * r + 0.041666666666666664
                t = t * r + 0.16666666666666666
                t = t * r + 0.5
                t = t * r + 1.0
                flat[q] = t * r + 1.0
            for q in range(n * _K):
                f_bits[q] += scratch_bits[q] << 52
            for j in range(n):
                i = active[j]
                c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = tail[i]  # in registers, one per node
                for r in range(_K):
                    mass = width * f[j, r]
                    f[j, r] = mass
                    tail[i] += weights[r] * mass
                    c0 += above[r, 0] * mass
                    c1 += above[r, 1] * mass
                    c2 += above[r, 2] * mass
                    c3 += above[r, 3] * mass
                    c4 += above[r, 4] * mass
                    c5 += above[r, 5] * mass
                    c6 += above[r, 6] * mass
                    c7 += above[r, 7] * mass
                cdf[j, 0], cdf[j, 1], cdf[j, 2], cdf[j, 3] = c0, c1, c2, c3
                cdf[j, 4], cdf[j, 5], cdf[j, 6], cdf[j, 7] = c4, c5, c6, c7
                for q in range(_K):
                    x = 1.0 - cdf[j, q]
                    cdf[j, q] = x if x > 0.0 else 0.0
            # products of the others' distribution functions: those after agent i, times those before it
            for q in range(_K):
                before[q], after[q] = weights[q], 1.0
            for back in range(n):
                j = n - 1 - back
                for q in range(_K):
                    f[j, q] *= after[q]
                    after[q] *= cdf[j, q]
            for j in range(n):
                won = 0.0
                for q in range(_K):
                    won += f[j, q] * before[q]
                    before[q] *= cdf[j, q]
                p[row, active[j]] += won
            top = start
        total = 0.0
        for i in range(m):
            total += p[row, i]
        for i in range(m):
            p[row, i] /= total


def _best_batch(a: Floats, b: Floats, penalty: Floats, *, eligible: Bools) -> Floats:
    """All rows together, in NumPy: first the panels, then every density at every node."""
    s = _Ranges(a, b, penalty, eligible=eligible)
    edges = s.panels()  # (B, P + 1), descending
    width = edges[:, :-1] - edges[:, 1:]
    x = edges[:, 1:, None] + width[..., None] * _NODES  # (B, P, k)
    value = x[:, None] + penalty[:, :, None, None]  # (B, M, P, k)
    inside = (value > 0.0) & (value < 1.0) & eligible[:, :, None, None] & (width > 0.0)[:, None, :, None]
    value = np.where(inside, value, 0.5)
    log_f = (a - 1.0)[..., None, None] * np.log(value) + (b - 1.0)[..., None, None] * np.log1p(-value)
    f = np.where(inside, np.exp(log_f - s.log_b[..., None, None]), 0.0) * width[:, None, :, None]
    mass = f @ _WEIGHTS
    tail = np.cumsum(mass, axis=-1) - mass  # above the panel
    cdf = np.clip(1.0 - tail[..., None] - f @ _ABOVE.T, 0.0, 1.0)
    cdf = np.where(eligible[:, :, None, None], cdf, 1.0)
    ones = np.ones_like(cdf[:, :1])
    before = np.cumprod(np.concatenate([ones, cdf[:, :-1]], axis=1), axis=1)
    after = np.cumprod(np.concatenate([ones, cdf[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    p = ((f * before * after) @ _WEIGHTS).sum(axis=-1)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


class _Ranges:
    """Plausible ranges of the posteriors, rows (B, M), and the panels that fit them."""

    def __init__(self, a: Floats, b: Floats, penalty: Floats, *, eligible: Bools) -> None:
        from scipy.special import betaln

        total = a + b
        mean = a / total
        self.penalty, self.sd = penalty, np.sqrt(a * b / (total + 1.0)) / total
        skew = 2.0 * (b - a) * np.sqrt(total + 1.0) / ((total + 2.0) * np.sqrt(a * b))
        left = np.maximum(mean - (_REACH + _SKEWED * np.maximum(-skew, 0.0)) * self.sd, 0.0) - penalty
        right = np.minimum(mean + (_REACH + _SKEWED * np.maximum(skew, 0.0)) * self.sd, 1.0) - penalty
        self.right = np.where(eligible, right, -np.inf)
        self.low = np.where(eligible, left, -np.inf).max(axis=-1)
        self.high = self.right.max(axis=-1)
        self.log_b = betaln(a, b)
        self.rough_left, self.rough_right = self._rough(a), self._rough(b)

    def _rough(self, exponent: Floats) -> Floats:
        smooth = (exponent >= _ROUGH) | (np.abs(exponent - np.round(exponent)) < 1e-9)
        return np.where(smooth, np.inf, np.maximum(self.sd * _EDGE ** (1.0 / exponent), _LEAST))

    def panels(self) -> Floats:
        """Edges of the panels, descending, ``(B, P + 1)``; panels of zero width at the end of shorter rows."""
        top, edges = self.high, [self.high]
        while len(edges) < _PANELS and (top > self.low).any():
            below = top[:, None] - self.right
            step = np.where(below > 0.0, below, self._longest(top[:, None])).min(axis=-1)
            step = np.minimum(step, top - self.low)
            top = np.maximum(top - step, self.low)
            edges.append(top)
        return np.stack(edges, axis=-1)

    def _longest(self, top: Any) -> Floats:
        """The longest panel below ``top`` that every posterior allows."""
        step = _PANEL * self.sd
        step = np.minimum(
            step, np.where(np.isinf(self.rough_left), np.inf, np.maximum(0.6 * (top + self.penalty), self.rough_left))
        )
        far = np.maximum(1.0 - self.penalty - top, self.rough_right)
        return np.asarray(np.minimum(step, far))
