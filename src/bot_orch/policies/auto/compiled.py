"""The choice and the lesson of :mod:`.steps` as loops for numba, with the same constants and the same results.

Only :mod:`.kinds` imports this module, and only if compiled kernels are in use. Differences to the plain version are of
the order of single precision: the memory is stored in it.

Constants of other modules are compiled in. Numba's cache on disk notices changes of this file only: after changing a
constant elsewhere, touch this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.kernels import compiled as _jit
from bot_orch.policies.auto import memory, ridge, steps
from bot_orch.policies.auto.state import KNOTS, MEMBERS, START, AutoState
from bot_orch.policies.auto.state import row_of as _row_of

__all__ = ["choose", "choose_rows", "envelope", "learn", "learn_rows"]

_PRIORS, _LIFETIME, _EARLY, _APART = memory.PRIORS, memory.LIFETIME, memory.EARLY, memory.APART
_FAR, _FEW, _REACH = memory.FAR, memory.FEW, memory.REACH
_PRIOR_COUNT, _SLOPES, _COMMON, _FRAME_EARLY = ridge.PRIOR_COUNT, ridge.SLOPES, ridge.COMMON, ridge.EARLY
_LOW, _HIGH, _OFFSET, _SPREAD = ridge.LOW, ridge.HIGH, math.sqrt(ridge.CLAIM_OFFSET), math.sqrt(ridge.CLAIM_VARIANCE)
_LEAST_WEIGHT, _START, _MEMBERS = memory.LEAST_WEIGHT, START, len(MEMBERS)
_DISCOUNT, _TRUSTED, _CALM, _CANDIDATES = (
    steps.EVIDENCE_MEMORY,
    steps.CLAIMS_TRUSTED,
    steps.CLAIMS_CALM,
    steps.CANDIDATES,
)
_NOISE_RATE, _SHORT, _LONG, _LEAST_NOISE = steps.NOISE_RATE, steps.SHORT, steps.LONG, steps.LEAST_NOISE
_ALARM, _KEPT, _WARM_UP, _UNDER_DRIFT = steps.ALARM, steps.KEPT, steps.WARM_UP, steps.UNDER_DRIFT
_FADING = np.append(np.exp(-np.arange(4095) / _LIFETIME), 0.0)  # exp(-rounds / lifetime)
_FARTHEST = 0.25  # 64 / 256: exp(-64) is zero for our purpose

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _fast(function: _Function) -> _Function:
    return cast(_Function, njit(function, cache=True, nogil=True, error_model="numpy", fastmath=True))


row_of = _jit(_row_of)


@_fast
def _nearness(points: Floats, point: Floats, scale: Floats, n: int, out: Floats) -> None:
    """See :func:`bot_orch.policies.auto.primitives.nearness`.

    The second loop is exp(-distance) by a polynomial at distance / 256 and eight squarings, to 1e-13: unlike a call of
    exp it becomes vector instructions.
    """
    for row in range(n):
        square = 0.0
        for k in range(len(point)):
            gap = (points[row, k] - point[k]) * scale[k]
            square += gap * gap
        out[row] = square
    for row in range(n):
        y = min(math.sqrt(out[row]) / 256.0, _FARTHEST)
        p = 1.0 - y * (1.0 - y * (1 / 2 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y / 5040))))))
        for _ in range(8):
            p = p * p
        out[row] = p


@_fast
def _fitted(row_of_kernel: Floats, alpha: Floats, n: int) -> float:
    total = 0.0
    for row in range(n):
        total += alpha[row] * row_of_kernel[row]
    return total


@_fast
def _kernel_row(e: int, owners: Ints, owner: int, n: int, near: Floats, recent: Floats, out: Floats) -> None:
    """Covariances of member ``e`` between a row of ``owner`` and the first ``n`` rows."""
    p = _PRIORS
    for row in range(n):
        k, r = near[row], recent[row]
        own = p[e, 0] + p[e, 2] * r + k * (p[e, 1] + p[e, 3] * r)
        out[row] = p[e, 4] * r + p[e, 5] * k + (own if owners[row] == owner else 0.0)


@_fast
def _subtract(change: float, row_of_kernel: Floats, rest: Floats, n: int) -> None:
    for row in range(n):
        rest[row] -= change * row_of_kernel[row]


@_jit
def _scale_of(s: AutoState, scale: Floats) -> None:
    seen, total = max(float(s.counters[0]), 1.0), 0.0
    for k in range(len(scale)):
        square, variance = s.x_mean[k] * s.x_mean[k], s.x_square[k] / seen
        variance += _EARLY / (_EARLY + seen) * min(square, _FAR * variance)
        scale[k] = variance if variance > 1e-18 * square and variance > 0.0 else 0.0
        total += scale[k]
    for k in range(len(scale)):
        scale[k] = 1.0 / math.sqrt(total) if scale[k] > 0.0 else 0.0


@_jit
def _clipped(s: AutoState, x: Floats) -> Floats:
    """See :func:`bot_orch.policies.auto.memory.clipped`."""
    seen, found = s.counters[0], x.copy()
    if seen >= _FEW:
        for k in range(len(x)):
            reach = _REACH * math.sqrt(s.x_square[k] / seen)
            if reach > 0.0:
                found[k] = min(max(x[k], s.x_mean[k] - reach), s.x_mean[k] + reach)
    return found


@_jit
def _kernel(s: AutoState, x: Floats, t: float, n: int, scale: Floats, near: Floats, recent: Floats) -> None:
    """Covariance factors of a task with the first ``n`` rows, by features and by time."""
    if len(x) > 0:
        _nearness(s.x, x, scale, n, near)
    for row in range(n):
        recent[row] = _FADING[int(min(abs(t - s.round[row]), 4095.0))]


@_jit
def _regressions(inverse: Floats, theta: Floats, z: Floats, shared: Floats, agent: int) -> tuple[float, float]:
    """Prediction and leverage of one agent's ridge regression."""
    mean, square = 0.0, 0.0
    for a in range(len(z)):
        gain = 0.0
        for b in range(len(z)):
            gain += inverse[agent, a, b] * z[b]
        mean += theta[agent, a] * z[a] + gain * shared[a]
        square += gain * z[a]
    return mean, max(square, 0.0)


