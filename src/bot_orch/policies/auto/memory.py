"""Two Gaussian processes on one memory of outcomes with bounded size.

Rewards are modelled as mean + g(x) + h_i(x): a task effect common to all agents, and the effect of agent i. The
covariance decreases with the distance between tasks; in the member ``recent`` it also decreases with the time between
them. g cancels in the choice but removes the difficulty of tasks from the noise.

The coefficients of a prediction solve a linear system with one equation per row. Each outcome triggers a few exact
coordinate steps: for its own row, for one old row in rotation, and for the rows with the largest residuals
(Gauss-Southwell rule). When the memory is full, two similar rows of an agent are merged into one of larger weight.
"""

from __future__ import annotations

import math

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.policies.auto.primitives import nearness
from bot_orch.policies.auto.state import AutoState

__all__ = [
    "clipped",
    "covariances",
    "forget_rows",
    "make_room",
    "predict_memory",
    "solve",
    "spread_of",
    "step",
    "store",
]

LIFETIME = 100.0  # rounds after which the covariance of temporary effects has fallen to 1/e
EARLY = 200.0  # outcomes after which features are centred: first tasks, if grouped, vary less than later ones
LEAST_WEIGHT = 0.05
FAR = 25.0  # squared mean over variance from which on a feature has an offset
FEW, REACH = 5, 20.0  # outliers are clipped after so many outcomes, at so many standard deviations
APART = 1e-3  # added to squared distances, so that among equal tasks the rows of least weight merge first

# Prior variances relative to the noise, for ``lasting`` and ``recent``: agent, agent by features; temporary: agent,
# agent by features; common: by time, by features.
PRIORS = np.array([[0.05, 0.7, 0.0, 0.0, 0.0, 1.0], [0.05, 0.5, 0.1, 0.2, 0.2, 1.0]])


def spread_of(mean: Floats, variance: Floats, early: float) -> Floats:
    """Variance of the features, early on partly around zero, but not if the mean is far from zero: a year, say."""
    return np.asarray(variance + early * np.minimum(mean * mean, FAR * variance))


def clipped(s: AutoState, x: Floats) -> Floats:
    """Features within 20 standard deviations of their mean, so that one outlier does not set the scale for ever."""
    seen = s.counters[0]
    if seen < FEW:
        return x
    reach = REACH * np.sqrt(s.x_square / seen)
    return np.where(reach > 0.0, np.clip(x, s.x_mean - reach, s.x_mean + reach), x)


def scale_of(s: AutoState) -> Floats:
    """Feature scale (d,) common to all features, so that a typical task has distance 1 from the mean; 0 if constant."""
    seen = max(float(s.counters[0]), 1.0)
    variance = spread_of(s.x_mean, s.x_square / seen, EARLY / (EARLY + seen))
    known = (variance > 1e-18 * s.x_mean * s.x_mean) & (variance > 0.0)
    total = np.sum(np.where(known, variance, 0.0))
    return np.where(known, 1.0 / math.sqrt(max(total, 1e-300)), 0.0)


def covariances(s: AutoState, x: Floats, t: float, n: int) -> tuple[Floats, Floats]:
    """Covariances (2, n) of the agent effect and of the common effect between a task and the first ``n`` rows."""
    recent = np.exp(-np.abs(t - s.round[:n].astype(np.float64)) / LIFETIME)
    near = np.zeros(n)
    if len(x) > 0:
        nearness(s.x, x, scale_of(s), near)
    own, common = np.empty((2, n)), np.empty((2, n))
    for e in range(2):
        p = PRIORS[e]
        own[e] = p[0] + p[2] * recent + near * (p[1] + p[3] * recent)
        common[e] = p[4] * recent + p[5] * near
    return own, common


def own_variance(contextual: bool) -> Floats:
    """Prior variance (2,) of an agent's effect on one task."""
    p = PRIORS
    x = 1.0 if contextual else 0.0
    return np.asarray(p[:, 0] + p[:, 2] + x * (p[:, 1] + p[:, 3]))


def prior_variance(contextual: bool) -> Floats:
    """Prior variance (2,) of a reward without noise."""
    x = 1.0 if contextual else 0.0
    return np.asarray(own_variance(contextual) + PRIORS[:, 4] + x * PRIORS[:, 5])


def predict_memory(
    s: AutoState, x: Floats, t: float, place: Ints, weights: Floats, value: Floats, variance: Floats
) -> None:
    """Predictions (2, M) of both members, and the variance (M,) of their mixture, relative to the noise.

    ``place`` is the agent index of every row (M for removed agents). Information about an agent on this task is the
    number of its outcomes, each counted by its squared correlation.
    """
    m, n = value.shape[1], len(place)
    value[:] = s.levels[0]
    second = weights[1] / max(weights[0] + weights[1], 1e-300)
    share = np.array([1.0 - second, second])
    prior = np.sum(share * own_variance(len(x) > 0))
    information = np.zeros(m)
    if n > 0:
        own, common = covariances(s, x, t, n)
        for e in range(2):
            alpha = s.alpha[e, :n].astype(np.float64)
            value[e] += np.bincount(place, alpha * own[e], m + 1)[:m] + np.sum(alpha * common[e])
        mixed = (share[0] * own[0] + share[1] * own[1]) / prior
        information += np.bincount(place, s.weight[:n] * mixed * mixed, m + 1)[:m]
    variance[:] = 1.0 / (1.0 / prior + information)


