"""nu_t: where the reference of a task comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from bot_orch.arrays import Arrays, Floats, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.geometry import Geometry, LinearGeometry, QuantileGeometry
from bot_orch.transport.measures import measure_from_dict
from bot_orch.transport.memory import Memory
from bot_orch.transport.reference import Barycenter
from bot_orch.types import Measure

__all__ = ["Reference", "ReferenceSource", "others_say"]

ReferenceSource = Literal["task", "fixed", "tasks", "accepted", "agent"]
_SOURCES: tuple[ReferenceSource, ...] = ("task", "fixed", "tasks", "accepted", "agent")
_FEW, _ENOUGH = 10.0, 10.0


@dataclass(frozen=True, slots=True)
class Reference:
    """Where references come from. None of the sources needs the answer of the current task.

    Parameters
    ----------
    source
        ``task``: each task brings its own (a task without one has no alignment cost). ``fixed``: one measure for
        all, such as a calibration set. ``tasks``: the Wasserstein barycenter of the references that tasks brought.
        ``accepted``: outputs whose reward reached ``threshold``. An agent is measured against those of the others, all
        with the same say, so that one that wins the judge too often does not set its own standard (where embeddings
        cannot be averaged, against all outputs alike). ``agent``: the pooled outputs of one trusted agent.
    memory
        What a learned reference remembers: everything, a window, or the past with fading weight.
    """

    source: ReferenceSource = "task"
    memory: Memory = field(default_factory=Memory.everything)
    measure: Measure | None = None
    threshold: float = 0.5
    agent: str | None = None

    def __post_init__(self) -> None:
        if self.source not in _SOURCES:
            raise InvalidInputError("reference.source", f"is {self.source!r}", f"pass one of {', '.join(_SOURCES)}")
        if (self.source == "fixed") != (self.measure is not None):
            raise InvalidInputError("reference.measure", "goes with source 'fixed'", "pass both or neither")
        if (self.source == "agent") != (self.agent is not None):
            raise InvalidInputError("reference.agent", "goes with source 'agent'", "pass both or neither")

    def schema(self, geometry: Geometry) -> Schema:
        """State arrays of a learned reference; none otherwise. They are shared, not per agent."""
        if self.source == "tasks":
            return Barycenter(geometry, self.memory).schema
        return {}

    def pool(self, geometry: Geometry) -> ProfileBank | None:
        """The profiles behind ``accepted`` and ``agent``."""
        return ProfileBank(geometry, self.memory) if self.source in ("accepted", "agent") else None

    def pool_schema(self, geometry: Geometry) -> Schema:
        """State arrays of the pool: one profile per agent, or one that agents coming and going do not touch."""
        pool = self.pool(geometry)
        if pool is None:
            return {}
        return pool.schema if self._by_agent(geometry) else _shared(pool.schema)

    def _by_agent(self, geometry: Geometry) -> bool:
        return self.source == "accepted" and isinstance(geometry, LinearGeometry | QuantileGeometry)

    def see_task(self, geometry: Geometry, state: Arrays, given: Measure | None) -> None:
        """A task arrived."""
        if self.source == "tasks" and given is not None:
            Barycenter(geometry, self.memory).update(state, given)

    def see_output(
        self, geometry: Geometry, pooled: Arrays, agent: str, index: int, output: Measure, reward: float | None
    ) -> None:
        """An outcome of an agent and its index arrived."""
        pool = self.pool(geometry)
        if pool is None:
            return
        wanted = agent == self.agent if self.source == "agent" else reward is not None and reward >= self.threshold
        if wanted:
            pool.observe(pooled, index if self._by_agent(geometry) else 0, output)

    def embedding(self, geometry: Geometry, state: Arrays, pooled: Arrays, given: Measure | None) -> Floats | None:
        """The reference for this task, embedded, ``(q,)``, or one for each agent, ``(M, q)``; None while there is none.

        Rows of agents that cannot be judged yet are NaN.
        """
        if self.source == "fixed":
            return geometry.embed(self.measure) if self.measure is not None else None
        if self.source == "task":
            return None if given is None else geometry.embed(given)
        if self.source == "tasks":
            return Barycenter(geometry, self.memory).embedding(state) if int(state["seen"]) else None
        pool = self.pool(geometry)
        if pool is None or int(np.add.reduce(pooled["seen"])) < 2:
            return None
        if self._by_agent(geometry):
            return others_say(pool.embedding(pooled), pool.effective(pooled))
        row: Floats = pool.embedding(pooled)[0]
        return row

    def spec(self) -> dict[str, Any]:
        """Plain JSON values."""
        measure = None if self.measure is None else self.measure.to_dict()
        rest = {"threshold": self.threshold, "agent": self.agent}
        return {"source": self.source, "memory": self.memory.spec(), "measure": measure, **rest}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        measure = document["measure"]
        return cls(
            document["source"],
            Memory.from_spec(document["memory"]),
            None if measure is None else measure_from_dict(measure),
            document["threshold"],
            document["agent"],
        )


def others_say(profiles: Floats, n: Floats) -> Floats:
    """For every agent the mean ``(..., M, q)`` of the others' profiles, a barycenter; who has few outcomes counts less.

    NaN while the others have fewer than ten outcomes together.

    Examples
    --------
    >>> others_say(np.array([[0.0], [1.0], [9.0]]), np.array([30.0, 9.0, 0.0])).round(2).T
    array([[ nan, 0.  , 0.39]])
    """
    weight = n / (n + _FEW)
    total = np.add.reduce(weight, axis=-1, keepdims=True) - weight
    summed = np.add.reduce(weight[..., None] * profiles, axis=-2, keepdims=True) - weight[..., None] * profiles
    enough = np.add.reduce(n, axis=-1, keepdims=True) - n >= _ENOUGH
    return np.where(enough[..., None], summed / np.where(enough, total, 1.0)[..., None], np.nan)


def _shared(schema: Schema) -> Schema:
    return {name: replace(f, per_agent=False, shape=(1, *f.shape)) for name, f in schema.items()}