@_jit
def _rank_one(inverse: Floats, theta: Floats, z: Floats, target: float, gain: Floats) -> None:
    total, error = 1.0, target
    for a in range(len(z)):
        gain[a] = 0.0
        for b in range(len(z)):
            gain[a] += inverse[a, b] * z[b]
        total += gain[a] * z[a]
        error -= theta[a] * z[a]
    for a in range(len(z)):
        theta[a] += gain[a] * (error / total)
        for b in range(len(z)):
            inverse[a, b] -= gain[a] * (gain[b] / total)


@_jit
def _standardised(s: AutoState, x: Floats, z: Floats) -> None:
    z[0] = 1.0 / math.sqrt(_PRIOR_COUNT)
    for k in range(len(x)):
        z[k + 1] = (x[k] - s.frame[0, k]) * s.frame[1, k] / math.sqrt(_SLOPES * len(x))


@_jit
def _basis(c: float, out: Floats) -> None:
    sure = -math.log10(1.001 - c) / 3.0
    out[0] = _OFFSET
    out[1] = (c - 0.5) * _SPREAD
    out[2] = (sure - 0.5) * _SPREAD
    out[3] = max(sure - 0.33, 0.0) * (1.5 * _SPREAD)
    out[4] = max(sure - 0.66, 0.0) * (3.0 * _SPREAD)


@_jit
def _usual(claims: Floats) -> float:
    """Mean of the claims; NaN without any."""
    total, count = 0.0, 0
    for c in claims:
        if not math.isnan(c):
            total += c
            count += 1
    return total / count if count > 0 else math.nan


@_jit
def _clip(value: float) -> float:
    return min(max(value, _LOW), _HIGH)


