"""Starting an agent afresh after a drift alarm: what was learned about it is dropped, and so are late rewards.

The restart follows from the outcomes alone, so a fold of the log repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Ints, Schema

__all__ = ["OnAlarm", "Restarts"]

OnAlarm = Literal["count", "restart"]
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
    >>> Restarts(True).pass_round(parts, 7)
    >>> Restarts(True).restart(parts, schemas, np.array(1), np.array(True))
    >>> parts["policy"]["mean"], Restarts(True).fresh(parts, np.array(1), 7), Restarts(True).fresh(parts, np.array(1), 8)
    (array([0.9, 0.5]), array(False), array(True))
    """

    wanted: bool = False

    @property
    def schema(self) -> Schema:
        """The current round; per agent, the round of the last restart and the number of restarts."""
        if not self.wanted:
            return {}
        whole = Field(dtype="int64")
        return {"round": Field(per_agent=False, dtype="int64"), "since": whole, "times": whole}

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

    def restart(
        self, parts: dict[str, Arrays], schemas: Mapping[str, Schema], agent: Ints, alarms: Bools
    ) -> None:
        """Set every array of the agents with an alarm to its initial value, as for an agent that is new."""
        for row in map(tuple, np.argwhere(alarms)):
            at = (*row, int(agent[row]))
            for name, schema in schemas.items():
                if name in _KEPT:
                    continue
                for key, field in schema.items():
                    if field.per_agent:
                        parts[name][key][at] = field.block(())
            parts["restarts"]["since"][at] = parts["restarts"]["round"][row]
            parts["restarts"]["times"][at] += 1
