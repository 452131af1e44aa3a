"""lambda="auto": a budget on relative distances, and lambda as its dual variable.

The budget lies halfway between the distance of the closest quarter of the agents and 1, the distance of an answer to
another task. Distances within the budget cost nothing. Agents with too few outcomes count as close, so that misaligned
agents that come first do not set the budget. Beyond the budget the cost is lambda times the excess, and lambda rises
each time an agent with an excess is chosen. If all agents are aligned, or all are far, no agent has a cost. The excess
uses the lower confidence distance, so that few outcomes do not suffice to penalise an agent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.core.alignment.units import Relative, closest_share

_PSEUDO_AGENTS = 2.0  # weight, in agents, of the prior that shrinks the budget while few agents are known
_QUICK, _STEEP = 30.0, 10.0  # below lambda = 10, an excess of 1 / 30 already gives the full step


@dataclass(frozen=True, slots=True)
class AutoLambda:
    """The dual variable lambda and the alignment cost it implies.

    Parameters
    ----------
    start
        Initial lambda.
    rate
        Largest step of lambda per chosen agent with an excess.
    """

    start: float = 1.0
    rate: float = 0.5

    @property
    def schema(self) -> Schema:
        """State array ``lambda``."""
        return {"lambda": Field(per_agent=False, fill=self.start)}

    def budget(self, distance: Floats, known: Bools) -> Floats:
        """The largest distance without cost, ``batch + (1,)``: halfway from the closest quarter of the agents to 1.

        While few agents are known, two closer pseudo-agents shrink the budget, so that misaligned agents that come
        first do not set it.

        Examples
        --------
        >>> known = np.array([True, True, True, False])
        >>> AutoLambda().budget(np.array([0.2, 0.3, 1.4, 0.0]), known).round(3)
        array([0.5])
        >>> AutoLambda().budget(np.array([0.2, 0.3, 1.4, 0.4]), ~np.zeros(4, dtype=bool)).round(3)
        array([0.573])
        """
        closest = np.minimum(closest_share(distance, known), 1.0)
        count = np.add.reduce(known, axis=-1, keepdims=True, dtype=np.float64)
        return np.asarray(0.5 * (closest * (count + _PSEUDO_AGENTS * closest) / (count + _PSEUDO_AGENTS) + 1.0))

    def excess(self, found: Relative) -> Floats:
        """Excess of every agent's lower confidence distance over the budget, minus the smallest excess."""
        above = np.where(found.known, np.maximum(found.lower - self.budget(found.mean, found.known), 0.0), 0.0)
        return above - np.minimum.reduce(above, axis=-1, keepdims=True)

    def penalty(self, state: Arrays, excess: Floats) -> Floats:
        """Alignment cost: lambda times the excess."""
        return np.asarray(state["lambda"][..., None] * excess)

    def accept(self, state: Arrays, excess: Floats) -> None:
        """Raise lambda after an agent with this excess, ``batch``, was chosen.

        A small excess needs a large lambda to matter, so steps are enlarged while lambda is below 10.
        """
        steps = np.where(state["lambda"] < _STEEP, _QUICK, 1.0) * excess
        state["lambda"] += self.rate * np.minimum(steps, 1.0)
