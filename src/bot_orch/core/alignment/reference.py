"""Sources of the reference distribution nu_t of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, finite_rows
from bot_orch.checks import check_number, check_text
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.geometries.base import Geometry, LinearGeometry, QuantileGeometry
from bot_orch.transport.measures import measure_from_dict
from bot_orch.transport.memory import Memory
from bot_orch.transport.reference import Barycenter
from bot_orch.types import Measure

ReferenceSource = Literal["task", "fixed", "tasks", "accepted", "agent"]
_SOURCES: tuple[ReferenceSource, ...] = ("task", "fixed", "tasks", "accepted", "agent")
_FEW, _ENOUGH = 10.0, 10.0


@dataclass(frozen=True, slots=True)
class Reference:
    """Source of references. No source needs the answer to the current task.

    Parameters
    ----------
    source
        ``task``: each task has its own (a task without one has no alignment cost). ``fixed``: one measure for
        all, such as a calibration set. ``tasks``: the Wasserstein barycenter of all task references so far.
        ``accepted``: outputs with reward at least ``threshold``. An agent is compared with the mean profile of the
        others, so that an agent favoured by the judge does not define its own reference (with all outputs together if
        embeddings cannot be averaged). ``agent``: the pooled outputs of one trusted agent.
    memory
        Memory of a learned reference: everything, a window, or exponentially decaying weights.
    """

    source: ReferenceSource = "task"
    memory: Memory = field(default_factory=Memory.everything)
    measure: Measure | None = None
    threshold: float = 0.5
    agent: str | None = None

    def __post_init__(self) -> None:
        if self.source not in _SOURCES:
            raise InvalidInputError("reference.source", f"is {self.source!r}", f"pass one of {', '.join(_SOURCES)}")
        require_type("reference.memory", self.memory, Memory, "pass a Memory, such as Memory.window(100)")
        if self.measure is not None:
            require_type(
                "reference.measure", self.measure, Measure, "pass a measure: Labels, Samples, Cloud or Gaussian"
            )
        if self.agent is not None:
            check_text("reference.agent", self.agent, "pass the name of an agent")
        check_number("reference.threshold", self.threshold, "pass the least reward of an accepted output")
        if (self.source == "fixed") != (self.measure is not None):
            raise InvalidInputError("reference.measure", "goes with source 'fixed'", "pass both or neither")
        if (self.source == "agent") != (self.agent is not None):
            raise InvalidInputError("reference.agent", "goes with source 'agent'", "pass both or neither")

    def schema(self, geometry: Geometry) -> Schema:
        """State arrays of the barycenter for source ``tasks``, shared by all agents; empty otherwise."""
        if self.source == "tasks":
            return Barycenter(geometry, self.memory).schema
        return {}

    def pool(self, geometry: Geometry) -> ProfileBank | None:
        """Profile store for the sources ``accepted`` and ``agent``; None otherwise."""
        return ProfileBank(geometry, self.memory) if self.source in ("accepted", "agent") else None

    def pool_schema(self, geometry: Geometry) -> Schema:
        """State arrays of the pool: one profile per agent, or one shared profile."""
        pool = self.pool(geometry)
        if pool is None:
            return {}
        return pool.schema if self.by_agent(geometry) else _shared(pool.schema)

    def by_agent(self, geometry: Geometry) -> bool:
        """Whether every agent has its own reference: the mean of the other agents' profiles."""
        return self.source == "accepted" and isinstance(geometry, LinearGeometry | QuantileGeometry)

    def see_task(self, geometry: Geometry, state: Arrays, given: Floats | None) -> None:
        """Learn the embedded references ``batch + (q,)`` of new tasks; NaN rows are tasks without one."""
        if self.source == "tasks" and given is not None:
            Barycenter(geometry, self.memory).update(state, given, where=finite_rows(given))

    def see_output(
        self, geometry: Geometry, pooled: Arrays, names: Sequence[str], *, agent: Ints, raw: Floats, reward: Floats
    ) -> None:
        """Learn one outcome per batch element with its reward; NaN rows are missing."""
        pool = self.pool(geometry)
        if pool is None:
            return
        if self.source == "agent":
            wanted = np.asarray(names) == self.agent
            wanted = wanted[agent]
        else:
            wanted = np.asarray(reward) >= self.threshold  # False where there is no reward
        shown = np.isfinite(raw).reshape(*np.shape(agent), -1).all(axis=-1) & wanted
        if shown.any():
            row = agent if self.by_agent(geometry) else np.zeros_like(agent)
            pool.update(pooled, row, fill_missing(geometry, raw, shown), shown)

    def embedding(self, geometry: Geometry, state: Arrays, pooled: Arrays, *, given: Floats | None) -> Floats | None:
        """Embedded reference ``batch + (q,)``, or one per agent ``batch + (M, q)``; None without one.

        Rows are NaN for tasks without a reference and for agents without enough data of the others.
        """
        if self.source == "fixed":
            return None if self.measure is None else geometry.embed(self.measure)
        if self.source == "task":
            return given
        if self.source == "tasks":
            return self._barycenter(geometry, state)
        pool = self.pool(geometry)
        if pool is None:
            return None
        enough = np.add.reduce(pooled["seen"], axis=-1) >= 2
        if not enough.any():
            return None
        if self.by_agent(geometry):
            found = leave_one_out_mean(pool.embedding(pooled), pool.effective(pooled))
            return np.where(np.asarray(enough)[..., None, None], found, np.nan)
        return np.where(np.asarray(enough)[..., None], pool.embedding(pooled)[..., 0, :], np.nan)

    def _barycenter(self, geometry: Geometry, state: Arrays) -> Floats | None:
        learned = Barycenter(geometry, self.memory)
        seen = state["seen"] > 0
        if seen.all():
            return learned.embedding(state)
        if not seen.any():
            return None
        found = np.full((*seen.shape, geometry.width), np.nan)
        found[seen] = learned.embedding({name: array[seen] for name, array in state.items()})
        return found

    def spec(self) -> dict[str, Any]:
        """JSON values; :meth:`from_spec` is the inverse."""
        measure = None if self.measure is None else self.measure.to_dict()
        rest = {"threshold": self.threshold, "agent": self.agent}
        return {"source": self.source, "memory": self.memory.spec(), "measure": measure, **rest}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        check_spec("reference", document, ("source", "memory", "measure", "threshold", "agent"))
        measure = document["measure"]
        return cls(
            document["source"],
            Memory.from_spec(document["memory"]),
            None if measure is None else measure_from_dict(measure),
            document["threshold"],
            document["agent"],
        )


