r"""Regret: the reward that always choosing one agent would have earned beyond the router's.

For agent :math:`a` and a decision with propensities :math:`p`, known penalties :math:`c` (lambda W + cost + the judge's
bias) and the reward :math:`r` of the chosen agent :math:`A`, the doubly robust difference is

.. math:: D_a = m_a - c_a + \frac{1[A = a]}{p_a} (r - m_a) - (r - c_A),

with :math:`m_a` the recent mean reward of the agent before the decision. Its expectation over the draw is the agent's
net reward minus the router's, whatever the policy does and however agents or prices change, because penalties are known
for every agent and :math:`m_a` does not depend on the draw. So the sum over a range is unbiased.

Its variance is the sum of :math:`(1 / p_a - 1) (r_a - m_a)^2`. Two estimates of that are summed, and the larger one
counts: the drawn rewards divided by their propensities, which is unbiased but says nothing before an agent was drawn,
and the mean of :math:`(r - m_a)^2` so far in place of what was not seen. An agent that could not be drawn
(:math:`p_a = 0`) is not compared in that decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.service.dashboard.buckets import Bucket

_FEWEST = 10  # decisions that an agent must have been drawable in; a standard error of fewer says nothing
_PRIOR_VARIANCE = 0.25  # of a reward in [0, 1] of which nothing is known, counted like one reward
_RECENT = 50.0  # rewards of an agent that make up its mean
_LEAST_SHARE = 0.5  # of all decisions: an agent that was rarely drawable is not comparable


#: Rows of what a decision says of every agent: D, its variance as expected and as seen (zero if the agent was
#: not drawn), and 1 if the agent could be drawn.
DIFFERENCES = ("difference", "expected_variance", "seen_variance", "drawable")


@dataclass(frozen=True, slots=True)
class Offer:
    """A decision that waits for its reward: the chosen agent, its propensity and penalty c.

    ``means`` holds the m and ``others`` the m - c of all agents, NaN for those that could not be drawn, and
    ``variances`` the variances of their differences.
    """

    agent: int
    propensity: float
    others: Floats
    _: KW_ONLY
    means: Floats
    penalty: float
    variances: Floats

    @property
    def mean(self) -> float:
        """The mean m of the chosen agent."""
        return float(self.means[self.agent])

    def differences(self, reward: float) -> Floats:
        """Contributions of the decision to each agent's sums, one row per entry of ``DIFFERENCES``."""
        drawable, found = np.isfinite(self.others), np.zeros((len(DIFFERENCES), len(self.others)))
        found[0, drawable] = self.others[drawable] - (reward - self.penalty)
        found[0, self.agent] += (reward - self.mean) / self.propensity
        found[1] = self.variances
        found[2, self.agent] = self.seen_variance(reward)
        found[3] = drawable
        return found

    def values(self, reward: float) -> Floats:
        """The doubly robust reward of every agent; zero for agents with propensity zero."""
        found: Floats = np.where(np.isfinite(self.means), self.means, 0.0)
        found[self.agent] += (reward - self.mean) / self.propensity
        return found

    def seen_variance(self, reward: float) -> float:
        """The estimated variance of the chosen agent's value, given its reward."""
        return (1.0 - self.propensity) * ((reward - self.mean) / self.propensity) ** 2


class Rewards:
    """Recent mean rewards of ``n`` agents (the overall mean for an agent without rewards) and their standard errors."""

    def __init__(self, n: int) -> None:
        self._counts, self._means, self._squares = np.zeros(n), np.zeros(n), np.full(n, _PRIOR_VARIANCE)

    def see(self, offer: Offer, reward: float) -> None:
        """Count a reward."""
        k = offer.agent
        self._counts[k] = min(self._counts[k] + 1, _RECENT)
        self._means[k] += (reward - self._means[k]) / self._counts[k]
        self._squares[k] += ((reward - offer.mean) ** 2 - self._squares[k]) / (self._counts[k] + 1)

    def means(self) -> Floats:
        """The mean of every agent."""
        total = float(self._counts.sum())
        overall = float(self._counts @ self._means) / total if total else 0.0
        found: Floats = np.where(self._counts > 0, self._means, overall)
        return found

    def offer(self, agent: int, propensities: Floats, penalties: Floats) -> Offer:
        """A decision whose reward is due."""
        means, drawable = self.means(), propensities > 0
        weights = 1.0 / np.where(drawable, propensities, 1.0) - 1.0
        return Offer(
            agent,
            float(propensities[agent]),
            np.where(drawable, means - penalties, np.nan),
            means=np.where(drawable, means, np.nan),
            penalty=float(penalties[agent]),
            variances=weights * self._squares,
        )


class RegretEstimate(NamedTuple):
    """Regret against the best single agent (its index), with the standard error."""

    agent: int
    total: float
    error: float


def comparable(drawable: Floats, settled: float) -> Bools:
    """Mask of agents that were drawable often enough, given the number of rewarded decisions."""
    found: Bools = (drawable >= _FEWEST) & (drawable >= _LEAST_SHARE * settled)
    return found


def best_agent(intervals: Sequence[Bucket]) -> RegretEstimate | None:
    """The regret over all intervals; None if fewer than two agents are comparable."""
    if not intervals:
        return None
    settled = sum(each.settled for each in intervals)
    total, expected, seen, drawable = (np.sum([each[name] for each in intervals], axis=0) for name in DIFFERENCES)
    known = comparable(drawable, settled)
    if known.sum() < 2:
        return None
    best = int(np.argmax(np.where(known, total, -np.inf)))
    return RegretEstimate(best, float(total[best]), math.sqrt(max(0.0, float(expected[best]), float(seen[best]))))


def regret_line(intervals: Sequence[Bucket]) -> list[float]:
    """Cumulative regret against the best single agent of the whole range; empty if it is not known."""
    best = best_agent(intervals)
    if best is None:
        return []
    line = np.cumsum([float(each["difference"][best.agent]) for each in intervals])
    return [round(float(value), 4) for value in line]