@_jit
def _claim(s: AutoState, claims: Floats, usual: float, agent: int, basis: Floats) -> tuple[float, float]:
    own = claims[agent]
    stated = not math.isnan(own)
    _basis(own if stated else usual, basis)
    value, leverage = _regressions(s.claim_inverse, s.claim_theta, basis, np.zeros(KNOTS), agent)
    return _clip(value + (own if stated else s.levels[0])), leverage


@_jit
def _weights(s: AutoState, contextual: bool, stated: bool, forgetting: bool, w: Floats) -> None:
    most, total = s.evidence[0], 0.0
    for e in range(_MEMBERS):
        most = max(most, s.evidence[e])
    for e in range(_MEMBERS):
        w[e] = math.exp(s.evidence[e] - most)
    if not forgetting:
        w[1] = 0.0
    if not contextual:
        w[0], w[2], w[3] = 0.0, 0.0, 2.0 * w[3]
    w[4] = _TRUSTED * w[4] if stated else 0.0
    for e in range(_MEMBERS):
        total += w[e]
    for e in range(_MEMBERS):
        w[e] /= total


@_jit
def _places(s: AutoState, n: int) -> Ints:
    table = np.full(s.counters[2] + 1, len(s.uid), np.int64)
    for agent in range(len(s.uid)):
        if s.uid[agent] >= 0:
            table[s.uid[agent]] = agent
    place = np.empty(n, np.int64)
    for row in range(n):
        place[row] = table[s.owner[row]]
    return place


@_jit
def _own_variance(e: int, contextual: bool) -> float:
    p, x = _PRIORS, 1.0 if contextual else 0.0
    return float(p[e, 0] + p[e, 2] + x * (p[e, 1] + p[e, 3]))


@_jit
def _memory(s: AutoState, x: Floats, t: float, w: Floats, value: Floats, variance: Floats) -> None:
    """Predictions (2, M) of the members with a memory, and the variance (M,) of their mixture."""
    n, m, contextual = min(s.counters[0], len(s.owner)), len(s.uid), len(x) > 0
    both = max(w[0] + w[1], 1e-300)
    second = w[1] / both
    first = 1.0 - second
    prior = first * _own_variance(0, contextual) + second * _own_variance(1, contextual)
    place, near, recent, scale = _places(s, n), np.zeros(n), np.empty(n), np.empty(len(x))
    _scale_of(s, scale)
    _kernel(s, x, t, n, scale, near, recent)
    information, a, b, p = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1), _PRIORS
    common_a, common_b = 0.0, 0.0
    for row in range(n):
        at, k, r = place[row], near[row], recent[row]
        lasting = p[0, 0] + k * p[0, 1]
        fading = p[1, 0] + p[1, 2] * r + k * (p[1, 1] + p[1, 3] * r)
        a[at] += s.alpha[0, row] * lasting
        b[at] += s.alpha[1, row] * fading
        common_a += s.alpha[0, row] * (p[0, 5] * k)
        common_b += s.alpha[1, row] * (p[1, 4] * r + p[1, 5] * k)
        mixed = (first * lasting + second * fading) / prior
        information[at] += s.weight[row] * mixed * mixed
    for agent in range(m):
        value[0, agent] = s.levels[0] + a[agent] + common_a
        value[1, agent] = s.levels[0] + b[agent] + common_b
        variance[agent] = 1.0 / (1.0 / prior + information[agent])


@_jit
def _predict(s: AutoState, x: Floats, claims: Floats, t: float, forgetting: bool, mean: Floats, total: Floats) -> None:
    m = len(s.uid)
    usual = _usual(claims)
    stated, w = not math.isnan(usual), np.empty(_MEMBERS)
    _weights(s, len(x) > 0, stated, forgetting, w)
    value, variance = np.empty((2, m)), np.empty(m)
    _memory(s, x, t, w, value, variance)
    z, basis = np.empty(len(x) + 1), np.empty(KNOTS)
    _standardised(s, x, z)
    for agent in range(m):
        mean[agent] = w[0] * value[0, agent] + w[1] * value[1, agent]
        total[agent] = (w[0] + w[1]) * variance[agent]
        if len(x) > 0:
            v, leverage = _regressions(s.inverse, s.theta, z, s.common, agent)
            mean[agent] += w[2] * _clip(v)
            total[agent] += w[2] * leverage
        share = 1.0 / (s.counts[agent] + _PRIOR_COUNT)
        mean[agent] += w[3] * (s.totals[agent] + _PRIOR_COUNT * s.levels[0]) * share
        total[agent] += w[3] * share
        if stated:
            v, leverage = _claim(s, claims, usual, agent, basis)
            mean[agent] += w[4] * v
            total[agent] += w[4] * leverage * _CALM


