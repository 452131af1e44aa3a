"""Outcome profiles of all agents: updated online, compared with a reference in one array operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, allocate, finite_rows
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry, geometry_from_spec
from bot_orch.transport.memory import Memory
from bot_orch.transport.stores import ProfileStore, store_for
from bot_orch.transport.uncertainty import Distances, confidence
from bot_orch.types import Measure


@dataclass(frozen=True)
class ProfileBank:
    """Embedded outcome distributions (profiles) of all agents.

    The bank itself holds no state: ``schema`` declares the arrays, so that :mod:`bot_orch.arrays` creates, saves,
    restores and resizes them together with the rest of an orchestrator's state.

    Parameters
    ----------
    geometry
        Metric on outcome distributions.
    memory
        Which past outcomes a profile includes.

    Examples
    --------
    >>> from bot_orch.transport import Samples, Scores
    >>> bank = ProfileBank(Scores(), Memory.window(100))
    >>> state = bank.start(n_agents=2)
    >>> for score in (0.9, 1.0, 0.8):
    ...     bank.update(state, 1, score)
    >>> found = bank.distances(state, bank.geometry.embed(Samples([0.5])))
    >>> found.value.round(3), found.n
    (array([0. , 0.4]), array([0., 3.]))
    """

    geometry: Geometry
    memory: Memory = field(default_factory=Memory.window)

    def __post_init__(self) -> None:
        _ = self._store

    @cached_property
    def _store(self) -> ProfileStore:
        return store_for(self.geometry, self.memory)

    @cached_property
    def schema(self) -> Schema:
        """State arrays: outcome counts, embeddings and the arrays of the store."""
        return {
            "seen": Field(dtype="int64"),
            "embedding": Field(shape=(self.geometry.width,)),
            **self._store.fields(),
        }

    def start(self, n_agents: int, batch: tuple[int, ...] = ()) -> Arrays:
        """Initial state, without outcomes."""
        return allocate(self.schema, batch, n_agents)

    def update(self, state: Arrays, agent: int | Ints, outcome: npt.ArrayLike, where: Bools | None = None) -> None:
        """Learn one outcome per batch element, in place.

        Parameters
        ----------
        agent
            The agent that produced it: an index, or ``(...)`` indices for a batch.
        outcome
            ``(...) + geometry.outcome_shape``.
        where
            Mask ``(...)`` of batch elements with an outcome; all by default.
        """
        raw = self.geometry.check_outcome(outcome)
        seen = state["seen"]
        if seen.ndim == 1:
            if not 0 <= agent < seen.shape[0]:
                raise InvalidInputError("agent", f"is {agent}", f"pass an index from 0 to {seen.shape[0] - 1}")
            if where is None or where:
                rows = np.array([agent], dtype=np.int64)
                self._store.push(state, rows, raw.reshape(1, *self.geometry.outcome_shape))
                seen[agent] += 1
            return
        self._update_batch(state, np.asarray(agent, dtype=np.int64), raw, where=where)

    def _update_batch(self, state: Arrays, agent: Ints, raw: Floats, *, where: Bools | None) -> None:
        batch, m = state["seen"].shape[:-1], state["seen"].shape[-1]
        agent = np.broadcast_to(agent, batch).reshape(-1)
        if ((agent < 0) | (agent >= m)).any():
            raise InvalidInputError("agent", "holds an index out of range", f"pass indices from 0 to {m - 1}")
        raw = np.broadcast_to(raw, batch + self.geometry.outcome_shape).reshape(-1, *self.geometry.outcome_shape)
        rows = np.arange(agent.size) * m + agent
        if where is not None:
            chosen = np.broadcast_to(where, batch).reshape(-1)
            rows, raw = rows[chosen], raw[chosen]
        flat: Arrays = {}
        for name, declared in self.schema.items():
            state[name] = np.asarray(state[name], order="C")  # contiguous, so that the reshape below is a view
            flat[name] = state[name].reshape(-1, *declared.shape)
        self._store.push(flat, rows, raw)
        flat["seen"][rows] += 1

    def observe(self, state: Arrays, agent: int, output: Measure) -> None:
        """Learn an observed measure: each sample or point is one outcome; a label distribution is one outcome."""
        outcomes, weights = self.geometry.outcomes_of(output)
        if np.ptp(weights) > 1e-12:
            raise InvalidInputError("outcome.output", "has unequal weights", "report its samples one by one")
        for outcome in outcomes:
            self.update(state, agent, outcome)

    def embedding(self, state: Arrays) -> Floats:
        """All profiles, ``(..., M, q)``; zeros for agents without outcomes."""
        profiles: Floats = state["embedding"]
        return profiles

    def effective(self, state: Arrays) -> Floats:
        """Effective sample sizes ``(..., M)``."""
        return self.memory.effective(state["seen"])

    def distances(
        self,
        state: Arrays,
        reference: Floats,
        *,
        profiles: Mapping[int, Measure] | Floats | None = None,
        level: float = 0.90,
    ) -> Distances:
        """W of every agent to a common reference ``(..., q)`` or to its own ``(..., M, q)``, with uncertainty.

        An agent whose own reference is NaN is treated as one without outcomes.

        Parameters
        ----------
        profiles
            Distributions known in advance: measures by agent, or embeddings ``(..., M, q)`` with NaN rows where
            unknown. They replace learned profiles and have no sampling error.
        level
            See :func:`bot_orch.transport.uncertainty.confidence`.
        """
        bank, n = self.embedding(state), self.effective(state)
        if isinstance(profiles, np.ndarray):
            given = finite_rows(profiles)
            bank, n = np.where(given[..., None], profiles, bank), np.where(given, np.inf, n)
        elif profiles:
            bank, n = bank.copy(), n.copy()
            for index, measure in profiles.items():
                bank[..., index, :] = self.geometry.embed(measure)
                n[..., index] = np.inf
        if reference.ndim < bank.ndim:
            return confidence(self.geometry, bank, reference, n, level=level)
        judged: Bools = finite_rows(reference)
        own, n = np.where(judged[..., None], reference, bank), np.where(judged, n, 0.0)
        found = confidence(self.geometry, bank[..., None, :], own, n[..., None], level=level)
        return Distances(*(getattr(found, field.name)[..., 0] for field in fields(found)))

    def spec(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"geometry": self.geometry.spec(), "memory": self.memory.spec()}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        return cls(geometry_from_spec(document["geometry"]), Memory.from_spec(document["memory"]))
