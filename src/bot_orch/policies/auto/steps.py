"""One choice and one lesson of ``auto``, for a batch of routers: the plain version in NumPy.

Members are averaged with weights by predictive performance: prior weight times exp(discounted log evidence). The
variance of a prediction, which drives exploration, is averaged likewise.

If the squared errors of late lie far above their long-run mean, the world has changed: all members then forget
quickly, until errors are normal again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.policies.auto.memory import clipped, forget_rows, make_room, predict_memory, solve, step, store
from bot_orch.policies.auto.primitives import envelope
from bot_orch.policies.auto.ridge import (
    PRIOR_COUNT,
    forget_regressions,
    learn_regressions,
    predict_claims,
    predict_flat,
    predict_linear,
    refit,
)
from bot_orch.policies.auto.state import MEMBERS, START, AutoState, row_of

__all__ = ["choose", "choose_rows", "envelope", "learn", "learn_rows"]

_MEMBERS = len(MEMBERS)
EVIDENCE_MEMORY = 0.995  # discount factor of the log evidence per outcome
CLAIMS_TRUSTED = 20.0  # prior weight of the claims, relative to the other members
CLAIMS_CALM = 0.03  # exploration of the corrections of claims, relative to that of the others
NOISE_RATE, SHORT, LONG = 0.005, 0.02, 0.001  # rates of the moving averages
LEAST_NOISE, ALARM, KEPT, WARM_UP = 1e-4, 4.5, 0.97, 100
UNDER_DRIFT = 0.4  # above this weight of the member ``recent`` a full memory drops its oldest row instead of merging
CANDIDATES = 4


def places(s: AutoState, n: int) -> Ints:
    """Agent index of each of the first ``n`` rows; M for rows of removed agents."""
    m = len(s.uid)
    table = np.full(s.counters[2] + 1, m)
    for agent in range(m):
        if s.uid[agent] >= 0:
            table[s.uid[agent]] = agent
    return table[s.owner[:n]]


def weights_of(s: AutoState, contextual: bool, stated: bool, forgetting: bool) -> Floats:
    """Weights (5,) of the members; zero for those without data in this round."""
    w = np.exp(s.evidence - np.max(s.evidence))
    if not forgetting:
        w[1] = 0.0
    if not contextual:  # the lasting member would estimate the same means, less exactly
        w[0], w[2], w[3] = 0.0, 0.0, 2.0 * w[3]
    w[4] = CLAIMS_TRUSTED * w[4] if stated else 0.0
    return np.asarray(w / np.sum(w))


def predict(s: AutoState, x: Floats, claims: Floats, t: float, forgetting: bool) -> tuple[Floats, Floats]:
    """Expected reward and variance relative to the noise, (M,) each."""
    m, n = len(s.uid), min(s.counters[0], len(s.owner))
    stated = np.any(np.isfinite(claims))
    w = weights_of(s, len(x) > 0, bool(stated), forgetting)
    value, variance = np.zeros((_MEMBERS, m)), np.zeros((_MEMBERS, m))
    predict_memory(s, x, t, places(s, n), w, value[:2], variance[0])
    variance[1] = variance[0]
    if len(x) > 0:
        predict_linear(s, x, value[2], variance[2])
    predict_flat(s, s.levels[0], value[3], variance[3])
    if stated:
        predict_claims(s, claims, s.levels[0], value[4], variance[4])
        variance[4] *= CLAIMS_CALM
    mean, total = np.zeros(m), np.zeros(m)
    for e in range(_MEMBERS):
        mean += w[e] * value[e]
        total += w[e] * variance[e]
    return mean, total


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
    """Probabilities, estimates and exploration terms into ``found``, (3, M)."""
    mean, variance = predict(s, clipped(s, x), claims, t, forgetting)
    variance = 1.0 / (1.0 / variance + pending)
    trust = cost * PRIOR_COUNT / (PRIOR_COUNT + s.counts + pending)
    sd = scale * np.sqrt(s.levels[1] * variance)
    envelope(mean - (penalty - trust), sd, eligible, found[0])
    found[1], found[2] = mean, sd + trust


def choose_rows(batch: AutoState, *given: Any) -> None:
    """Like :func:`choose` for every element of a batch; arrays have one more dimension."""
    x, claims, t, pending, penalty, cost, eligible, scale, forgetting, found = given
    for b in range(len(batch.uid)):
        rest = pending[b], penalty[b], cost[b], eligible[b], scale, forgetting, found[b]
        choose(row_of(batch, b), x[b], claims[b], t, *rest)


def weigh(s: AutoState, errors: Floats, w: Floats) -> bool:
    """Update evidence, noise and the averages of squared errors; returns whether the world has changed."""
    seen = float(s.counters[0])
    mixed = np.sum(w * errors)
    square = mixed * mixed
    rate = 1.0 / (seen + 10.0)
    s.levels[1] = max(s.levels[1] + max(rate, NOISE_RATE) * (square - s.levels[1]), LEAST_NOISE)
    s.levels[2] += max(rate, SHORT) * (square - s.levels[2])
    s.levels[3] += max(rate, LONG) * (square - s.levels[3])
    s.levels[4] += max(rate, LONG) * (square * square - s.levels[4])
    active = w > 0.0  # a member that took no part keeps up with the best
    fresh = EVIDENCE_MEMORY * s.evidence - errors * errors / (2.0 * s.levels[1])
    s.evidence[:] = np.where(active, fresh - np.max(fresh[active]), EVIDENCE_MEMORY * s.evidence)
    spread = math.sqrt(max(s.levels[4] - s.levels[3] * s.levels[3], 1e-6) * SHORT / 2.0)
    return seen > WARM_UP and s.levels[2] > s.levels[3] + ALARM * spread


def errors_of(s: AutoState, agent: int, reward: float, x: Floats, claims: Floats) -> Floats:
    """Prediction errors of the members without a memory, (5,); zero for the others."""
    m = len(s.uid)
    errors, value, leverage = np.zeros(_MEMBERS), np.empty(m), np.empty(m)
    if len(x) > 0:
        predict_linear(s, x, value, leverage)
        errors[2] = reward - value[agent]
    predict_flat(s, s.levels[0], value, leverage)
    errors[3] = reward - value[agent]
    if np.any(np.isfinite(claims)):
        predict_claims(s, claims, s.levels[0], value, leverage)
        errors[4] = reward - value[agent]
    return errors


def learn(
    s: AutoState, agent: int, reward: float, x: Floats, claims: Floats, t: float, block: int, forgetting: bool
) -> None:
    """Learn one outcome."""
    seen, capacity = s.counters[0], len(s.owner)
    if seen == 0:
        s.levels[:] = START
    row, n, x = seen % capacity, min(seen + 1, capacity), clipped(s, x)
    w = weights_of(s, len(x) > 0, bool(np.any(np.isfinite(claims))), forgetting)
    if seen >= capacity:
        make_room(s, row, CANDIDATES, w[1] < UNDER_DRIFT)
    errors = errors_of(s, agent, reward, x, claims)
    store(s, row, agent, reward, x, t)
    fitted = step(s, row, n)
    errors[:2] = reward - s.levels[0] - fitted
    changed = weigh(s, errors, w)
    shift = (reward - s.levels[0]) / (seen + 3.0)
    s.levels[0] += shift
    s.rest[:, :n] -= shift
    if changed and forgetting:
        forget_rows(s, n, KEPT)
        forget_regressions(s, KEPT)
    solve(s, row, n, block - 1, w)
    s.counters[0] += 1
    if len(x) > 0 and seen < capacity and (seen & (seen + 1)) == 0:
        refit(s, places(s, n), n - 1)
    learn_regressions(s, agent, reward, x, claims)


def learn_rows(
    batch: AutoState, agent: Ints, reward: Floats, x: Floats, claims: Floats, t: float, block: int, forgetting: bool
) -> None:
    """Learn one outcome per element of a batch."""
    for b in range(len(batch.uid)):
        learn(row_of(batch, b), agent[b], reward[b], x[b], claims[b], t, block, forgetting)