def store(s: AutoState, row: int, agent: int, reward: float, x: Floats, t: float) -> None:
    """Write an outcome into ``row`` and update the statistics of the features."""
    if s.uid[agent] < 0:
        s.uid[agent] = s.counters[2]
        s.counters[2] += 1
    s.owner[row] = s.uid[agent]
    s.reward[row], s.round[row], s.weight[row] = reward, t, 1.0
    s.alpha[:, row], s.rest[:, row] = 0.0, 0.0
    if len(x) > 0:
        s.x[row] = x
        gap = x - s.x_mean
        s.x_mean[:] += gap / (s.counters[0] + 1.0)
        s.x_square[:] += gap * (x - s.x_mean)


def step(s: AutoState, row: int, n: int) -> Floats:
    """Solve the equation of ``row`` for its coefficient; returns the fitted values (2,) before the step."""
    x = s.x[row].astype(np.float64)
    own, common = covariances(s, x, float(s.round[row]), n)
    same = s.owner[:n] == s.owner[row]
    variance, fitted = prior_variance(len(x) > 0), np.zeros(2)
    for e in range(0 if len(x) > 0 else 1, 2):  # without features the first has no part
        kernel_row = np.where(same, own[e], 0.0) + common[e]
        fitted[e] = np.sum(s.alpha[e, :n] * kernel_row)
        noise = 1.0 / s.weight[row]
        error = s.reward[row] - s.levels[0] - fitted[e] - s.alpha[e, row] * noise
        change = error / (variance[e] + noise)
        s.alpha[e, row] += change
        s.rest[e, :n] -= change * kernel_row
        s.rest[e, row] = 0.0
    return fitted


def solve(s: AutoState, row: int, n: int, steps: int, weights: Floats) -> None:
    """Coordinate steps after a new outcome in ``row``: one row in rotation, then those with the largest residuals."""
    if n > 1 and steps > 0:
        step(s, (row + 1 + s.counters[1] % (n - 1)) % n, n)
        s.counters[1] = (s.counters[1] + 1) % (n - 1)
    for _ in range(min(steps, n) - 1):
        noise = 1.0 / s.weight[:n]
        variance = prior_variance(s.x.shape[1] > 0)
        gain = np.zeros(n)
        for e in range(2):
            gain += weights[e] * s.rest[e, :n] * s.rest[e, :n] / (variance[e] + noise)
        step(s, int(np.argmax(gain)), n)


def make_room(s: AutoState, row: int, candidates: int, merging: bool) -> None:
    """Free ``row``, the oldest, by merging two old rows of one agent by Ward's criterion; drop it if none match.

    The first is among the oldest ``candidates`` rows, the second in the older half. Merging averages rewards and
    features, which is lossless for a linear model, and adds coefficients, which is exact for equal tasks.
    """
    capacity = len(s.owner)
    old = (row + np.arange(max(capacity // 2, 2))) % capacity
    least, first, second = np.inf, -1, -1
    scale = scale_of(s)
    for a in range(min(candidates, len(old)) if merging else 0):
        at = old[a]
        near = np.zeros(capacity)
        if s.x.shape[1] > 0:
            nearness(s.x, s.x[at].astype(np.float64), scale, near)
            near = np.log(np.maximum(near, 1e-300))
        far = near[old] * near[old]
        cost = (far + APART) / (1.0 / s.weight[at] + 1.0 / s.weight[old])
        cost = np.where(s.owner[old] == s.owner[at], cost, np.inf)
        cost[a] = np.inf
        b = np.argmin(cost)
        if cost[b] < least:
            least, first, second = cost[b], at, old[b]
    if first >= 0:
        _merge(s, first, second)
        _move(s, row, first)


def _merge(s: AutoState, gone: int, kept: int) -> None:
    total = s.weight[gone] + s.weight[kept]
    share = s.weight[gone] / total
    s.x[kept] += share * (s.x[gone] - s.x[kept])
    s.reward[kept] += share * (s.reward[gone] - s.reward[kept])
    s.rest[:, kept] += share * (s.rest[:, gone] - s.rest[:, kept])
    s.alpha[:, kept] += s.alpha[:, gone]
    s.weight[kept] = total


def _move(s: AutoState, source: int, target: int) -> None:
    if source != target:
        s.x[target] = s.x[source]
        s.owner[target], s.round[target] = s.owner[source], s.round[source]
        s.reward[target], s.weight[target] = s.reward[source], s.weight[source]
        s.alpha[:, target], s.rest[:, target] = s.alpha[:, source], s.rest[:, source]


def forget_rows(s: AutoState, n: int, keep: float) -> None:
    """Multiply the weight of every row by ``keep``, down to a small one."""
    before = s.weight[:n].astype(np.float64)
    after = np.where(before > LEAST_WEIGHT, before * keep, before)
    for e in range(2):
        s.rest[e, :n] -= s.alpha[e, :n] * (1.0 / after - 1.0 / before)
    s.weight[:n] = after
