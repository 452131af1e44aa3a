"""Alignment without units, and a lambda that calibrates itself.

How far an agent's outputs lie from the references of their tasks is divided by how far references of different tasks
lie from each other. So 0 means "the answer itself", 1 "no closer than the answer to another task", whatever the
embedding is measured in, and lambda means the same everywhere.

``lambda_="auto"`` keeps a budget: distances up to halfway between what the closest quarter of the agents show and
somebody else's answer cost nothing. Agents that have not shown enough yet count as close, so that cheats that come
first do not set the standard. Beyond the budget an agent pays lambda for its excess, and lambda, a dual variable, rises
each time an excess is accepted. Where all agents are aligned, or all are far, nobody pays. An agent is judged by its
lower confidence distance: seen twice, it is not condemned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.transport.geometry import Geometry

__all__ = ["AutoLambda", "Gaps", "Relative", "over", "settled"]

_Z = 1.645  # one-sided 95 %
_IMAGINARY, _USUAL_SPREAD = 2.0, 0.25
_SMALL = 0.8  # what the normal approximation may miss of a mean of few outcomes, in units of spread / n
_ROOM = 4.0  # where references hardly vary: the unit, in distances of the closest eighth of the agents
_ROUNDING = 1e-9  # of the distances: a variability that is none
_QUICK, _STEEP = 30.0, 10.0  # an excess of 1 / 30 raises lambda as one of 1 does, until lambda is 10


@dataclass(frozen=True, slots=True)
class Gaps:
    """Distances between outputs and the references of their own tasks, agent by agent, and the unit they are told in.

    State arrays have leading batch dimensions: ``batch + (M,)``, those of the unit ``batch``.

    Parameters
    ----------
    width
        Length of an embedded reference.
    due
        How many references of tasks without outcome are kept; an outcome later than that teaches no gap.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> gaps = Gaps(width=1)
    >>> state = allocate(gaps.schema, (), 2)
    >>> for t in range(50):
    ...     gaps.see_unit(state, np.array(10.0))
    ...     gaps.see_gap(state, np.array(t % 2), np.array(1.0 if t % 2 else 8.0 + t % 4))
    >>> unit = gaps.unit(state)
    >>> gaps.mean(state, unit), gaps.lower(state, unit).round(2)
    (array([0.896, 0.1  ]), array([0.86, 0.09]))
    """

    width: int
    due: int = 0

    @property
    def schema(self) -> Schema:
        """Count, mean and sum of squared deviations per agent; sum and number of distances between references."""
        return {
            "count": Field(),
            "gap": Field(),
            "square": Field(),
            "apart": Field(per_agent=False),
            "pairs": Field(per_agent=False),
            "last": Field(per_agent=False, shape=(self.width,)),
            "due": Field(per_agent=False, shape=(self.due, self.width)),
            "due_round": Field(per_agent=False, shape=(self.due,), fill=-1.0, dtype="int64"),
        }

    def see_reference(self, state: Arrays, geometry: Geometry, reference: Floats, round_: int) -> None:
        """Keep the embedded reference of the task of a round until its outcome comes (no batch)."""
        if state["due_round"].max() >= 0:
            state["apart"] += geometry.distances(state["last"][None], reference)[0]
            state["pairs"] += 1.0
        state["last"][:] = state["due"][round_ % self.due] = reference
        state["due_round"][round_ % self.due] = round_

    def see_output(self, state: Arrays, geometry: Geometry, agent: int, output: Floats, round_: int) -> None:
        """Compare an embedded output with the reference of its task, if that is still kept (no batch)."""
        if state["due_round"][round_ % self.due] == round_:
            gap = geometry.distances(output[None], state["due"][round_ % self.due])[0]
            self.see_gap(state, np.array(agent), gap)

    def see_unit(self, state: Arrays, apart: Floats, known: Bools | None = None) -> None:
        """The distance between the references of two different tasks."""
        seen = np.isfinite(apart) if known is None else known
        state["apart"] += np.where(seen, apart, 0.0)
        state["pairs"] += seen

    def see_gap(self, state: Arrays, agent: Ints, gap: Floats) -> None:
        """The distance between an output of ``agent`` and the reference of its task; NaN teaches nothing."""
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        known = np.isfinite(gap)
        state["count"][at] += known
        step = np.where(known, gap - state["gap"][at], 0.0)
        state["gap"][at] += step / np.maximum(state["count"][at], 1.0)
        state["square"][at] += step * np.where(known, gap - state["gap"][at], 0.0)

    def unit(self, state: Arrays) -> Floats:
        """How far references of different tasks lie apart on average, ``batch + (1,)``; 0 while unknown."""
        return np.asarray(state["apart"] / np.maximum(state["pairs"], 1.0))[..., None]

    def mean(self, state: Arrays, unit: Floats) -> Floats:
        """Mean distance of every agent in units of ``unit``; zero for an agent never seen."""
        return over(state["gap"], unit)

    def lower(self, state: Arrays, unit: Floats) -> Floats:
        """Lower confidence distance of every agent; zero for an agent seen less than twice.

        The spread of few gaps is told from those of all agents, and taken for a quarter of a unit at least.
        """
        n = state["count"]
        spread = np.sqrt(state["square"] / np.maximum(n - 1.0, 1.0))
        pooled = np.sqrt(
            np.add.reduce(state["square"], axis=-1, keepdims=True)
            / np.maximum(np.add.reduce(np.maximum(n - 1.0, 0.0), axis=-1, keepdims=True), 1.0)
        )
        few = np.maximum(n, 1.0)
        usual = np.maximum(pooled, _USUAL_SPREAD * unit)
        spread = (np.maximum(n - 1.0, 0.0) * spread + 2.0 * usual) / (np.maximum(n - 1.0, 0.0) + 2.0)
        low = np.where(n < 2.0, 0.0, state["gap"] - _Z * spread / np.sqrt(few) - _SMALL * spread / few)
        return over(np.maximum(low, 0.0), unit)


@dataclass(frozen=True, slots=True, eq=False)
class Relative:
    """Distances without units, ``batch + (M,)``: estimates, lower confidence distances, and whose are known."""

    mean: Floats
    lower: Floats
    known: Bools


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

        While few agents are known, two imaginary ones that are closer still keep the first, if they cheat, from
        setting the standard.

        Examples
        --------
        >>> known = np.array([True, True, True, False])
        >>> AutoLambda().budget(np.array([0.2, 0.3, 1.4, 0.0]), known).round(3)
        array([0.5])
        >>> AutoLambda().budget(np.array([0.2, 0.3, 1.4, 0.4]), ~np.zeros(4, dtype=bool)).round(3)
        array([0.573])
        """
        closest = np.minimum(_closest(distance, known), 1.0)
        count = np.add.reduce(known, axis=-1, keepdims=True, dtype=np.float64)
        return np.asarray(0.5 * (closest * (count + _IMAGINARY * closest) / (count + _IMAGINARY) + 1.0))

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