@_jit
def envelope(location: Floats, sd: Floats, eligible: Bools, p: Floats) -> None:
    """See :func:`bot_orch.policies.auto.primitives.envelope`."""
    m, now, before = len(location), -1, 0.0
    for i in range(m):
        p[i] = 0.0
        if eligible[i] and (
            now < 0 or location[i] > location[now] or (location[i] == location[now] and sd[i] > sd[now])
        ):
            now = i
    while now >= 0:
        first, following, twins = math.inf, -1, 0
        for i in range(m):
            if not eligible[i]:
                continue
            if sd[i] == sd[now] and location[i] == location[now]:
                twins += 1
            if sd[i] > sd[now]:
                cross = (location[now] - location[i]) / (sd[i] - sd[now])
                if cross < first or (cross == first and sd[i] > sd[following]):
                    first, following = cross, i
        after = 1.0 if following < 0 else math.erf(max(first, 0.0) / math.sqrt(2.0))
        for i in range(m):
            if eligible[i] and sd[i] == sd[now] and location[i] == location[now]:
                p[i] += (after - before) / twins
        now, before = following, after


@_jit
def choose(
    s: AutoState,
    x: Floats,
    claims: Floats,
    t: float,
    pending: Floats,
    penalty: Floats,
    cost: Floats,
    eligible: Bools,
    scale: float,
    forgetting: bool,
    found: Floats,
) -> None:
    """See :func:`bot_orch.policies.auto.steps.choose`."""
    m = len(s.uid)
    location, sd, variance = np.empty(m), np.empty(m), np.empty(m)
    _predict(s, _clipped(s, x), claims, t, forgetting, found[1], variance)
    for i in range(m):
        trust = cost[i] * _PRIOR_COUNT / (_PRIOR_COUNT + s.counts[i] + pending[i])
        sd[i] = scale * math.sqrt(s.levels[1] / (1.0 / variance[i] + pending[i]))
        location[i] = found[1, i] - (penalty[i] - trust)
        found[2, i] = sd[i] + trust
    envelope(location, sd, eligible, found[0])


@_jit
def choose_rows(
    batch: AutoState,
    x: Floats,
    claims: Floats,
    t: float,
    pending: Floats,
    penalty: Floats,
    cost: Floats,
    eligible: Bools,
    scale: float,
    forgetting: bool,
    found: Floats,
) -> None:
    """See :func:`bot_orch.policies.auto.steps.choose_rows`."""
    for b in range(len(batch.uid)):
        s = row_of(batch, b)
        choose(s, x[b], claims[b], t, pending[b], penalty[b], cost[b], eligible[b], scale, forgetting, found[b])


@_jit
def _step(s: AutoState, row: int, n: int, scale: Floats, near: Floats, recent: Floats, fitted: Floats) -> None:
    """See :func:`bot_orch.policies.auto.memory.step`."""
    d, p, covariance = s.x.shape[1], _PRIORS, np.empty(n)
    _kernel(s, s.x[row].astype(np.float64), float(s.round[row]), n, scale, near, recent)
    noise = 1.0 / s.weight[row]
    fitted[0] = 0.0
    for e in range(0 if d > 0 else 1, 2):  # without features the first has no part
        _kernel_row(e, s.owner, s.owner[row], n, near, recent, covariance)
        fitted[e] = _fitted(covariance, s.alpha[e], n)
        prior = _own_variance(e, d > 0) + p[e, 4] + (p[e, 5] if d > 0 else 0.0)
        change = (s.reward[row] - s.levels[0] - fitted[e] - s.alpha[e, row] * noise) / (prior + noise)
        s.alpha[e, row] += change
        _subtract(change, covariance, s.rest[e], n)
        s.rest[e, row] = 0.0


