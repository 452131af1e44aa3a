"""Audits: the bias of the judge per agent, estimated from random audits and subtracted from the score.

A judge that can be fooled gives an agent more than it is worth. A random share of the decisions gets a second verdict,
the truth. The mean difference of both is the judge's bias for that agent, E[judge - truth | agent]; the reward estimate
minus the bias is a prediction-powered estimate [1]_ of the true reward.

The prior of the biases is hierarchical, bias_i = common + slope * W_i + own_i, all normal with mean zero: the first
audits say something about all agents, more about those that are as far from the references, most about their own.
Half of the prior says that the judge is fair to an agent: small differences are then noise, not bias.

References
----------
.. [1] Angelopoulos, Bates, Fannjiang, Jordan, Zrnic. Prediction-powered inference. Science 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Ints, Schema
from bot_orch.core.alignment.gaps import see_value

# Prior variances: common part, part per unit of distance, own part. The common part is small: one cheat would otherwise
# make agents that were not audited yet look biased, and those are then never chosen and never audited.
_COMMON, _SLOPE, _OWN = 0.05**2, 0.3**2, 0.4**2
_NOISE, _NOISE_OUTCOMES = 0.2**2, 4.0  # prior variance of judge - truth within an agent, and its weight in audits
_RECENT = 10.0  # audits of an agent that count; older ones fade, so that an agent that turns is found out
_FARTHEST = 2.0  # distances beyond are as suspicious as this one


@dataclass(frozen=True, slots=True)
class Audits:
    """Estimates the judge's bias for every agent.

    State arrays are ``batch + (M,)``: number, mean and sum of squared deviations of ``judge - truth``, and the number
    of rewards that a policy has learned, all and those that were the truth.

    Parameters
    ----------
    rate
        Share of the decisions that are audited; 0 for none.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> audits = Audits(rate=0.1)
    >>> state = allocate(audits.schema, (), 3)
    >>> for _ in range(5):
    ...     audits.compare(state, np.array(0), judge=np.array(0.9), truth=np.array(0.1))
    ...     audits.compare(state, np.array(1), judge=np.array(0.7), truth=np.array(0.7))
    >>> audits.bias(state, np.zeros(3)).round(2)
    array([0.79, 0.  , 0.01])
    """

    rate: float = 0.0

    @property
    def schema(self) -> Schema:
        """Differences between judge and truth, and counts of rewards, per agent; empty without audits."""
        names = ("count", "gap", "square", "rewards", "truths")
        return {name: Field() for name in names} if self.rate else {}

    def compare(self, state: Arrays, agent: Ints, *, judge: Floats, truth: Floats) -> None:
        """Learn both verdicts on one outcome per batch element; NaN where one is missing."""
        see_value(state, agent, np.asarray(judge - truth), recent=_RECENT)

    def count(self, state: Arrays, agent: Ints, *, reward: Floats, truth: Floats, again: bool = False) -> None:
        """Count the rewards that the policy learns: ``reward``, or ``truth`` where known; NaN where missing.

        ``again``: in place of lessons that were counted before.
        """
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        known = np.isfinite(truth)
        if not again:
            state["rewards"][at] += known | np.isfinite(reward)
        state["truths"][at] += known

    def bias(self, state: Arrays, distance: Floats) -> Floats:
        """The correction of reward estimates, ``batch + (M,)``: bias times the share of rewards given by the judge.

        The posterior mean of the biases solves one linear system with M unknowns per batch element. It is multiplied by
        the posterior probability that the judge is not fair to the agent.
        """
        n, m = state["count"], state["count"].shape[-1]
        if not np.count_nonzero(n):
            return np.zeros(n.shape)
        far = np.clip(distance, 0.0, _FARTHEST)
        prior = _COMMON + _SLOPE * far[..., :, None] * far[..., None, :] + _OWN * np.eye(m)
        noise = _noise(state)
        root = np.sqrt(n / noise)
        system = np.eye(m) + root[..., :, None] * prior * root[..., None, :]
        weight = root * np.linalg.solve(system, (root * state["gap"])[..., None])[..., 0]
        found = np.add.reduce(prior * weight[..., None, :], axis=-1)
        by_judge = 1.0 - state["truths"] / np.maximum(state["rewards"], 1.0)
        return np.asarray(by_judge * _unfair(state, noise) * np.clip(found, -1.0, 1.0))


def _unfair(state: Arrays, noise: Floats) -> Floats:
    """Posterior probability that an audited agent has its own bias, against none; 1 for agents without audits."""
    n = np.maximum(state["count"], 1.0)
    fair = noise / n
    either = fair + _OWN
    odds = np.sqrt(either / fair) * np.exp(-0.5 * state["gap"] ** 2 * (1.0 / fair - 1.0 / either))
    return np.asarray(np.where(state["count"] > 0.0, 1.0 / (1.0 + odds), 1.0))


def _noise(state: Arrays) -> Floats:
    """Pooled within-agent variance of judge - truth, ``batch + (1,)``."""
    freedom = np.add.reduce(np.maximum(state["count"] - 1.0, 0.0), axis=-1, keepdims=True)
    squares = np.add.reduce(state["square"], axis=-1, keepdims=True)
    return np.asarray((squares + _NOISE_OUTCOMES * _NOISE) / (freedom + _NOISE_OUTCOMES))
