"""Bootstrapped Thompson sampling with a Kaplan-Meier delay law (Gigli and Stella, UAI 2024) [1]_, our implementation.

A success may be reported late, a failure never, so that silence is either a failure or a success under way. A
replicate weights all decisions at random (Bayesian bootstrap) and is fitted by expectation-maximisation:

* E: silence of e rounds is a success with probability p S1(e) / (p S1(e) + (1 - p) S0(e));
* M: p of an agent is a weighted ridge regression of the successes on (1, x); S1 and S0, the laws of the delay of
  successes and of failures, are weighted Kaplan-Meier curves, silence is censored. If failures go unreported, S0 = 1,
  which is the setting of the paper.

A replicate drawn at random chooses the agent with its largest p. Ours differs from the paper in that failures may be
reported, in the regression (linear instead of a classifier), and in that a replicate is fitted again only after 5 %
more decisions.

References
----------
.. [1] Gigli, Stella. Bootstrap your conversions: Thompson sampling for partially observable delayed rewards. UAI 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer, with_intercept
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player
from bot_orch.rng import generator
from bot_orch.survival.kaplan_meier import hazard_of, number_at_risk, product_limit

_REPLICATES = 10
_STEPS = 3  # of expectation-maximisation, from the values of the last fit
_STALE, _STALE_SHARE = 5, 0.05
_EDGE = 0.01


@dataclass(slots=True, eq=False)
class _Replicate:
    """Coefficients per agent and the two delay laws, as survival by rounds waited; when they were fitted."""

    theta: Floats
    success: Floats
    failure: Floats
    fitted: int = -1


class KaplanMeierThompson(Learner):
    """The decisions of one seed, and bootstrap replicates of the model fitted to them."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self._agents, self._width = setup.agents, setup.features + 1
        self._rng = generator("km thompson", seed)
        self._x: list[Floats] = []
        self._arm: list[int] = []
        self._born: list[int] = []
        self._wait: list[int] = []  # rounds until the outcome was reported, -1 for silence
        self._reward: list[float] = []
        self._weight: list[Floats] = []
        self._place: dict[int, int] = {}
        theta = np.zeros((self._agents, self._width))
        self._replicates = [_Replicate(theta.copy(), np.ones(1), np.ones(1)) for _ in range(_REPLICATES)]

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """The eligible arm with the largest probability in a replicate drawn at random."""
        replicate = self._fitted(int(u * _REPLICATES))
        row = with_intercept(x)
        value = replicate.theta[list(arms)] @ row
        best = np.flatnonzero(value == value.max())
        arm = int(arms[best[int(self._rng.integers(len(best)))]])
        self._place[self.t] = len(self._arm)
        self._x.append(row)
        self._arm.append(arm)
        self._born.append(self.t)
        self._wait.append(-1)
        self._reward.append(np.nan)
        self._weight.append(self._rng.exponential(size=_REPLICATES))
        return arm

    def update(self, x: Floats, arm: int, reward: float) -> None:
        """Record the outcome of round ``t``, reported in the current round."""
        index = self._place.pop(self.t)
        self._wait[index], self._reward[index] = self.now - self._born[index], reward

    def delay_survival(self, rounds: Ints) -> Floats:
        """Probability that a success is reported after more than so many rounds; mean of the replicates."""
        curves = [self._fitted(index, force=True).success for index in range(_REPLICATES)]
        return np.asarray(np.mean([curve[np.minimum(rounds, len(curve) - 1)] for curve in curves], axis=0))

    def probabilities(self, x: Floats) -> Floats:
        """Probability of success of every agent; mean of the replicates."""
        fitted = [self._fitted(index, force=True).theta @ with_intercept(x) for index in range(_REPLICATES)]
        return np.asarray(np.mean(fitted, axis=0))

    def _fitted(self, index: int, *, force: bool = False) -> _Replicate:
        replicate, n = self._replicates[index], len(self._arm)
        stale = replicate.fitted < 0 or n - replicate.fitted >= max(_STALE, _STALE_SHARE * n)
        if stale or force:
            self._fit(replicate, np.array([each[index] for each in self._weight]))
            replicate.fitted = n
        return replicate

    def _fit(self, replicate: _Replicate, weight: Floats) -> None:
        # One success and one failure per agent beforehand, as a uniform prior; their weights are drawn too.
        prior = self._rng.exponential(size=(2, self._agents))
        x = np.array(self._x).reshape(-1, self._width)
        arm, wait = np.array(self._arm, dtype=np.int64), np.array(self._wait, dtype=np.int64)
        told, reward = wait >= 0, np.array(self._reward)
        waited = np.where(told, wait, self.now - np.array(self._born, dtype=np.int64))
        for _ in range(_STEPS if arm.size else 1):
            share = _share(replicate, x, arm, waited=waited)
            label = np.where(told, np.nan_to_num(reward), share)
            replicate.success = _kaplan_meier(waited, weight * label, told)
            replicate.failure = _kaplan_meier(waited, weight * (1.0 - label), told)
            replicate.theta = _regressed(x, arm, label, weight=weight, prior=prior)


def _share(replicate: _Replicate, x: Floats, arm: Ints, *, waited: Ints) -> Floats:
    """Probability that each decision is a success, given how long it has been silent."""
    p = np.clip((replicate.theta[arm] * x).sum(axis=1), _EDGE, 1.0 - _EDGE)
    late, never = (
        curve[np.minimum(waited, len(curve) - 1)] if len(curve) else np.ones(len(waited))
        for curve in (replicate.success, replicate.failure)
    )
    silent = p * late + (1.0 - p) * never
    found = np.where(silent > 0.0, p * late / np.where(silent > 0.0, silent, 1.0), p)  # beyond both laws: as before
    return np.asarray(found, dtype=float)


def _kaplan_meier(waited: Ints, weight: Floats, told: Bools) -> Floats:
    """P(delay > k) for k = 0, 1, ...; unreported outcomes are censored.

    Nothing comes later than the latest report (the usual constraint that makes the share of those that never
    come identifiable); 1 without reports.
    """
    if not waited.size:
        return np.ones(1)
    length = int(waited.max()) + 1
    events, leaving = (np.bincount(waited, part, length).astype(float) for part in (weight * told, weight))
    at_risk = number_at_risk(leaving)
    curve = product_limit(hazard_of(events, np.where(at_risk > 1e-9, at_risk, 0.0)))[1:]
    if events.any():
        curve[np.flatnonzero(events)[-1] :] = 0.0
    return curve


def _regressed(x: Floats, arm: Ints, label: Floats, *, weight: Floats, prior: Floats) -> Floats:
    """Weighted ridge regressions, one per agent, on the decisions and the two of the prior at x = 0."""
    agents, d = prior.shape[1], x.shape[1]
    design = np.zeros((agents, d, d))
    design[:, np.arange(1, d), np.arange(1, d)] = 1.0
    design[:, 0, 0] = prior.sum(axis=0)
    response = np.zeros((agents, d))
    response[:, 0] = prior[0]
    np.add.at(design, arm, weight[:, None, None] * x[:, :, None] * x[:, None, :])
    np.add.at(response, arm, (weight * label)[:, None] * x)
    return np.asarray(np.linalg.solve(design, response[:, :, None])[:, :, 0])


def _player(setup: Setup) -> Player:
    return PerSeedPlayer(setup, KaplanMeierThompson)


ENTRANTS = [
    Entrant(
        "km-thompson",
        "bootstrapped Thompson sampling with a Kaplan-Meier delay law (Gigli and Stella 2024), our implementation; "
        "components of texts, no words",
        _player,
        kind="peer",
    )
]
