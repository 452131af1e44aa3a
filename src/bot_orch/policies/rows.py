"""Kernels over rows of agents: softmax, upper confidence bounds, means, draws.

One row is a live decision, many rows are the seeds of a simulation: both run the same code. The functions are written
for numba (:func:`bot_orch.kernels.compiled`); the NumPy versions are beside the rules that use them. Inputs are
C-ordered arrays whose last axis is the agents; ``eligible`` is a mask or None. Outputs are allocated by the caller.
"""

from __future__ import annotations

import math

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints

__all__ = ["draw_rows", "ema_rows", "mean_rows", "share_and_draw", "softmax_rows", "sum_rows", "ucb_rows"]

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to a whole number, kept in the lowest bits
_TINY, _ZERO = -708.0, 1e-307  # exp of anything below -708 counts as zero


def softmax_rows(estimate: Floats, penalty: Floats, eligible: Bools | None, eta: float, p: Floats) -> None:
    """``p`` proportional to ``exp(eta * (estimate - penalty))`` over the eligible agents of every row.

    The exponential is a polynomial of degree 13 after reduction by powers of two (error below one unit in the last
    place): a loop without branches that the compiler vectorises, and the same on every machine.
    """
    m = p.shape[-1]
    a, c, z = estimate.ravel(), penalty.ravel(), p.ravel()
    n = z.shape[0]
    rows = z.reshape((n // m, m))
    w = np.empty(n)
    for i in range(n):
        z[i] = eta * (a[i] - c[i])
    if eligible is not None:
        e = eligible.ravel()
        for i in range(n):
            z[i] = z[i] if e[i] else -np.inf
    for row in range(rows.shape[0]):
        top = rows[row, 0]
        for i in range(1, m):
            top = rows[row, i] if rows[row, i] > top else top
        for i in range(m):
            rows[row, i] -= top
    for i in range(n):
        x = _TINY if z[i] < _TINY else z[i]
        w[i] = x * _LOG2_E + _ROUND
        k = w[i] - _ROUND
        r = (x - k * _LN2_HIGH) - k * _LN2_LOW
        q = 1.6059043836821613e-10
        q = q * r + 2.08767569878681e-09
        q = q * r + 2.505210838544172e-08
        q = q * r + 2.7557319223985893e-07
        q = q * r + 2.755731922398589e-06
        q = q * r + 2.48015873015873e-05
        q = q * r + 0.0001984126984126984
        q = q * r + 0.001388888888888889
        q = q * r + 0.008333333333333333
        q = q * r + 0.041666666666666664
        q = q * r + 0.16666666666666666
        q = q * r + 0.5
        q = q * r + 1.0
        z[i] = q * r + 1.0
    bits, shift = z.view(np.int64), w.view(np.int64)
    for i in range(n):
        bits[i] += shift[i] << 52
    for row in range(rows.shape[0]):
        total = 0.0
        for i in range(m):
            total += rows[row, i]
        for i in range(m):
            rows[row, i] = 0.0 if rows[row, i] < _ZERO else rows[row, i] / total


def mean_rows(total: Floats, count: Floats, prior: float, out: Floats) -> None:
    """``(total + prior / 2) / (count + prior)``; the total itself where that weight is zero."""
    a, c, z = total.ravel(), count.ravel(), out.ravel()
    for i in range(z.shape[0]):
        weight = c[i] + prior
        z[i] = (a[i] + 0.5 * prior) / (weight if weight > 0.0 else 1.0)


def ucb_rows(
    total: Floats,
    count: Floats,
    pending: Floats | None,
    penalty: Floats,
    eligible: Bools | None,
    prior: float,
    scale: float,
    unseen: float,
    estimate: Floats,
    bonus: Floats,
    p: Floats,
) -> None:
    """Means, ``bonus = scale * sqrt(2 ln N / n)`` and all probability on the best score, split evenly over exact ties.

    n is the count plus the pending decisions, N its sum over the row.
    """
    m = p.shape[-1]
    t, c, s, a, b, z = total.ravel(), count.ravel(), penalty.ravel(), estimate.ravel(), bonus.ravel(), p.ravel()
    size = z.shape[0]
    bonuses, scores = b.reshape((size // m, m)), z.reshape((size // m, m))
    for i in range(size):
        weight = c[i] + prior
        a[i] = (t[i] + 0.5 * prior) / (weight if weight > 0.0 else 1.0)
        z[i] = c[i]
    if pending is not None:
        w = pending.ravel()
        for i in range(size):
            z[i] += w[i]
    for row in range(size // m):
        n = 0.0
        for i in range(m):
            n += scores[row, i]
        twice = 2.0 * math.log(max(n, 1.0))
        for i in range(m):
            bonuses[row, i] = twice
    for i in range(size):
        radius = scale * math.sqrt(b[i] / (z[i] if z[i] > 1e-12 else 1e-12))
        radius = radius if radius < unseen else unseen
        b[i] = radius if z[i] > 0.0 else unseen
        z[i] = a[i] + b[i] - s[i]
    if eligible is not None:
        e = eligible.ravel()
        for i in range(size):
            z[i] = z[i] if e[i] else -np.inf
    for row in range(size // m):
        top = scores[row, 0]
        for i in range(1, m):
            top = scores[row, i] if scores[row, i] > top else top
        ties = 0.0
        for i in range(m):
            scores[row, i] = 1.0 if scores[row, i] == top else 0.0
            ties += scores[row, i]
        for i in range(m):
            scores[row, i] /= ties


def draw_rows(p: Floats, u: Floats, agent: Ints) -> None:
    """Inverse-CDF draw, one per row: the first agent whose cumulative probability exceeds ``u`` times the total."""
    rows, m = p.shape
    for row in range(rows):
        total = 0.0
        for i in range(m):
            total += p[row, i]
        reach, edge, passed = u[row] * total, 0.0, 0
        for i in range(m):
            edge += p[row, i]
            passed += edge <= reach
        agent[row] = passed if passed < m else 0


def share_and_draw(p: Floats, eligible: Bools | None, share: float, u: float, mixed: Floats) -> int:
    """One row: mix ``p`` with the uniform distribution over the eligible agents into ``mixed``, then draw.

    Minus one if the sum differs from one by a millionth or more.
    """
    m = p.shape[0]
    n = 0.0
    for i in range(m):
        n += 1.0 if eligible is None or eligible[i] else 0.0
    even, keep, total = share / n, 1.0 - share, 0.0
    for i in range(m):
        mixed[i] = keep * p[i] + even if eligible is None or eligible[i] else 0.0
        total += mixed[i]
    if not abs(total - 1.0) < 1e-6:  # also catches nan
        return -1
    reach, edge, passed = u * total, 0.0, 0
    for i in range(m):
        edge += mixed[i]
        passed += edge <= reach
    return passed if passed < m else 0


def ema_rows(rhat: Floats, count: Floats, agent: Ints, reward: Floats, alpha: float) -> None:
    """One step of a moving average for the chosen agent of every row."""
    for row in range(rhat.shape[0]):
        i = agent[row]
        rhat[row, i] = alpha * rhat[row, i] + (1.0 - alpha) * reward[row]
        count[row, i] += 1.0


def sum_rows(total: Floats, count: Floats, agent: Ints, reward: Floats) -> None:
    """Add the reward of the chosen agent of every row."""
    for row in range(total.shape[0]):
        total[row, agent[row]] += reward[row]
        count[row, agent[row]] += 1.0