@_fast
def _gains(s: AutoState, n: int, w: Floats, prior: Floats, gain: Floats) -> None:
    for row in range(n):
        noise, a, b = 1.0 / s.weight[row], s.rest[0, row], s.rest[1, row]
        gain[row] = w[0] * a * a / (prior[0] + noise) + w[1] * b * b / (prior[1] + noise)


@_jit
def _largest(s: AutoState, n: int, w: Floats) -> int:
    """Row whose coordinate step gains most."""
    d, prior, gain = s.x.shape[1], np.empty(2), np.empty(n)
    for e in range(2):
        prior[e] = _own_variance(e, d > 0) + _PRIORS[e, 4] + (_PRIORS[e, 5] if d > 0 else 0.0)
    _gains(s, n, w, prior, gain)
    return int(np.argmax(gain))


@_jit
def _make_room(s: AutoState, row: int, merging: bool, scale: Floats) -> None:
    """See :func:`bot_orch.policies.auto.memory.make_room`."""
    capacity, d = len(s.owner), s.x.shape[1]
    half = max(capacity // 2, 2)
    least, first, second = math.inf, -1, -1
    x = np.empty(d)
    for a in range(min(_CANDIDATES, half) if merging else 0):
        at = (row + a) % capacity
        for k in range(d):
            x[k] = s.x[at, k]
        for b in range(half):
            other = (row + b) % capacity
            if b == a or s.owner[other] != s.owner[at]:
                continue
            far = 0.0
            for k in range(d):
                gap = (s.x[other, k] - x[k]) * scale[k]
                far += gap * gap
            cost = (far + _APART) / (1.0 / s.weight[at] + 1.0 / s.weight[other])
            if cost < least:
                least, first, second = cost, at, other
    if first >= 0:
        _merge(s, first, second)
        if first != row:
            _move(s, row, first)


@_jit
def _merge(s: AutoState, gone: int, kept: int) -> None:
    total = s.weight[gone] + s.weight[kept]
    share = s.weight[gone] / total
    for k in range(s.x.shape[1]):
        s.x[kept, k] += share * (s.x[gone, k] - s.x[kept, k])
    s.reward[kept] += share * (s.reward[gone] - s.reward[kept])
    for e in range(2):
        s.rest[e, kept] += share * (s.rest[e, gone] - s.rest[e, kept])
        s.alpha[e, kept] += s.alpha[e, gone]
    s.weight[kept] = total


@_jit
def _move(s: AutoState, source: int, target: int) -> None:
    for k in range(s.x.shape[1]):
        s.x[target, k] = s.x[source, k]
    s.owner[target], s.round[target] = s.owner[source], s.round[source]
    s.reward[target], s.weight[target] = s.reward[source], s.weight[source]
    for e in range(2):
        s.alpha[e, target], s.rest[e, target] = s.alpha[e, source], s.rest[e, source]


@_jit
def _store(s: AutoState, row: int, agent: int, reward: float, x: Floats, t: float) -> None:
    if s.uid[agent] < 0:
        s.uid[agent] = s.counters[2]
        s.counters[2] += 1
    s.owner[row] = s.uid[agent]
    s.reward[row], s.round[row], s.weight[row] = reward, t, 1.0
    for e in range(2):
        s.alpha[e, row], s.rest[e, row] = 0.0, 0.0
    for k in range(len(x)):
        s.x[row, k] = x[k]
        gap = x[k] - s.x_mean[k]
        s.x_mean[k] += gap / (s.counters[0] + 1.0)
        s.x_square[k] += gap * (x[k] - s.x_mean[k])


@_jit
def _weigh(s: AutoState, errors: Floats, w: Floats) -> bool:
    """See :func:`bot_orch.policies.auto.steps.weigh`."""
    seen, mixed = float(s.counters[0]), 0.0
    for e in range(_MEMBERS):
        mixed += w[e] * errors[e]
    square, rate = mixed * mixed, 1.0 / (seen + 10.0)
    s.levels[1] = max(s.levels[1] + max(rate, _NOISE_RATE) * (square - s.levels[1]), _LEAST_NOISE)
    s.levels[2] += max(rate, _SHORT) * (square - s.levels[2])
    s.levels[3] += max(rate, _LONG) * (square - s.levels[3])
    s.levels[4] += max(rate, _LONG) * (square * square - s.levels[4])
    most = -math.inf
    for e in range(_MEMBERS):
        if w[e] > 0.0:
            s.evidence[e] = _DISCOUNT * s.evidence[e] - errors[e] * errors[e] / (2.0 * s.levels[1])
            most = max(most, s.evidence[e])
    for e in range(_MEMBERS):
        s.evidence[e] = s.evidence[e] - most if w[e] > 0.0 else _DISCOUNT * s.evidence[e]
    spread = math.sqrt(max(s.levels[4] - s.levels[3] * s.levels[3], 1e-6) * _SHORT / 2.0)
    return bool(seen > _WARM_UP and s.levels[2] > s.levels[3] + _ALARM * spread)


@_jit
def _errors(s: AutoState, agent: int, reward: float, x: Floats, claims: Floats, errors: Floats) -> None:
    """See :func:`bot_orch.policies.auto.steps.errors_of`."""
    z, usual = np.empty(len(x) + 1), _usual(claims)
    errors[2], errors[4] = 0.0, 0.0
    if len(x) > 0:
        _standardised(s, x, z)
        errors[2] = reward - _clip(_regressions(s.inverse, s.theta, z, s.common, agent)[0])
    errors[3] = reward - (s.totals[agent] + _PRIOR_COUNT * s.levels[0]) / (s.counts[agent] + _PRIOR_COUNT)
    if not math.isnan(usual):
        errors[4] = reward - _claim(s, claims, usual, agent, np.empty(KNOTS))[0]


@_jit
def _relax(matrix: Floats, most: float) -> None:
    """Divide the information in a covariance matrix, at least down to the prior ``most``."""
    largest = 0.0
    for a in range(len(matrix)):
        largest = max(largest, matrix[a, a])
    factor = min(1.0 / _KEPT, max(most / largest, 1.0))
    for a in range(len(matrix)):
        for b in range(len(matrix)):
            matrix[a, b] *= factor


@_jit
def _forget(s: AutoState, n: int) -> None:
    for row in range(n):
        before = s.weight[row]
        if before > _LEAST_WEIGHT:
            after = before * _KEPT
            for e in range(2):
                s.rest[e, row] -= s.alpha[e, row] * (1.0 / after - 1.0 / before)
            s.weight[row] = after
    for agent in range(len(s.uid)):
        s.counts[agent] *= _KEPT
        s.totals[agent] *= _KEPT
        _relax(s.inverse[agent], 1.0)
        _relax(s.claim_inverse[agent], 1.0)
    _relax(s.common_inverse, _COMMON)


@_jit
def _unit(matrix: Floats, fill: float) -> None:
    for a in range(len(matrix)):
        for b in range(len(matrix)):
            matrix[a, b] = fill if a == b else 0.0


@_jit
def _refit(s: AutoState, place: Ints, n: int) -> None:
    """See :func:`bot_orch.policies.auto.ridge.refit`."""
    d, seen = s.x.shape[1], max(float(s.counters[0]), 1.0)
    for k in range(d):
        square, variance = s.x_mean[k] * s.x_mean[k], s.x_square[k] / seen
        variance += _FRAME_EARLY / (_FRAME_EARLY + seen) * min(square, _FAR * variance)
        s.frame[0, k] = s.x_mean[k] * (1.0 if square > _FAR * variance else seen / (_FRAME_EARLY + seen))
        s.frame[1, k] = 1.0 / math.sqrt(variance) if variance > 1e-18 * square and variance > 0.0 else 0.0
    for agent in range(len(s.uid)):
        _unit(s.inverse[agent], 1.0)
        for a in range(d + 1):
            s.theta[agent, a] = 0.0
    _unit(s.common_inverse, _COMMON)
    for a in range(d + 1):
        s.common[a] = 0.0
    x, z, gain = np.empty(d), np.empty(d + 1), np.empty(d + 1)
    for row in range(n):
        for k in range(d):
            x[k] = s.x[row, k]
        _standardised(s, x, z)
        if place[row] < len(s.uid):
            _rank_one(s.inverse[place[row]], s.theta[place[row]], z, s.reward[row], gain)
        _rank_one(s.common_inverse, s.common, z, s.reward[row], gain)


@_jit
def _learn_regressions(s: AutoState, agent: int, reward: float, x: Floats, claims: Floats) -> None:
    s.counts[agent] += 1.0
    s.totals[agent] += reward
    if len(x) > 0:
        z, gain = np.empty(len(x) + 1), np.empty(len(x) + 1)
        _standardised(s, x, z)
        _rank_one(s.inverse[agent], s.theta[agent], z, reward, gain)
        _rank_one(s.common_inverse, s.common, z, reward, gain)
    usual = _usual(claims)
    if not math.isnan(usual):
        own, basis = claims[agent], np.empty(KNOTS)
        stated = not math.isnan(own)
        _basis(own if stated else usual, basis)
        prior = own if stated else s.levels[0]
        _rank_one(s.claim_inverse[agent], s.claim_theta[agent], basis, reward - prior, np.empty(KNOTS))


@_jit
def learn(
    s: AutoState, agent: int, reward: float, x: Floats, claims: Floats, t: float, block: int, forgetting: bool
) -> None:
    """See :func:`bot_orch.policies.auto.steps.learn`."""
    seen, capacity = s.counters[0], len(s.owner)
    if seen == 0:
        for k in range(5):
            s.levels[k] = _START[k]
    row, n, x = seen % capacity, min(seen + 1, capacity), _clipped(s, x)
    w, errors, fitted = np.empty(_MEMBERS), np.zeros(_MEMBERS), np.empty(2)
    scale, near, recent = np.empty(len(x)), np.zeros(capacity), np.empty(capacity)
    _weights(s, len(x) > 0, not math.isnan(_usual(claims)), forgetting, w)
    _scale_of(s, scale)
    if seen >= capacity:
        _make_room(s, row, w[1] < _UNDER_DRIFT, scale)
    _errors(s, agent, reward, x, claims, errors)
    _store(s, row, agent, reward, x, t)
    _scale_of(s, scale)
    _step(s, row, n, scale, near, recent, fitted)
    for e in range(2):
        errors[e] = reward - s.levels[0] - fitted[e]
    changed = _weigh(s, errors, w)
    shift = (reward - s.levels[0]) / (seen + 3.0)
    s.levels[0] += shift
    for e in range(2):
        for other in range(n):
            s.rest[e, other] -= shift
    if changed and forgetting:
        _forget(s, n)
    if n > 1 and block > 1:
        _step(s, (row + 1 + s.counters[1] % (n - 1)) % n, n, scale, near, recent, fitted)
        s.counters[1] = (s.counters[1] + 1) % (n - 1)
    for _ in range(min(block - 1, n) - 1):
        _step(s, _largest(s, n, w), n, scale, near, recent, fitted)
    s.counters[0] += 1
    if len(x) > 0 and seen < capacity and (seen & (seen + 1)) == 0:
        _refit(s, _places(s, n), n - 1)
    _learn_regressions(s, agent, reward, x, claims)


@_jit
def learn_rows(
    batch: AutoState, agent: Ints, reward: Floats, x: Floats, claims: Floats, t: float, block: int, forgetting: bool
) -> None:
    """See :func:`bot_orch.policies.auto.steps.learn_rows`."""
    for b in range(len(batch.uid)):
        learn(row_of(batch, b), agent[b], reward[b], x[b], claims[b], t, block, forgetting)