def settled(unit: Floats, distance: Floats, known: Bools, least: float = 0.0) -> Floats:
    """The unit that references give, ``batch + (1,)``, or what agents show where references hardly vary beside that.

    Where even the closest agents lie further off than the unit, there is room for the less exact; where references do
    not vary at all, the unit is at least ``least``.

    Examples
    --------
    >>> distance, known = np.array([1.0, 1.5, 2.0]), np.array([True, True, True])
    >>> settled(np.array([3.0]), distance, known), settled(np.array([1e-12]), distance, known).round(3)
    (array([3.]), array([4.]))
    """
    count = np.add.reduce(known, axis=-1, keepdims=True, dtype=np.float64)
    mean = np.add.reduce(np.where(known, distance, 0.0), axis=-1, keepdims=True) / np.maximum(count, 1.0)
    closest = _closest(distance, known, share=8)
    usual = np.maximum(np.maximum(mean, _ROOM * closest), least)
    return np.where(unit > _ROUNDING * mean, np.maximum(unit, _ROOM * (closest - unit)), usual)


def _closest(distance: Floats, known: Bools, share: int = 4) -> Floats:
    """What the closest ``1 / share`` of the agents shows, ``batch + (1,)``; zero for agents that are not known."""
    ordered = np.sort(np.where(known, distance, 0.0), axis=-1)
    last = (distance.shape[-1] - 1) // share
    return ordered[..., last : last + 1]


def over(values: Floats, unit: Floats) -> Floats:
    """Values in units; zero where the unit is not known."""
    return np.divide(values, unit, out=np.zeros(np.broadcast_shapes(values.shape, unit.shape)), where=unit > 0.0)
