"""lambda="auto": a budget on unit-free distances, and lambda as its dual variable.

Distances up to halfway between what the closest quarter of the agents show and somebody else's answer cost nothing.
Agents that have not shown enough yet count as close, so that cheats that come first do not set the standard. Beyond the
budget an agent pays lambda for its excess, and lambda rises each time an excess is accepted. Where all agents are
aligned, or all are far, nobody pays. An agent is judged by its lower confidence distance: seen twice, it is not
condemned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.core.alignment.units import Relative, closest_share

__all__ = ["AutoLambda"]

_PSEUDO_AGENTS = 2.0  # while few agents are known, so many that are closer still take part in the budget
_QUICK, _STEEP = 30.0, 10.0  # an excess of 1 / 30 raises lambda as one of 1 does, until lambda is 10


@dataclass(frozen=True, slots=True)
class AutoLambda:
    """The dual variable, and who pays.

    Parameters
    ----------
    start
        lambda before anything has happened.
    rate
        By how much lambda rises when an excess of 1 or more is accepted.
    """

    start: float = 1.0
    rate: float = 0.5

    @property
    def schema(self) -> Schema:
        """The dual variable."""
        return {"lambda": Field(per_agent=False, fill=self.start)}

    def budget(self, distance: Floats, known: Bools) -> Floats:
        """The distance that costs nothing, ``batch + (1,)``: halfway from the closest quarter of agents to 1.

        While few agents are known, two pseudo-agents that are closer still keep the first, if they cheat, from
        setting the standard.

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
        """What every agent's lower confidence distance exceeds the budget by, less what all of them do."""
        above = np.where(found.known, np.maximum(found.lower - self.budget(found.mean, found.known), 0.0), 0.0)
        return above - np.minimum.reduce(above, axis=-1, keepdims=True)

    def penalty(self, state: Arrays, excess: Floats) -> Floats:
        """Lambda times excess."""
        return np.asarray(state["lambda"][..., None] * excess)

    def accept(self, state: Arrays, excess: Floats) -> None:
        """An agent with this excess, ``batch``, was chosen.

        An excess much smaller than 1 takes a large lambda; it comes to it in a few steps.
        """
        steps = np.where(state["lambda"] < _STEEP, _QUICK, 1.0) * excess
        state["lambda"] += self.rate * np.minimum(steps, 1.0)
