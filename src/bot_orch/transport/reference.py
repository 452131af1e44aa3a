"""References learned from tasks: global, sliding-window and exponentially weighted barycenters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema, allocate
from bot_orch.errors import InvalidInputError
from bot_orch.transport.barycenters import barycenter, rule, simplex_median, weighted_median
from bot_orch.transport.geometries.base import Geometry, geometry_from_spec
from bot_orch.transport.memory import Memory
from bot_orch.transport.stores import age_weights, digest_push
from bot_orch.types import Measure


@dataclass(frozen=True)
class Barycenter:
    """The barycenter of the task distributions observed so far.

    ``Memory.everything()`` gives the global barycenter, ``Memory.window(n)`` that of the last n tasks,
    ``Memory.fading(half_life)`` the exponentially weighted one. The online result equals
    :func:`~bot_orch.transport.barycenters.barycenter` of the same measures, except that a global *median* keeps at most
    ``memory.size`` support points per coordinate, and a fading one drops all but the last ``memory.size`` tasks.

    Examples
    --------
    >>> from bot_orch.transport import Samples, Scalars
    >>> reference = Barycenter(Scalars(order=2), Memory.everything())
    >>> state = reference.start()
    >>> for place in (0.0, 1.0, 5.0):
    ...     reference.update(state, Samples([place]))
    >>> np.allclose(reference.embedding(state), reference.geometry.embed(Samples([2.0])))
    True
    """

    geometry: Geometry
    memory: Memory = field(default_factory=Memory.everything)

    def __post_init__(self) -> None:
        if self.keeps == "digest" and rule(self.geometry) not in ("median", "simplex"):
            raise InvalidInputError(
                "memory",
                f"cannot be 'all' for a barycenter under {self.geometry.name}",
                "use a window, or fading memory",
            )

    @property
    def keeps(self) -> str:
        """Storage: a ``sum`` of embeddings, a ``ring`` of tasks, or a quantile ``digest``."""
        if rule(self.geometry) == "mean":
            return "sum" if self.memory.mode != "window" else "ring"
        return "digest" if self.memory.mode == "all" else "ring"

    @cached_property
    def schema(self) -> Schema:
        """State arrays; none is per agent."""
        q, size = self.geometry.width, self.memory.size
        shared = {"seen": Field(per_agent=False, dtype="int64")}
        if self.keeps == "sum":
            return {**shared, "total": Field(per_agent=False, shape=(q,))}
        if self.keeps == "ring":
            return {**shared, "ring": Field(per_agent=False, shape=(size, q))}
        return {
            **shared,
            "points": Field(per_agent=False, shape=(q, size), fill=np.inf),
            "weights": Field(per_agent=False, shape=(q, size)),
        }

    def start(self, batch: tuple[int, ...] = ()) -> Arrays:
        """Initial state, without tasks."""
        return allocate(self.schema, batch, 0)

    def update(self, state: Arrays, task: Measure | Floats, where: Bools | None = None) -> None:
        """Add a task's distribution in place: a measure, or embeddings ``(..., q)`` for a batch.

        ``where`` is the mask of batch elements with a task; all by default.
        """
        e = task if isinstance(task, np.ndarray) else self.geometry.embed(task)
        seen = state["seen"]
        e = np.broadcast_to(e, (*seen.shape, self.geometry.width))
        if where is not None and not where.any():
            return
        if where is not None and not where.all():
            rows = np.broadcast_to(where, seen.shape)
            part = {name: array[rows] for name, array in state.items()}
            self.update(part, e[rows])
            for name, array in part.items():
                state[name][rows] = array
            return
        if self.keeps == "sum":
            state["total"] = state["total"] * self.memory.factor + e
        elif self.keeps == "ring":
            place = (seen % self.memory.size)[..., None, None]
            np.put_along_axis(state["ring"], place, e[..., None, :], axis=-2)
        else:
            state["points"], state["weights"], _ = digest_push(state["points"], state["weights"], e, factor=1.0)
        state["seen"] = seen + 1

    def embedding(self, state: Arrays) -> Floats:
        """Embedding ``(..., q)`` of the barycenter; raises an error before the first task."""
        seen, q = state["seen"], self.geometry.width
        if (seen == 0).any():
            raise InvalidInputError("reference", "has seen no task yet", "give the first task a reference")
        if self.keeps == "sum":
            mean: Floats = state["total"] / self.memory.mass(seen)[..., None]
            return mean
        if self.keeps == "digest" and rule(self.geometry) == "median":
            return weighted_median(state["points"], state["weights"])
        out = np.empty((int(np.prod(seen.shape)), q))
        for row in range(len(out)):
            out[row] = self._solve(state, row)
        return out.reshape(*seen.shape, q)

    def _solve(self, state: Arrays, row: int) -> Floats:
        q, size = self.geometry.width, self.memory.size
        if self.keeps == "digest":
            points, weights = state["points"].reshape(-1, q, size)[row], state["weights"].reshape(-1, q, size)[row]
            return 0.5 * simplex_median(2.0 * points, weights)
        weights = age_weights(state["seen"].reshape(-1)[row], size, self.memory)
        ring = state["ring"].reshape(-1, size, q)[row]
        return barycenter(self.geometry, ring[weights > 0], weights[weights > 0])

    def spec(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"geometry": self.geometry.spec(), "memory": self.memory.spec()}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        return cls(geometry_from_spec(document["geometry"]), Memory.from_spec(document["memory"]))
