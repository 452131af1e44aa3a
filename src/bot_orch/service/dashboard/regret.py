r"""Regret: what one agent, asked every time, would have earned more than the router.

For agent :math:`a` and a decision with propensities :math:`p`, known penalties :math:`c` (lambda W + cost + the judge's
bias) and the reward :math:`r` of the chosen agent :math:`A`, the doubly robust difference is

.. math:: D_a = m_a - c_a + \frac{1[A = a]}{p_a} (r - m_a) - (r - c_A),

with :math:`m_a` the mean reward of the agent before the decision. Its expectation given the past is that of the agent's
net reward minus the router's, whatever the policy does and however agents or prices change, because penalties are known
for every agent and :math:`m_a` does not depend on the draw. So the sum over a range is unbiased, and its standard error
follows from the squares. An agent that could not be drawn (:math:`p_a = 0`) is not compared in that decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from bot_orch.arrays import Bools, Floats

__all__ = ["Offer", "RegretEstimate", "Rewards", "best_agent", "regret_line"]

_FEWEST = 10  # decisions that an agent must have been drawable in; a standard error of fewer says nothing
_LEAST_SHARE = 0.5  # of all decisions: an agent that could rarely be drawn is no alternative to the router


class Offer(NamedTuple):
    """A decision that waits for its reward: chosen agent, its propensity, and ``others``, the m - c of all agents.

    ``others`` is NaN for agents that could not be drawn; ``mean`` and ``penalty`` are m and c of the chosen one.
    """

    agent: int
    propensity: float
    mean: float
    penalty: float
    others: Floats

    def differences(self, reward: float) -> tuple[Floats, Bools]:
        """D of every agent, zero for those that could not be drawn, and which could be."""
        drawable = np.isfinite(self.others)
        found = np.where(drawable, self.others, 0.0)
        found[self.agent] += (reward - self.mean) / self.propensity
        found[drawable] -= reward - self.penalty
        return found, drawable


@dataclass(slots=True)
class Rewards:
    """Mean rewards of the agents so far; of all of them for one that has none yet."""

    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, n: int) -> Rewards:
        """Nothing known of ``n`` agents."""
        return cls(np.zeros(n), np.zeros(n))

    def see(self, agent: int, reward: float) -> None:
        """Count a reward."""
        self.counts[agent] += 1
        self.sums[agent] += reward

    def means(self) -> Floats:
        """The mean of every agent."""
        total = float(self.counts.sum())
        overall = float(self.sums.sum()) / total if total else 0.0
        found: Floats = np.where(self.counts > 0, self.sums / np.maximum(self.counts, 1.0), overall)
        return found

    def offer(self, agent: int, propensities: Floats, penalties: Floats) -> Offer:
        """A decision whose reward is due."""
        means = self.means()
        others = np.where(propensities > 0, means - penalties, np.nan)
        return Offer(agent, float(propensities[agent]), float(means[agent]), float(penalties[agent]), others)


class Sums(Protocol):
    """What is summed over an interval."""

    difference: Floats
    difference_square: Floats
    drawable: Floats
    settled: float


class RegretEstimate(NamedTuple):
    """Regret against the best single agent (its index), with the standard error."""

    agent: int
    total: float
    error: float


def best_agent(intervals: Sequence[Sums]) -> RegretEstimate | None:
    """The regret over all intervals; None if no two agents can be compared."""
    if not intervals:
        return None
    settled = sum(each.settled for each in intervals)
    drawable = np.sum([each.drawable for each in intervals], axis=0)
    total = np.sum([each.difference for each in intervals], axis=0)
    square = np.sum([each.difference_square for each in intervals], axis=0)
    known = (drawable >= _FEWEST) & (drawable >= _LEAST_SHARE * settled)
    if known.sum() < 2:
        return None
    best = int(np.argmax(np.where(known, total, -np.inf)))
    spread = max(0.0, float(square[best]) - float(total[best]) ** 2 / float(drawable[best]))
    return RegretEstimate(best, float(total[best]), math.sqrt(spread))


def regret_line(intervals: Sequence[Sums]) -> list[float]:
    """Cumulative regret against the best single agent of the whole range; empty if it is not known."""
    best = best_agent(intervals)
    if best is None:
        return []
    line = np.cumsum([float(each.difference[best.agent]) for each in intervals])
    return [round(float(value), 4) for value in line]