def check_spec(name: str, document: Any, keys: Sequence[str]) -> None:
    """Refuse a document that is not a specification with these keys."""
    require_type(name, document, Mapping, "pass what spec() returned")
    missing = [key for key in keys if key not in document]
    if missing:
        raise InvalidInputError(name, f"lacks {missing}", "pass what spec() returned")


def leave_one_out_mean(profiles: Floats, n: Floats) -> Floats:
    """Leave-one-out mean ``(..., M, q)``: for every agent the barycenter of the other agents' profiles.

    A profile of n outcomes has weight n / (n + 10). NaN while the others have fewer than ten outcomes in total.

    Examples
    --------
    >>> leave_one_out_mean(np.array([[0.0], [1.0], [9.0]]), np.array([30.0, 9.0, 0.0])).round(2).T
    array([[ nan, 0.  , 0.39]])
    """
    weight = n / (n + _FEW)
    total = np.add.reduce(weight, axis=-1, keepdims=True) - weight
    summed = np.add.reduce(weight[..., None] * profiles, axis=-2, keepdims=True) - weight[..., None] * profiles
    enough = np.add.reduce(n, axis=-1, keepdims=True) - n >= _ENOUGH
    return np.where(enough[..., None], summed / np.where(enough, total, 1.0)[..., None], np.nan)


def fill_missing(geometry: Geometry, raw: Floats, shown: Bools) -> Floats:
    """Replace missing outcomes by a valid placeholder; the caller masks them out later."""
    if shown.all():
        return raw
    first = raw[shown][0]
    return np.where(shown.reshape(shown.shape + (1,) * len(geometry.outcome_shape)), raw, first)


def _shared(schema: Schema) -> Schema:
    return {name: replace(f, per_agent=False, shape=(1, *f.shape)) for name, f in schema.items()}
