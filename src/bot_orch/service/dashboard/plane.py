r"""The cost-quality plane: mean dollars and mean reward of a decision, per agent, and of the router itself.

The doubly robust mean reward of an agent over the decisions of a range is the mean of
:math:`m_a + 1[A = a] / p_a (r - m_a)`, with rewards and means as in :mod:`~bot_orch.service.dashboard.regret`: what the
agent would have earned, had it got every decision that it could be drawn in. An estimate outside [0, 1], where no mean
reward can be, is moved to the nearer end: that is never further from the truth. Mean dollars are those of its own
decisions weighted by :math:`1 / p_a` (self-normalised): exact for a fixed price, and never negative.

Asking agent :math:`a` with probability :math:`w_a`, whatever the task, earns and costs the mean with weights :math:`w`.
The best such mixes lie on the upper hull of the agents' points; a router that knows its tasks can be above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, astuple, dataclass, fields, replace
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.numerics.hull import upper_hull
from bot_orch.service.dashboard.buckets import BucketView
from bot_orch.service.dashboard.regret import Offer, comparable

#: Rows of what a rewarded decision says: the doubly robust reward of every agent; and of the chosen one w = 1 / p,
#: w c, v = (1 - p) / p^2, v c, v c^2 with its dollars c, the reward, the dollars, 1.
PLANE = ("dr_reward", "weight", "weight_usd", "spread", "spread_usd", "spread_usd2", "earned", "spent", "drawn")
_FEWEST_DRAWN = 3  # decisions of an agent: fewer say nothing about its dollars


def plane_sums(offer: Offer, reward: float, usd: float) -> Floats:
    """Contributions of a decision to each agent's sums, one row per entry of ``PLANE``."""
    found, p = np.zeros((len(PLANE), len(offer.others))), offer.propensity
    v = (1.0 - p) / p**2
    found[0] = offer.values(reward)
    found[1:, offer.agent] = 1.0 / p, usd / p, v, v * usd, v * usd**2, reward, usd, 1.0
    return found


@dataclass(frozen=True, slots=True)
class PlanePoint:
    """Means per decision, with standard errors; plain means of the agent's own decisions unless ``corrected``."""

    name: str
    usd: float
    reward: float
    _: KW_ONLY
    usd_error: float | None = None
    reward_error: float | None = None
    corrected: bool = False
    on_hull: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """Points of agents, vertices (dollars, reward) of the hull, the router's point and its reward above the hull."""

    points: list[PlanePoint]
    hull: list[tuple[float, float]]
    router: PlanePoint | None = None
    _: KW_ONLY
    above: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the script of the page."""
        return asdict(self)


def plane_of(view: BucketView, agents: Sequence[str]) -> Plane:
    """The plane over a time range; agents that were drawn too rarely are omitted."""
    sums = {name: view.total(name) for name in (*PLANE, "expected_variance", "seen_variance", "drawable")}
    drawn, settled = sums["drawn"], float(sums["drawn"].sum())
    known = comparable(sums["drawable"], settled)
    points = [
        _corrected(sums, k, name) if known[k] else _plain(sums, k, name)
        for k, name in enumerate(agents)
        if drawn[k] >= _FEWEST_DRAWN
    ]
    sure = [each for each in points if each.corrected]
    best = upper_hull([each.reward for each in sure], [each.usd for each in sure])
    hull = [(sure[agent].usd, sure[agent].reward) for agent in best]
    points = [replace(each, on_hull=each.corrected and (each.usd, each.reward) in hull) for each in points]
    if not settled:
        return Plane(points, hull)
    reward, usd = round(float(sums["earned"].sum()) / settled, 6), round(float(sums["spent"].sum()) / settled, 9)
    level = hull_at(hull, usd)
    above = None if level is None else round(reward - level, 6)
    return Plane(points, hull, PlanePoint("router", usd, reward), above=above)


def _corrected(sums: dict[str, Floats], k: int, name: str) -> PlanePoint:
    n = float(sums["drawable"][k])
    reward = min(max(float(sums["dr_reward"][k]) / n, 0.0), 1.0)
    error = math.sqrt(max(0.0, float(sums["expected_variance"][k]), float(sums["seen_variance"][k]))) / n
    weight, v, v_usd, v_usd2 = (float(sums[each][k]) for each in ("weight", "spread", "spread_usd", "spread_usd2"))
    usd = float(sums["weight_usd"][k]) / weight
    usd_error = math.sqrt(max(0.0, v_usd2 - 2.0 * usd * v_usd + usd**2 * v)) / weight
    return PlanePoint(
        name,
        round(usd, 9),
        round(reward, 6),
        usd_error=round(usd_error, 9),
        reward_error=round(error, 6),
        corrected=True,
    )


def _plain(sums: dict[str, Floats], k: int, name: str) -> PlanePoint:
    n = float(sums["drawn"][k])
    usd, reward = float(sums["spent"][k]) / n, float(sums["earned"][k]) / n
    return PlanePoint(name, round(usd, 9), round(reward, 6))


def hull_at(hull: Sequence[tuple[float, float]], usd: float) -> float | None:
    """The reward of the best mix at this cost; None below the cheapest agent.

    Examples
    --------
    >>> [hull_at([(1.0, 0.5), (3.0, 0.9)], usd) for usd in (0.5, 2.0, 9.0)]
    [None, 0.7, 0.9]
    """
    if not hull or usd < hull[0][0]:
        return None
    return float(np.interp(usd, [x for x, _ in hull], [y for _, y in hull]))


def plane_table(plane: Plane) -> list[Sequence[object]]:
    """The points for a file."""
    points = [("agent", point) for point in plane.points]
    points += [] if plane.router is None else [("router", plane.router)]
    return [("point", *(each.name for each in fields(PlanePoint))), *((what, *astuple(each)) for what, each in points)]
