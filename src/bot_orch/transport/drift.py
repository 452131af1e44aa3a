"""Drift detection without rewards, for a stream of outcomes or of tasks.

A permutation test [1]_ compares the distance between the recent and the older part of a stream with the distances
between random splits of the same outcomes. Without drift all splits are equally likely, so the false-alarm probability
is at most ``alpha`` per test for every distribution.

References
----------
.. [1] Phipson, Smyth. Permutation p-values should never be zero. Stat. Appl. Genet. Mol. Biol. 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema, allocate
from bot_orch.errors import InvalidInputError
from bot_orch.rng import generator
from bot_orch.transport.geometries.base import Geometry, LinearGeometry


@dataclass(frozen=True)
class DriftMonitor:
    """Compares each block of ``recent`` new outcomes with the first ``older`` ones since the start or the last alarm.

    The older part is fixed until the next alarm, so that a lasting change is tested repeatedly.

    Parameters
    ----------
    on
        ``outcomes``: one stream per agent, of raw outcomes. ``tasks``: one stream, of embedded task distributions; the
        mean of recent embeddings is compared with the mean of older ones. To monitor tasks against
        a fixed reference, pass W(task, reference) to a monitor of ``Scalars`` outcomes.
    alpha
        Probability of a false alarm per test, that is at most ``alpha / recent`` per outcome.
    permutations
        Random splits per test; ``1 / (permutations + 1)`` must not exceed ``alpha``.
    key
        Key of the random splits; equal states give equal results.

    Examples
    --------
    >>> from bot_orch.transport import Scores
    >>> monitor = DriftMonitor(Scores(), recent=20, older=40)
    >>> state = monitor.start(n_agents=1)
    >>> alarms = [bool(monitor.update(state, 0.1 if t < 100 else 0.9, agent=0)) for t in range(200)]
    >>> alarms.index(True), sum(alarms)
    (119, 1)
    """

    geometry: Geometry
    recent: int = 32
    older: int = 96
    alpha: float = 0.01
    permutations: int = 199
    key: int = 0
    on: str = "outcomes"

    def __post_init__(self) -> None:
        if self.on not in ("outcomes", "tasks"):
            raise InvalidInputError("drift.on", f"is {self.on!r}", "pass 'outcomes' or 'tasks'")
        if min(self.recent, self.older) < 2:
            raise InvalidInputError("drift", "compares fewer than two outcomes", "pass recent and older >= 2")
        if not 1.0 / (self.permutations + 1) <= self.alpha < 1.0:
            raise InvalidInputError(
                "drift.alpha",
                f"is {self.alpha} with {self.permutations} permutations",
                "pass alpha >= 1 / (permutations + 1)",
            )

    @cached_property
    def schema(self) -> Schema:
        """State arrays: per agent for outcomes, shared for tasks."""
        shape = self.geometry.outcome_shape if self.on == "outcomes" else (self.geometry.width,)
        each = self.on == "outcomes"
        return {
            "ring": Field(per_agent=each, shape=(self.recent + self.older, *shape)),
            "seen": Field(per_agent=each, dtype="int64"),
            "tests": Field(per_agent=each, dtype="int64"),
            "alarms": Field(per_agent=each, dtype="int64"),
            "statistic": Field(per_agent=each),
            "p_value": Field(per_agent=each, fill=1.0),
        }

    def start(self, n_agents: int = 1, batch: tuple[int, ...] = ()) -> Arrays:
        """Initial state, without outcomes."""
        return allocate(self.schema, batch, n_agents)

    def update(self, state: Arrays, value: npt.ArrayLike, agent: int | npt.ArrayLike | None = None) -> Bools:
        """Add one outcome (or task embedding) per batch element in place; returns a mask of new alarms.

        An alarm resets the stream, because earlier outcomes are no longer comparable.
        """
        shape = self.schema["ring"].shape[1:]
        x = self.geometry.check_outcome(value) if self.on == "outcomes" else np.asarray(value, dtype=float)
        flat = {name: _flat(state, name, declared.shape) for name, declared in self.schema.items()}
        lead = state["seen"].shape
        if self.on == "outcomes":
            if agent is None:
                raise InvalidInputError("agent", "is missing", "say whose outcome it is")
            m, lead = lead[-1], lead[:-1]
            count = int(np.prod(lead))
            rows = np.arange(count) * m + np.broadcast_to(np.asarray(agent, dtype=np.int64), lead).reshape(-1)
        else:
            rows = np.arange(int(np.prod(lead)))
        values = np.broadcast_to(x, lead + shape).reshape(-1, *shape)
        beyond = flat["seen"][rows] - self.older  # negative while the older part fills up
        flat["ring"][rows, np.where(beyond < 0, beyond + self.older, self.older + beyond % self.recent)] = values
        flat["seen"][rows] += 1
        due = (beyond >= 0) & ((beyond + 1) % self.recent == 0)
        alarm = np.zeros(len(rows), dtype=bool)
        for position in np.flatnonzero(due):
            alarm[position] = self._test(flat, int(rows[position]))
        return alarm.reshape(lead)

    def _test(self, flat: Arrays, row: int) -> bool:
        statistic, p = self.compare(flat["ring"][row], int(flat["tests"][row]))
        flat["tests"][row] += 1
        flat["statistic"][row], flat["p_value"][row] = statistic, p
        rings = p <= self.alpha
        if rings:
            flat["alarms"][row] += 1
            flat["seen"][row] = 0
        return rings

    def compare(self, pooled: Floats, test: int = 0) -> tuple[float, float]:
        """Distance between the last ``recent`` and the other outcomes (oldest first), and its p-value."""
        n = len(pooled)
        rng = generator("drift", self.key, test)
        splits = rng.permuted(np.tile(np.arange(n), (self.permutations + 1, 1)), axis=1)
        splits[0] = np.arange(n)
        old, new = self._summaries(pooled, splits)
        w = self.geometry.distances(new[:, None, :], old)[:, 0]
        slack = 1e-12 * max(float(w[0]), 1e-300)  # tolerance for rounding errors between equal splits
        return float(w[0]), float((w >= w[0] - slack).mean())

    def _summaries(self, pooled: Floats, splits: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        older, geometry = self.older, self.geometry
        if self.on == "outcomes" and not isinstance(geometry, LinearGeometry):
            return geometry.embed_outcomes(pooled[splits[:, :older]]), geometry.embed_outcomes(
                pooled[splits[:, older:]]
            )
        features = (
            geometry.features(pooled) if isinstance(geometry, LinearGeometry) and self.on == "outcomes" else pooled
        )
        chosen = np.zeros(splits.shape)
        np.put_along_axis(chosen, splits[:, older:], 1.0, axis=1)
        new = chosen @ features / self.recent
        old = (1.0 - chosen) @ features / older
        if isinstance(geometry, LinearGeometry) and self.on == "outcomes":
            return geometry.finish(old), geometry.finish(new)
        return old, new


def _flat(state: Arrays, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    state[name] = np.asarray(state[name], order="C")  # contiguous, so that the reshape is a view
    return state[name].reshape(-1, *shape)
