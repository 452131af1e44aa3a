"""Off-policy evaluation: estimate the reward of another policy from decisions with known propensities.

Three estimators of the value of a target policy pi from decisions drawn with propensities p [1]_:

- IPS, the mean of ``w * r`` with ``w = pi(a) / p(a)``: unbiased, noisy;
- SNIPS, the same divided by the mean of ``w``: a little biased, much less noisy;
- DR, the mean of ``sum_a pi(a) q(a) + w * (r - q(a))`` with a reward model q: unbiased, quiet where q is good.

q is a ridge regression on the features per agent (without features: the agent's mean). DR fits it out of fold, so that
no row is judged by a model that has seen it.

A policy that learns while it goes through the log may go several paths, by different draws of what it learns from. Its
probabilities are then averaged (the policy that picks a path at random), and intervals grow by what the paths differ.

A normal interval is too short where successes are rare: without any it has no width. Intervals are therefore those of
Wilson [2]_, with the estimator's own variance: normal ones after z^2 decisions were added, half of them with the least
and half with the largest reward. Each counts like a decision of a sample of ``(sum w) (sum w^2) / sum w^3`` equal ones:
a success that was not seen may have been one of the rows with the large weights.

References
----------
.. [1] Dudik, Erhan, Langford, Li. Doubly robust policy evaluation and optimization. Statistical Science 2014.
.. [2] Wilson. Probable inference, the law of succession, and statistical inference. JASA 1927.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.checks import check_number

Reason = Literal[
    "no_propensities",
    "no_rewards",
    "no_revised_rewards",
    "several_attempts",
    "never_eligible",
    "uncovered",
    "few_decisions",
    "one_decision",
]
_RIDGE = 1.0
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no estimate: a reason for programs; a problem and its remedy for people.

    The reasons are ``no_propensities``, ``no_rewards``, ``no_revised_rewards``, ``several_attempts``,
    ``never_eligible``, and of too little support ``uncovered``, ``few_decisions`` and ``one_decision``.
    """

    reason: Reason
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class LogSample:
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
        What was known beforehand, (n, d), NaN where missing; d may be 0.
    expected
        Each agent's expected reward, (n, M), by a model that has not seen the row's reward; fitted here unless given.
    """

    agent: Ints
    reward: Floats
    propensities: Floats
    _: KW_ONLY
    features: Floats
    expected: Floats | None = None

    def __len__(self) -> int:
        return len(self.reward)

    def rows(self, which: Bools | Ints) -> LogSample:
        """Some of the decisions."""
        expected = None if self.expected is None else self.expected[which]
        parts = (self.agent[which], self.reward[which], self.propensities[which])
        return LogSample(*parts, features=self.features[which], expected=expected)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with a confidence interval."""

    method: str
    value: float
    low: float
    _: KW_ONLY
    high: float
    effective_n: float


@dataclass(frozen=True, slots=True)
class Support:
    """How well the log covers the target policy; ``rare_n`` is the effective size for rewards that were not seen."""

    effective_n: float
    rare_n: float
    largest_share: float
    uncovered: float


def estimates(
    logged: LogSample,
    target: Floats,
    *,
    confidence: float = 0.95,
    min_effective: float = 50.0,
) -> tuple[Estimate, ...] | Refusal:
    """IPS, SNIPS and DR of a target policy, or why there are none.

    Parameters
    ----------
    logged
        The decisions, with rewards in [0, 1].
    target
        pi(a | x), (n, M): the target's probabilities, row by row; (P, n, M) for P paths of a policy that learns. They
        may depend on earlier rows only.
    confidence
        Probability with which each interval covers the value.
    min_effective
        Least effective sample size; below it nothing is estimated.
    """
    z, found = quantile(confidence), support(logged, target)
    if (refused := refusal(found, len(logged), min_effective)) is not None:
        return refused
    q = out_of_fold(logged) if logged.expected is None else logged.expected
    methods: dict[str, Callable[[Floats], tuple[float, float]]] = {
        "IPS": lambda pi: _mean(_weights(logged, pi) * logged.reward),
        "SNIPS": lambda pi: _self_normalised(_weights(logged, pi), logged.reward),
        "DR": lambda pi: _mean(doubly_robust(logged, pi, q)),
    }

    def estimate(name: str) -> Estimate:
        value, error = _over_paths(methods[name], target)
        low, high = wilson(value, error, found.rare_n, z=z)
        return Estimate(name, value, low, high=high, effective_n=found.effective_n)

    return tuple(map(estimate, methods))


def wilson(value: float, error: float, n: float, *, z: float) -> tuple[float, float]:
    """The interval of a mean with this standard error: that of Wilson for n rewards of 0 and 1.

    Examples
    --------
    >>> low, high = wilson(0.0, 0.0, 125, z=1.96)
    >>> f"{low:.4f} {high:.4f}"
    '0.0000 0.0298'
    """
    # Many successes of little weight vary less than n rewards of 0 and 1: pulled to the middle by n alone, the interval
    # would begin too close to the value. So it also holds that of as many rewards as have this variance.
    implied = value * (1.0 - value) / error**2 if error > 0.0 else n
    low, high = value, value
    for size in (n, max(n, implied)):
        share = size / (size + z * z)
        middle = share * value + (1.0 - share) / 2.0
        half = z * share * math.hypot(error, z / (2.0 * size))
        low, high = min(low, max(middle - half, 0.0)), max(high, min(middle + half, 1.0))
    return low, high


