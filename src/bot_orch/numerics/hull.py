"""The upper convex hull of agents in the plane of cost and reward: what mixes of two agents can reach."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.arrays import Floats


def upper_hull(reward: Floats | Sequence[float], cost: Floats | Sequence[float]) -> list[int]:
    """The agents at the vertices, by rising cost and rising reward.

    Examples
    --------
    >>> upper_hull([0.5, 0.6, 0.9, 0.8], [1.0, 2.0, 3.0, 4.0])
    [0, 2]
    """
    hull: list[int] = []
    for agent in sorted(range(len(cost)), key=lambda each: (cost[each], -reward[each])):
        if hull and reward[agent] <= reward[hull[-1]]:
            continue  # dearer and no better
        while len(hull) > 1 and _slope(hull[-2], hull[-1], reward, cost) <= _slope(hull[-1], agent, reward, cost):
            hull.pop()
        hull.append(agent)
    return hull


def _slope(left: int, right: int, reward: Floats | Sequence[float], cost: Floats | Sequence[float]) -> float:
    return float((reward[right] - reward[left]) / max(cost[right] - cost[left], 1e-300))
