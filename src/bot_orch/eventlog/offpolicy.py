"""Off-policy evaluation: what another policy would have earned, told from decisions with known propensities.

Four estimators of the value of a target policy pi from decisions drawn with propensities p [1]_:

- IPS, the mean of ``w * r`` with ``w = pi(a) / p(a)``: unbiased, noisy;
- SNIPS, the same divided by the mean of ``w``: a little biased, much less noisy;
- DM, the mean of ``sum_a pi(a) q(a)`` under a reward model q: quiet, as good as the model;
- DR, ``sum_a pi(a) q(a) + w * (r - q(a))``: unbiased, and quiet where the model is good.

q is a ridge regression on the features per agent (without features: the agent's mean). DR fits it out of fold, so that
no row is judged by a model that has seen it.

References
----------
.. [1] Dudik, Erhan, Langford, Li. Doubly robust policy evaluation and optimization. Statistical Science 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import BotOrchError, InvalidInputError

__all__ = ["Estimate", "Logged", "ThinSupportError", "evaluate", "support"]

_RIDGE = 1.0
_FOLDS = 5


class ThinSupportError(BotOrchError):
    """The log says too little about this policy; any number would mislead."""


@dataclass(frozen=True, slots=True)
class Logged:
    """Decisions with a known reward.

    Parameters
    ----------
    agent
        Who was chosen, (n,).
    reward
        What it earned, (n,).
    propensities
        With which probabilities, (n, M).
    features
        What was known beforehand, (n, d); d may be 0.
    """

    agent: Ints
    reward: Floats
    propensities: Floats
    features: Floats

    def __len__(self) -> int:
        return len(self.reward)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with a confidence interval."""

    method: str
    value: float
    low: float
    high: float
    effective_n: float


@dataclass(frozen=True, slots=True)
class Support:
    """How much of the target policy the log has seen."""

    effective_n: float
    largest_share: float
    uncovered: float


def evaluate(
    logged: Logged, target: Floats, *, confidence: float = 0.95, min_effective: float = 50.0
) -> tuple[Estimate, ...]:
    """IPS, SNIPS, DM and DR of a target policy.

    Parameters
    ----------
    logged
        The decisions.
    target
        pi(a | x), (n, M): the target's probabilities, row by row. They may depend on earlier rows only.
    confidence
        Probability with which each interval covers the value.
    min_effective
        Least effective sample size; below it nothing is estimated.

    Raises
    ------
    ThinSupportError
        If the intervals could not be trusted; it says why.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError("confidence", f"is {confidence}", "pass a number between 0 and 1")
    _check(support(logged, target), len(logged), min_effective)
    rows = np.arange(len(logged))
    w = target[rows, logged.agent] / logged.propensities[rows, logged.agent]
    effective = float(w.sum() ** 2 / (w**2).sum())
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    parts = {
        "IPS": _mean(w * logged.reward),
        "SNIPS": _self_normalised(w, logged.reward),
        "DM": _direct(logged, target),
        "DR": _doubly_robust(logged, target, w),
    }
    return tuple(Estimate(name, v, v - z * se, v + z * se, effective) for name, (v, se) in parts.items())


def support(logged: Logged, target: Floats) -> Support:
    """Effective sample size, the largest row's share of all weight, and target mass where nothing was ever drawn."""
    n = len(logged)
    if n == 0:
        return Support(0.0, 1.0, 1.0)
    w = target[np.arange(n), logged.agent] / logged.propensities[np.arange(n), logged.agent]
    total = float(w.sum())
    uncovered = float(np.where(logged.propensities > 0.0, 0.0, target).sum(axis=1).mean())
    if total == 0.0:
        return Support(0.0, 1.0, uncovered)
    return Support(total**2 / float((w**2).sum()), float(w.max()) / total, uncovered)


def _check(s: Support, n: int, min_effective: float) -> None:
    more = "collect more decisions, or serve with a higher floor"
    if s.uncovered > 0.01:
        raise ThinSupportError(
            f"support: {100 * s.uncovered:.1f} % of the target's choices had probability zero in the log; {more}"
        )
    if s.effective_n < min_effective:
        raise ThinSupportError(
            f"support: {n} decisions are worth {s.effective_n:.1f} for this target, not {min_effective:g}; {more}"
        )
    if s.largest_share > 0.1:
        raise ThinSupportError(f"support: one decision carries {100 * s.largest_share:.0f} % of the weight; {more}")


def _mean(x: Floats) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1)) / math.sqrt(len(x))


def _self_normalised(w: Floats, r: Floats) -> tuple[float, float]:
    value = float((w * r).sum() / w.sum())
    return value, float(np.sqrt((w**2 * (r - value) ** 2).sum()) / w.sum())


def _design(features: Floats) -> Floats:
    return np.column_stack([np.ones(len(features)), features])


def _fit(x: Floats, r: Floats, pooled: float) -> tuple[Floats, Floats, float]:
    """Ridge around the pooled mean: coefficients, their covariance per unit of noise, the noise variance."""
    penalty = _RIDGE * np.eye(x.shape[1])
    inverse = np.linalg.inv(x.T @ x + penalty)
    prior = np.zeros(x.shape[1])
    prior[0] = pooled
    beta = prior + inverse @ (x.T @ (r - x @ prior))
    degrees = max(1, len(r) - x.shape[1])
    noise = float(((r - x @ beta) ** 2).sum() / degrees) if len(r) else 0.25
    return beta, inverse @ (x.T @ x) @ inverse, noise


def _models(logged: Logged, train: Floats) -> list[tuple[Floats, Floats, float]]:
    x, m = _design(logged.features), logged.propensities.shape[1]
    pooled = float(logged.reward[train.astype(bool)].mean())
    chosen = [(logged.agent == agent) & train.astype(bool) for agent in range(m)]
    return [_fit(x[rows], logged.reward[rows], pooled) for rows in chosen]


def _direct(logged: Logged, target: Floats) -> tuple[float, float]:
    models = _models(logged, np.ones(len(logged)))
    x = _design(logged.features)
    per_row = sum(target[:, a] * (x @ beta) for a, (beta, _, _) in enumerate(models))
    variance = float(np.var(per_row, ddof=1)) / len(logged)
    for a, (_, covariance, noise) in enumerate(models):
        mean = (target[:, a, None] * x).mean(axis=0)
        variance += float(mean @ covariance @ mean) * noise
    return float(np.mean(per_row)), math.sqrt(variance)


def _doubly_robust(logged: Logged, target: Floats, w: Floats) -> tuple[float, float]:
    n, m = logged.propensities.shape
    x, q = _design(logged.features), np.zeros((n, m))
    fold = np.arange(n) % _FOLDS
    for k in range(_FOLDS):
        models = _models(logged, (fold != k).astype(float))
        for a, (beta, _, _) in enumerate(models):
            q[fold == k, a] = x[fold == k] @ beta
    residual = logged.reward - q[np.arange(n), logged.agent]
    return _mean((target * q).sum(axis=1) + w * residual)