def support(logged: LogSample, target: Floats) -> Support:
    """Effective sample sizes, the largest weight's share, and the target's mass on agents that were never drawn.

    The size is (sum w)^2 / sum w^2, and for rare rewards (sum w)(sum w^2) / sum w^3. Both are taken over the decisions,
    or over what they are expected to be if that is less: then large weights are missing by chance.
    """
    target = _paths(target).mean(axis=0)
    w = _weights(logged, target)
    total = float(w.sum())
    uncovered = float(np.where(logged.propensities > 0.0, 0.0, target).sum(axis=1).mean()) if len(logged) else 1.0
    if total == 0.0:
        return Support(0.0, 0.0, 1.0, uncovered)
    ratio = target / np.where(logged.propensities > 0.0, logged.propensities, np.inf)
    drawn = _sizes(total, float((w**2).sum()), float((w**3).sum()))
    expected = _sizes(len(logged), float((target * ratio).sum()), float((target * ratio**2).sum()))
    effective, rare = map(min, drawn, expected)
    return Support(effective, rare, float(w.max()) / total, uncovered)


def _sizes(first: float, second: float, third: float) -> tuple[float, float]:
    return first**2 / second, first * second / third


def refusal(s: Support, n: int, min_effective: float) -> Refusal | None:
    """Why intervals could not be trusted; None if they can."""
    more = "collect more decisions, or serve with a higher floor"
    if s.uncovered > 0.01:
        share = f"{100 * s.uncovered:.1f} %"
        return Refusal("uncovered", f"{share} of the target's choices had probability zero in the log", more)
    if s.effective_n < min_effective:
        about = "" if s.effective_n == 0.0 else f" (about {float(f'{n * min_effective / s.effective_n:.1g}'):,.0f})"
        problem = f"{n} decisions are worth {s.effective_n:.1f} for this target, not {min_effective:g}"
        return Refusal("few_decisions", problem, f"collect more decisions{about}, or serve with a higher floor")
    if s.largest_share > 0.1:
        return Refusal("one_decision", f"one decision carries {100 * s.largest_share:.0f} % of the weight", more)
    return None


def quantile(confidence: float) -> float:
    """Standard deviations on each side of a normal interval."""
    remedy = "pass a number between 0 and 1"
    level = check_number("confidence", confidence, remedy, low=1e-9, high=1.0 - 1e-9)
    return NormalDist().inv_cdf(0.5 + level / 2)


def _paths(target: Floats) -> Floats:
    return target if target.ndim == 3 else target[None]


def _over_paths(method: Callable[[Floats], tuple[float, float]], target: Floats) -> tuple[float, float]:
    """The estimate for the average of all paths, with the error of the rows and of the finite number of paths."""
    paths = _paths(target)
    value, se = method(paths.mean(axis=0))
    if len(paths) == 1:
        return value, se
    each = np.array([method(path)[0] for path in paths])
    return value, math.hypot(se, float(each.std(ddof=1)) / math.sqrt(len(paths)))


def _weights(logged: LogSample, target: Floats) -> Floats:
    rows = np.arange(len(logged))
    w: Floats = target[rows, logged.agent] / logged.propensities[rows, logged.agent]
    return w


def _mean(x: Floats) -> tuple[float, float]:
    return float(x.mean()), float(x.std()) / math.sqrt(len(x))


def _self_normalised(w: Floats, r: Floats) -> tuple[float, float]:
    value = float((w * r).sum() / w.sum())
    return value, float(np.sqrt((w**2 * (r - value) ** 2).sum()) / w.sum())


def _design(features: Floats) -> Floats:
    """An intercept and standardised features, zero where missing; so the ridge penalty does not depend on units."""
    features = np.nan_to_num(features)
    centred = features - features.mean(axis=0)
    spread = centred.std(axis=0)
    varies = spread > 1e-12 * np.abs(features).max(axis=0, initial=0.0)
    return np.column_stack([np.ones(len(features)), np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)])


def out_of_fold(logged: LogSample) -> Floats:
    """q(a) of every row, (n, M), by models that have not seen the row."""
    x, m = _design(logged.features), logged.propensities.shape[1]
    q = np.zeros((len(logged), m))
    fold = np.arange(len(logged)) % _FOLDS
    for k in range(_FOLDS):
        pooled = float(logged.reward[fold != k].mean())
        for agent in range(m):
            mine = (fold != k) & (logged.agent == agent)
            q[fold == k, agent] = x[fold == k] @ _ridge(x[mine], logged.reward[mine], pooled)
    return q


def _ridge(x: Floats, r: Floats, pooled: float) -> Floats:
    """Coefficients of a ridge regression around the pooled mean."""
    prior = np.zeros(x.shape[1])
    prior[0] = pooled
    found: Floats = prior + np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ (r - x @ prior))
    return found


def doubly_robust(logged: LogSample, target: Floats, q: Floats) -> Floats:
    """Doubly robust value of every row, (n,)."""
    residual = logged.reward - q[np.arange(len(logged)), logged.agent]
    rows: Floats = (target * q).sum(axis=1) + _weights(logged, target) * residual
    return rows
