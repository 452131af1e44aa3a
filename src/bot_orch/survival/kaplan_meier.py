"""Life tables and their estimators: Kaplan-Meier and, with competing failures, Aalen-Johansen.

A life table lists the distinct exit times, the number of exits per cause, and the number at risk just before. Ties
follow the usual convention: events come before censorings at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, allocate
from bot_orch.errors import InvalidInputError
from bot_orch.survival.causes import N_CAUSES, Cause
from bot_orch.survival.models import SurvivalModel


def number_at_risk(leaving: Floats) -> Floats:
    """The number still under observation just before each time, from those that leave at it (last axis)."""
    return np.asarray(np.cumsum(leaving[..., ::-1], axis=-1)[..., ::-1])


def hazard_of(events: Floats, at_risk: Floats) -> Floats:
    """The discrete hazard: events per number at risk; zero where nothing is at risk."""
    out = np.zeros(np.broadcast(events, at_risk).shape)
    return np.divide(events, at_risk, out=out, where=at_risk > 0.0)


def product_limit(*hazards: Floats) -> Floats:
    """P(no event by each time) from the discrete hazards of competing causes, with 1 at time 0 in front.

    Examples
    --------
    >>> product_limit(np.array([0.5, 0.0]), np.array([0.0, 0.5]))
    array([1.  , 0.5 , 0.25])
    """
    left = 1.0 - hazards[0]
    for hazard in hazards[1:]:
        left = left - hazard
    running = np.ones((*left.shape[:-1], left.shape[-1] + 1))
    np.cumprod(np.maximum(left, 0.0), axis=-1, out=running[..., 1:])
    return running


def incidence(running: Floats, hazard: Floats) -> Floats:
    """Cumulative incidence of one cause [1]_, with 0 at time 0 in front; ``running`` is that of all causes.

    References
    ----------
    .. [1] Aalen, Johansen. An empirical transition matrix for nonhomogeneous Markov chains. Scand. J. Stat. 5, 1978.
    """
    total = np.zeros(running.shape)
    np.cumsum(running[..., :-1] * hazard, axis=-1, out=total[..., 1:])
    return total


@dataclass(frozen=True, slots=True, eq=False)
class StepSurvival(SurvivalModel):
    """A step function: ``S(t) = levels[j]`` from ``times_s[j]`` on.

    Shorter rows are padded with infinite times. After the last drop the level is constant: a positive level
    is the estimated probability of never finishing.

    Examples
    --------
    >>> model = StepSurvival([1.0, 3.0], [0.5, 0.25])
    >>> model.survival([0.0, 1.0, 2.9, 3.0, 100.0])
    array([1.  , 0.5 , 0.5 , 0.25, 0.25])
    >>> model.quantile([0.5, 0.6, 0.9])
    array([ 1.,  3., inf])
    """

    times_s: Floats
    levels: Floats
    own_axes: ClassVar[Mapping[str, int]] = {"times_s": 1, "levels": 1}

    def __init__(self, times_s: npt.ArrayLike, levels: npt.ArrayLike) -> None:
        object.__setattr__(self, "times_s", np.asarray(times_s, dtype=float))
        object.__setattr__(self, "levels", np.asarray(levels, dtype=float))

    def survival(self, t_s: npt.ArrayLike) -> Floats:
        """The level of the last drop at or before ``t``."""
        drops = self._drops(np.asarray(t_s, dtype=float))
        levels = np.concatenate([np.ones((*self.levels.shape[:-1], 1)), self.levels], axis=-1)
        lead = np.broadcast_shapes(levels.shape[:-1], drops.shape)
        drops = np.minimum(np.broadcast_to(drops, lead), levels.shape[-1] - 1)
        levels = np.broadcast_to(levels, (*lead, levels.shape[-1]))
        return np.take_along_axis(levels, drops[..., None], axis=-1)[..., 0]

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """-log S(t)."""
        with np.errstate(divide="ignore"):
            return -np.log(self.survival(t_s))

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """The first drop to a level of at most exp(-H); zero for H = 0."""
        h = np.asarray(cumulative_hazard, dtype=float)
        goal = np.exp(-h)[..., None]
        last = np.concatenate([self.times_s, np.full((*self.times_s.shape[:-1], 1), np.inf)], axis=-1)
        # Levels fall, so the number of levels above the goal is the position of the first one that is not.
        position = np.sum(self.levels > goal * (1 + 1e-12), axis=-1)
        last = np.broadcast_to(last, (*position.shape, last.shape[-1]))
        first = np.take_along_axis(last, position[..., None], axis=-1)[..., 0]
        return np.where(h <= 0, 0.0, first)

    def _drops(self, t: Floats) -> Ints:
        if self.times_s.ndim == 1:
            return np.asarray(np.searchsorted(self.times_s, t, side="right"), dtype=np.int64)
        return np.asarray(np.sum(self.times_s <= t[..., None], axis=-1), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class LifeTable:
    """Exits by time and cause, with the numbers at risk.

    Parameters
    ----------
    times_s
        Distinct times, increasing on the last axis, padded with ``inf``.
    exits
        Number of exits at each time, per :class:`~bot_orch.survival.causes.Cause` on the last axis.
    """

    times_s: Floats
    exits: Floats

    @property
    def at_risk(self) -> Floats:
        """The number still under observation just before each time."""
        return number_at_risk(self.exits.sum(axis=-1))

    def hazard(self, causes: Iterable[int]) -> Floats:
        """The discrete hazard of any of these causes at each time."""
        return hazard_of(self.exits[..., list(causes)].sum(axis=-1), self.at_risk)


def life_table(t_s: npt.ArrayLike, cause: npt.ArrayLike) -> LifeTable:
    """Tabulate times on the last axis; a boolean ``cause`` means completed or censored.

    Examples
    --------
    >>> table = life_table([2.0, 1.0, 2.0, 5.0], [1, 1, 0, 0])
    >>> table.times_s, table.at_risk
    (array([1., 2., 5.]), array([4., 3., 1.]))
    """
    t, codes = _checked(t_s, cause)
    order = np.argsort(t, axis=-1, kind="stable")
    t, codes = np.take_along_axis(t, order, axis=-1), np.take_along_axis(codes, order, axis=-1)
    lead, n = t.shape[:-1], t.shape[-1]
    group = np.cumsum(np.diff(t, axis=-1, prepend=-np.inf) > 0, axis=-1) - 1 if n else np.zeros(t.shape, dtype=int)
    size = int(group.max()) + 1 if group.size else 0
    rows = np.indices((*lead, n))[:-1]
    times, exits = np.full((*lead, size), np.inf), np.zeros((*lead, size, N_CAUSES + 1))
    times[(*rows, group)] = t
    np.add.at(exits, (*rows, group, codes), 1.0)
    return LifeTable(times, exits)


def kaplan_meier(table: LifeTable, causes: Iterable[int] = (Cause.COMPLETED,)) -> StepSurvival:
    """Kaplan-Meier [1]_ with the given causes as events and every other exit as censoring.

    With one cause among several this is the cause-specific estimate: the share still running if the
    other causes did not exist. For the share not *completed* despite failures use :func:`completion_survival`.

    References
    ----------
    .. [1] Kaplan, Meier. Nonparametric estimation from incomplete observations. JASA 53, 1958.

    Examples
    --------
    >>> kaplan_meier(life_table([1.0, 2.0, 3.0], [1, 0, 1])).survival([1.0, 2.0, 3.0]).round(3)
    array([0.667, 0.667, 0.   ])
    """
    return StepSurvival(table.times_s, product_limit(table.hazard(causes))[..., 1:])


def completion_survival(table: LifeTable) -> StepSurvival:
    """P(T > t) with T = inf for a failed task: one minus the cumulative incidence of completion.

    Without failures it is Kaplan-Meier.

    Examples
    --------
    >>> completion_survival(life_table([1.0, 2.0], [Cause.CRASHED, Cause.COMPLETED])).survival([1.0, 2.0, 99.0])
    array([1. , 0.5, 0.5])
    """
    completion, failure = table.hazard((Cause.COMPLETED,)), table.hazard(range(Cause.COMPLETED + 1, N_CAUSES + 1))
    completed = incidence(product_limit(completion, failure), completion)
    return StepSurvival(table.times_s, np.clip(1 - completed[..., 1:], 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class OnlineKaplanMeier:
    """A sorted table of exit times per agent; exact until it holds ``capacity`` distinct times.

    When full, the two neighbouring times with the smallest mass times relative gap are merged at their mean time.
    Merging neighbours without a censoring between them moves the drops of the curve but keeps their size, so the curve
    stays close to the exact one (measured in the tests). An outcome costs one pass over the table.

    State is a dictionary of arrays declared by a schema (:mod:`bot_orch.arrays`), of shape ``batch + (M,) + own``. It
    can be saved, and an agent added or removed. Before any outcome S = 1 everywhere.

    Examples
    --------
    >>> fit = OnlineKaplanMeier(capacity=8)
    >>> state = fit.init((), 1)
    >>> for t, cause in [(3.0, Cause.COMPLETED), (1.0, Cause.COMPLETED), (2.0, Cause.CENSORED)]:
    ...     fit.update(state, t, cause, agent=0)
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

    def init(self, batch: tuple[int, ...], n_agents: int) -> Arrays:
        """Initial state, without outcomes."""
        return allocate(self.schema, batch, n_agents)

    def update(self, state: Arrays, t_s: npt.ArrayLike, cause: npt.ArrayLike, agent: npt.ArrayLike) -> None:
        """Add one outcome per batch row, in place; a boolean ``cause`` means completed or censored."""
        lead = state["times_s"].shape[:-1]
        chosen = np.asarray(agent, dtype=np.int64)
        if np.any(chosen < 0) or np.any(chosen >= lead[-1]):
            raise InvalidInputError("agent", f"is not one of the {lead[-1]} agents", "pass an index from 0")
        at = (*np.indices(lead[:-1]), np.broadcast_to(chosen, lead[:-1]))
        t, code = _checked(np.broadcast_to(t_s, lead[:-1]), cause)
        times, exits = state["times_s"][at], state["exits"][at]
        flat = (times.reshape(-1, self.capacity).copy(), exits.reshape(-1, *exits.shape[-2:]).copy())
        _insert(*flat, t.reshape(-1), code.reshape(-1))
        state["times_s"][at] = flat[0].reshape(times.shape)
        state["exits"][at] = flat[1].reshape(exits.shape)

    def table(self, state: Arrays) -> LifeTable:
        """The life table of every agent."""
        return LifeTable(state["times_s"], state["exits"])

    def model(self, state: Arrays) -> StepSurvival:
        """P(not completed by t) of every agent; Kaplan-Meier where nothing failed, Aalen-Johansen where some did."""
        return completion_survival(self.table(state))


def _checked(t_s: npt.ArrayLike, cause: npt.ArrayLike) -> tuple[Floats, Ints]:
    """Times and codes of causes, validated and broadcast to a common shape."""
    t, codes = np.broadcast_arrays(np.asarray(t_s, dtype=float), np.asarray(cause).astype(np.int64))
    if not np.all(np.isfinite(t)) or np.any(t < 0):
        raise InvalidInputError("t_s", "holds a negative or non-finite time", "pass seconds, zero or more")
    if np.any(codes < 0) or np.any(codes > N_CAUSES):
        raise InvalidInputError("cause", "holds an unknown code", "use the codes of Cause")
    return t, codes


def _insert(times: Floats, exits: Floats, t: Floats, code: Ints) -> None:
    """Insert one exit into every row of sorted tables, in place."""
    rows, capacity = np.arange(t.size), times.shape[-1]

    def known() -> Bools:
        return np.asarray(np.any(times == t[:, None], axis=-1))

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
    exits[rows, position, code] += 1.0


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
