"""What fixed agents, or an oracle, reach at a mean cost: the baselines of a budget.

The *hull* is the best that is possible without looking at tasks: at a budget, the best mix of two fixed agents whose
mean cost is the budget; over all budgets, the upper convex hull of the agents' (mean cost, mean reward).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Floats, Ints

__all__ = ["Mix", "frontier", "hull_mix", "oracle_at"]


@dataclass(frozen=True, slots=True)
class Mix:
    """Agent ``first`` with probability ``weight``, else agent ``second``."""

    first: int
    second: int
    weight: float

    def of(self, values: Floats) -> Floats:
        """The mixed value of per-agent ``values``, last axis."""
        return np.asarray(self.weight * values[..., self.first] + (1.0 - self.weight) * values[..., self.second])


def hull_mix(reward: Floats, cost: Floats, budget: float) -> Mix:
    """The best mix of two agents with mean rewards and mean costs (M,), at a mean cost of at most ``budget``.

    Where even the cheapest agent exceeds the budget, it takes everything.

    Examples
    --------
    >>> hull_mix(np.array([0.5, 0.9]), np.array([1.0, 3.0]), 2.0)
    Mix(first=1, second=0, weight=0.5)
    """
    hull = _hull(reward, cost)
    above = next((k for k, agent in enumerate(hull) if cost[agent] > budget), len(hull))
    if above in (0, len(hull)):
        only = hull[max(above - 1, 0)]
        return Mix(only, only, 1.0)
    second, first = hull[above - 1], hull[above]
    return Mix(first, second, float((budget - cost[second]) / (cost[first] - cost[second])))


def frontier(reward: Floats, cost: Floats) -> list[tuple[float, float]]:
    """Vertices (cost, reward) of the hull, by rising cost.

    Examples
    --------
    >>> frontier(np.array([0.5, 0.6, 0.9]), np.array([1.0, 2.5, 3.0]))
    [(1.0, 0.5), (3.0, 0.9)]
    """
    return [(float(cost[agent]), float(reward[agent])) for agent in _hull(reward, cost)]


def _hull(reward: Floats, cost: Floats) -> list[int]:
    """The agents at the vertices of the upper convex hull, by rising cost and rising reward."""
    hull: list[int] = []
    for agent in sorted(range(len(cost)), key=lambda each: (cost[each], -reward[each])):
        if hull and reward[agent] <= reward[hull[-1]]:
            continue  # dearer and no better
        while len(hull) > 1 and _slope(hull[-2], hull[-1], reward, cost) <= _slope(hull[-1], agent, reward, cost):
            hull.pop()
        hull.append(agent)
    return hull


def _slope(left: int, right: int, reward: Floats, cost: Floats) -> float:
    return float((reward[right] - reward[left]) / max(cost[right] - cost[left], 1e-300))


def oracle_at(reward: Floats, cost: Floats, budget: float) -> Ints:
    """The agent per task, (T,), that maximises the sum of rewards (T, M) at a mean cost within the budget.

    Tasks go to the largest reward minus a common multiplier times cost; the multiplier is found by bisection, so the
    result is optimal up to one task.

    Examples
    --------
    >>> oracle_at(np.array([[0.0, 1.0], [0.9, 1.0]]), np.array([[0.0, 1.0], [0.0, 1.0]]), 0.5)
    array([1, 0])
    """
    rows = np.arange(len(reward))

    def chosen(multiplier: float) -> Ints:
        score = reward - multiplier * cost
        best = score.max(axis=1, keepdims=True)
        return np.asarray(np.argmin(np.where(score >= best - 1e-12, cost, np.inf), axis=1))

    if cost[rows, chosen(0.0)].mean() <= budget:
        return chosen(0.0)
    low, high = 0.0, 1.0
    while cost[rows, chosen(high)].mean() > budget and high < 1e12:
        low, high = high, 10.0 * high
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost[rows, chosen(middle)].mean() > budget else (low, middle)
    return _filled_up(chosen(high), chosen(low), cost, budget)


def _filled_up(agent: Ints, dearer: Ints, cost: Floats, budget: float) -> Ints:
    """Tasks of equal gain per dollar change to the dearer choice while the budget lasts."""
    rows = np.arange(len(agent))
    more = np.flatnonzero(agent != dearer)
    extra = np.cumsum((cost[rows, dearer] - cost[rows, agent])[more])
    spare = budget * len(agent) - cost[rows, agent].sum()
    change = more[extra <= spare + 1e-12]
    return np.asarray(np.where(np.isin(rows, change), dearer, agent))
