"""Online Kaplan-Meier and Aalen-Johansen estimators in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.survival.base import Observations
from bot_orch.survival.causes import N_CAUSES
from bot_orch.survival.models.kaplan_meier import LifeTable, StepSurvival, completion_survival
from bot_orch.survival.online.base import AgentIndex, OnlineFit

__all__ = ["OnlineKaplanMeier"]


@dataclass(frozen=True, slots=True)
class OnlineKaplanMeier(OnlineFit[StepSurvival]):
    """A sorted table of exit times per agent; exact until it holds ``capacity`` distinct times.

    When full, the two neighbouring times with the smallest mass times relative gap are merged at their mean time.
    Merging neighbours without a censoring between them moves the drops of the curve but keeps their size, so the curve
    stays close to the exact one (measured in the tests). An outcome costs one pass over the table.

    The ``event`` of :meth:`update` may be a code of :class:`~bot_orch.survival.causes.Cause` instead of a boolean.
    Before any outcome S = 1 everywhere.

    Examples
    --------
    >>> fit = OnlineKaplanMeier(capacity=8)
    >>> state = fit.init((), 1)
    >>> for t, event in [(3.0, True), (1.0, True), (2.0, False)]:
    ...     fit.update(state, t, event, agent=0)
    >>> fit.model(state).survival(1.0).round(3)
    array([0.667])
    """

    capacity: int = 256

    @property
    def schema(self) -> Schema:
        """Times in increasing order, and the number of exits per cause."""
        return {
            "times_s": Field(shape=(self.capacity,), fill=float("inf")),
            "exits": Field(shape=(self.capacity, N_CAUSES + 1)),
        }

    def _add(self, state: Arrays, at: AgentIndex, data: Observations, cause: npt.ArrayLike) -> None:
        times, exits = state["times_s"][at], state["exits"][at]
        lead = times.shape[:-1]
        t, w = (np.broadcast_to(part, lead).reshape(-1) for part in (data.t_s, data.weights))
        code = np.broadcast_to(np.asarray(cause).astype(np.int64), lead).reshape(-1)
        flat = (times.reshape(-1, self.capacity).copy(), exits.reshape(-1, *exits.shape[-2:]).copy())
        _insert(*flat, t, code, w)
        state["times_s"][at] = flat[0].reshape(times.shape)
        state["exits"][at] = flat[1].reshape(exits.shape)

    def table(self, state: Arrays) -> LifeTable:
        """The life table of every agent."""
        exits = state["exits"]
        at_risk = np.cumsum(exits.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1]
        return LifeTable(state["times_s"], at_risk, exits)

    def model(self, state: Arrays) -> StepSurvival:
        """P(not completed by t) of every agent; Kaplan-Meier where nothing failed, Aalen-Johansen where some did."""
        return completion_survival(self.table(state))


def _insert(times: Floats, exits: Floats, t: Floats, code: npt.NDArray[np.int64], w: Floats) -> None:
    """Insert one exit into every row of sorted tables, in place."""
    rows, capacity = np.arange(t.size), times.shape[-1]

    def known() -> Bools:
        return np.asarray(np.any(times == t[:, None], axis=-1) | (w <= 0))

    full = np.isfinite(times[:, -1]) & ~known()
    if full.any():
        times[full], exits[full] = _merged(times[full], exits[full])
    position = np.sum(times < t[:, None], axis=-1)
    new = ~known()
    column = np.arange(capacity)
    source = np.where(new[:, None] & (column > position[:, None]), column - 1, column)
    times[:] = np.take_along_axis(times, source, axis=-1)
    exits[:] = np.take_along_axis(exits, source[..., None], axis=1)
    times[rows[new], position[new]] = t[new]
    exits[rows[new], position[new]] = 0.0
    heavy = w > 0
    exits[rows[heavy], position[heavy], code[heavy]] += w[heavy]


def _merged(times: Floats, exits: Floats) -> tuple[Floats, Floats]:
    """Full tables with their two closest neighbours merged, and a free slot at the end."""
    rows = np.arange(len(times))
    mass = exits.sum(axis=-1)
    gap = np.diff(times, axis=-1) / times[:, 1:]
    j = np.argmin((mass[:, 1:] + mass[:, :-1]) * gap, axis=-1)
    weight = mass[rows, j] / (mass[rows, j] + mass[rows, j + 1])
    times, exits = times.copy(), exits.copy()
    times[rows, j] = weight * times[rows, j] + (1 - weight) * times[rows, j + 1]
    exits[rows, j] += exits[rows, j + 1]
    column = np.arange(times.shape[-1])
    source = np.minimum(np.where(column > j[:, None], column + 1, column), times.shape[-1] - 1)
    times, exits = np.take_along_axis(times, source, axis=-1), np.take_along_axis(exits, source[..., None], axis=1)
    times[:, -1], exits[:, -1] = np.inf, 0.0
    return times, exits
