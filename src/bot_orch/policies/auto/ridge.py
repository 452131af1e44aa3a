"""Members with exact updates: ridge regressions on features and on claims, and the agents' mean rewards.

Each agent's regression is shrunk towards the common one of all agents. Features are standardised by a frame that is
set anew, with a refit from the memory, whenever the number of outcomes is a power of two, as long as the memory holds
all of them.
"""

from __future__ import annotations

import math

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.policies.auto.memory import FAR, spread_of
from bot_orch.policies.auto.primitives import rank_one, regressions
from bot_orch.policies.auto.state import KNOTS, AutoState

__all__ = [
    "PRIOR_COUNT",
    "claim_basis",
    "forget_regressions",
    "learn_regressions",
    "predict_claims",
    "predict_flat",
    "predict_linear",
    "refit",
    "revise",
]

PRIOR_COUNT = 8.0  # pseudo-outcomes behind the prior mean of an agent
SLOPES = 4.0  # prior precision of the slopes, per feature, relative to the noise
EARLY = 20.0  # outcomes after which features are centred rather than scaled around zero
COMMON = 6.0  # prior variance of the common regression, in its units
LOW, HIGH = -0.25, 1.25  # predictions are clipped: rewards lie in [0, 1]
CLAIM_VARIANCE, CLAIM_OFFSET = 0.1, 0.1  # prior variances of the corrections of a claim


def standardised(s: AutoState, x: Floats) -> Floats:
    """Features with intercept in the units of the ridge prior, (d + 1,)."""
    d = len(x)
    z = np.empty(d + 1)
    z[0] = 1.0 / math.sqrt(PRIOR_COUNT)
    if d > 0:
        z[1:] = (x - s.frame[0]) * s.frame[1] / math.sqrt(SLOPES * d)
    return z


def predict_linear(s: AutoState, x: Floats, value: Floats, leverage: Floats) -> None:
    """Linear prediction of every agent's reward, and its variance relative to the noise."""
    z = standardised(s, x)
    rows = np.empty((len(value), len(z)))
    rows[:] = z
    regressions(s.inverse, s.theta, rows, s.common, value, leverage)
    value[:] = np.minimum(np.maximum(value, LOW), HIGH)


def predict_flat(s: AutoState, mean: float, value: Floats, leverage: Floats) -> None:
    """Shrunken mean reward of every agent, and its variance relative to the noise."""
    leverage[:] = 1.0 / (s.counts + PRIOR_COUNT)
    value[:] = (s.totals + PRIOR_COUNT * mean) * leverage


def claim_basis(claims: Floats, out: Floats) -> None:
    """Basis functions of a claim, (M, 5), scaled by the prior; the mean of the others' where an agent states none."""
    stated = np.isfinite(claims)
    usual = np.sum(np.where(stated, claims, 0.0)) / max(np.sum(stated), 1)
    c = np.where(stated, claims, usual)
    sure = -np.log10(1.001 - c) / 3.0  # .9, .99 and .999 are equally far apart
    spread = math.sqrt(CLAIM_VARIANCE)
    out[:, 0] = math.sqrt(CLAIM_OFFSET)
    out[:, 1] = (c - 0.5) * spread
    out[:, 2] = (sure - 0.5) * spread
    out[:, 3] = np.maximum(sure - 0.33, 0.0) * (1.5 * spread)
    out[:, 4] = np.maximum(sure - 0.66, 0.0) * (3.0 * spread)


def predict_claims(s: AutoState, claims: Floats, mean: float, value: Floats, leverage: Floats) -> None:
    """Recalibrated claims: the claim itself (the mean reward where there is none) plus a learned correction."""
    basis = np.empty((len(value), KNOTS))
    claim_basis(claims, basis)
    regressions(s.claim_inverse, s.claim_theta, basis, np.zeros(KNOTS), value, leverage)
    value += np.where(np.isfinite(claims), claims, mean)
    value[:] = np.minimum(np.maximum(value, LOW), HIGH)


def learn_regressions(s: AutoState, agent: int, reward: float, x: Floats, claims: Floats) -> None:
    """Add one outcome to the regressions of its agent, and to the common one."""
    s.counts[agent] += 1.0
    s.totals[agent] += reward
    if len(x) > 0:
        z = standardised(s, x)
        rank_one(s.inverse[agent], s.theta[agent], z, reward)
        rank_one(s.common_inverse, s.common, z, reward)
    if np.any(np.isfinite(claims)):
        basis = np.empty((len(claims), KNOTS))
        claim_basis(claims, basis)
        prior = claims[agent] if np.isfinite(claims[agent]) else s.levels[0]
        rank_one(s.claim_inverse[agent], s.claim_theta[agent], basis[agent], reward - prior)


def refit(s: AutoState, place: Ints, n: int) -> None:
    """Set the frame from the features seen so far and fit the linear regressions to the first ``n`` rows again."""
    d, seen = s.x.shape[1], max(float(s.counters[0]), 1.0)
    variance = spread_of(s.x_mean, s.x_square / seen, EARLY / (EARLY + seen))
    known = (variance > 1e-18 * s.x_mean * s.x_mean) & (variance > 0.0)
    s.frame[0] = s.x_mean * np.where(s.x_mean * s.x_mean > FAR * variance, 1.0, seen / (EARLY + seen))
    s.frame[1] = np.where(known, 1.0 / np.sqrt(np.where(known, variance, 1.0)), 0.0)
    unit = np.eye(d + 1)
    for agent in range(len(s.uid)):
        s.inverse[agent] = unit
    s.theta[:] = 0.0
    s.common_inverse[:] = COMMON * unit
    s.common[:] = 0.0
    for row in range(n):
        z = standardised(s, s.x[row].astype(np.float64))
        agent = place[row]
        if agent < len(s.uid):
            rank_one(s.inverse[agent], s.theta[agent], z, s.reward[row])
        rank_one(s.common_inverse, s.common, z, s.reward[row])


def revise(s: AutoState, agent: int, change: float, *, x: Floats, claims: Floats, t: float) -> None:
    """Change a past reward of ``agent``, of round ``t``, by ``change``: in the regressions and in its row, if any."""
    s.totals[agent] += change
    shift = change / (s.counters[0] + 2.0)
    s.levels[0] += shift
    s.rest[:] -= shift
    if len(x) > 0:
        z = standardised(s, x)
        s.theta[agent] += s.inverse[agent] @ z * change
        s.common[:] += s.common_inverse @ z * change
    if np.any(np.isfinite(claims)):
        basis = np.empty((len(claims), KNOTS))
        claim_basis(claims, basis)
        s.claim_theta[agent] += s.claim_inverse[agent] @ basis[agent] * change
    for row in np.flatnonzero((s.round == t) & (s.owner == s.uid[agent]))[:1]:
        s.reward[row] += change / s.weight[row]
        s.rest[:, row] += change / s.weight[row]


def forget_regressions(s: AutoState, keep: float) -> None:
    """Keep the share ``keep`` of the information in every regression, at least that of the prior."""
    s.counts[:] *= keep
    s.totals[:] *= keep
    for agent in range(len(s.uid)):
        s.inverse[agent] *= min(1.0 / keep, max(1.0 / np.max(np.diag(s.inverse[agent])), 1.0))
        most = np.max(np.diag(s.claim_inverse[agent]))
        s.claim_inverse[agent] *= min(1.0 / keep, max(1.0 / most, 1.0))
    s.common_inverse[:] *= min(1.0 / keep, max(COMMON / np.max(np.diag(s.common_inverse)), 1.0))
