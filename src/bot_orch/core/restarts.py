"""Restarting an agent after a drift alarm: its learned state and late rewards are dropped.

The restart follows from the outcomes alone, so a fold of the log repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.numerics.choice import capped

OnAlarm = Literal["count", "restart"]
_PROBATION, _SHARE = 5, 0.2  # rewards that an agent needs after a restart; its share of the traffic until then
_KEPT = ("drift", "restarts")  # the drift monitor starts its own stream again and keeps its counts


@dataclass(frozen=True, slots=True)
class Restarts:
    """Rounds in which agents were started afresh.

    Rewards of decisions up to that round are about the agent as it was, whenever they arrive: they are not learned.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> schemas = {"policy": {"mean": Field(fill=0.5)}, "restarts": Restarts(True).schema}
    >>> parts = {name: allocate(schema, (), 2) for name, schema in schemas.items()}
    >>> parts["policy"]["mean"][:] = 0.9
    >>> restarts, second = Restarts(True), np.array(1)
    >>> restarts.pass_round(parts, 7)
    >>> restarts.restart(parts, schemas, second, alarms=np.array(True))
    >>> parts["policy"]["mean"], restarts.fresh(parts, second, 7), restarts.fresh(parts, second, 8)
    (array([0.9, 0.5]), array(False), array(True))
    """

    wanted: bool = False

    @property
    def schema(self) -> Schema:
        """The current round; per agent, the round of the last restart, rewards learned since, number of restarts."""
        if not self.wanted:
            return {}
        whole = Field(dtype="int64")
        return {"round": Field(per_agent=False, dtype="int64"), "since": whole, "rewards": whole, "times": whole}

    def pass_round(self, parts: dict[str, Arrays], t: int) -> None:
        """Record that round ``t`` (from 1) was decided."""
        if self.wanted:
            parts["restarts"]["round"][...] = t

    def fresh(self, parts: dict[str, Arrays], agent: Ints, t: int) -> Bools:
        """Mask, ``batch``: whether ``agent`` of round ``t`` has not been restarted since."""
        if not self.wanted:
            return np.ones(np.shape(agent), dtype=bool)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        return np.asarray(parts["restarts"]["since"][at] < t)

    def restart(self, parts: dict[str, Arrays], schemas: Mapping[str, Schema], agent: Ints, *, alarms: Bools) -> None:
        """Reset every array of the agents with an alarm to its initial value."""
        for row in map(tuple, np.argwhere(alarms)):
            self.start_afresh(parts, schemas, (*row, int(agent[row])))

    def start_afresh(self, parts: dict[str, Arrays], schemas: Mapping[str, Schema], at: tuple[int, ...]) -> None:
        """Reset every array of the agent at this place to its initial value."""
        for name, schema in schemas.items():
            if name in _KEPT:
                continue
            for key, field in schema.items():
                if field.per_agent:
                    parts[name][key][at] = field.block(())
        if self.wanted:
            parts["restarts"]["since"][at] = parts["restarts"]["round"][at[:-1]]
            parts["restarts"]["rewards"][at] = 0
            parts["restarts"]["times"][at] += 1

    def count(self, parts: dict[str, Arrays], observed: Bools) -> None:
        """Count the rewards that are learned, ``batch + (M,)``."""
        if self.wanted:
            parts["restarts"]["rewards"] += observed

    def on_probation(self, parts: dict[str, Arrays]) -> Bools | None:
        """Mask of agents with fewer than five rewards since a restart; None if there are none."""
        if not self.wanted:
            return None
        found = (parts["restarts"]["times"] > 0) & (parts["restarts"]["rewards"] < _PROBATION)
        return found if found.any() else None


def with_probation(p: Floats, new: Bools, eligible: Bools | None = None) -> Floats:
    """Limit the agents in ``new`` to a fifth of the traffic, and to an even share; the others get the rest.

    A policy may take an agent that starts afresh for the best one, and where rewards are late nothing would correct
    that for as long as they take.

    Examples
    --------
    >>> with_probation(np.array([0.9, 0.1, 0.0]), np.array([True, False, False]))
    array([0.2, 0.8, 0. ])
    """
    n = p.shape[-1] if eligible is None else np.add.reduce(eligible, axis=-1, keepdims=True, dtype=np.float64)
    return capped(p, np.where(new, np.minimum(_SHARE, 1.0 / n), 1.0), eligible)
