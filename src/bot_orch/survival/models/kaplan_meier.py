"""Life tables and their estimators: Kaplan-Meier, Nelson-Aalen, Aalen-Johansen.

A life table lists the distinct exit times, the number of exits per cause, and the number at risk just before. Ties
follow the usual convention: events come before censorings at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import SurvivalModel, check_observations
from bot_orch.survival.causes import N_CAUSES, Cause

__all__ = [
    "LifeTable",
    "StepSurvival",
    "completion_survival",
    "cumulative_incidence",
    "kaplan_meier",
    "life_table",
    "nelson_aalen",
]


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
        return self._level(self._drops(t_s, before=False))

    def survival_before(self, t_s: npt.ArrayLike) -> Floats:
        """S(t-): the level just before ``t``."""
        return self._level(self._drops(t_s, before=True))

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """-log S(t)."""
        with np.errstate(divide="ignore"):
            return -np.log(self.survival(t_s))

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The log of the *discrete* hazard: the share of those still running that drops at ``t``."""
        before, after = self.survival_before(t_s), self.survival(t_s)
        share = np.divide(before - after, before, out=np.zeros_like(before), where=before > 0)
        with np.errstate(divide="ignore"):
            return np.log(share)

    def log_likelihood(self, t_s: npt.ArrayLike, event: npt.ArrayLike, entry_s: npt.ArrayLike = 0.0) -> Floats:
        """Nonparametric: log of the drop at an event, of the level at a censoring."""
        after = self.survival(t_s)
        seen = np.where(np.asarray(event, dtype=bool), self.survival_before(t_s) - after, after)
        with np.errstate(divide="ignore"):
            return np.log(seen) - np.log(self.survival(entry_s))

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

    def with_hazard_ratio(self, ratio: npt.ArrayLike) -> Self:
        """S^ratio."""
        return type(self)(self.times_s, self.levels ** np.asarray(ratio, dtype=float)[..., None])

    def _drops(self, t_s: npt.ArrayLike, before: bool) -> npt.NDArray[np.int64]:
        t = np.asarray(t_s, dtype=float)
        if self.times_s.ndim == 1:
            return np.asarray(np.searchsorted(self.times_s, t, side="left" if before else "right"), dtype=np.int64)
        past = self.times_s < t[..., None] if before else self.times_s <= t[..., None]
        return np.asarray(np.sum(past, axis=-1), dtype=np.int64)

    def _level(self, drops: npt.NDArray[np.int64]) -> Floats:
        levels = np.concatenate([np.ones((*self.levels.shape[:-1], 1)), self.levels], axis=-1)
        lead = np.broadcast_shapes(levels.shape[:-1], drops.shape)
        drops = np.minimum(np.broadcast_to(drops, lead), levels.shape[-1] - 1)
        levels = np.broadcast_to(levels, (*lead, levels.shape[-1]))
        return np.take_along_axis(levels, drops[..., None], axis=-1)[..., 0]


@dataclass(frozen=True, slots=True, eq=False)
class LifeTable:
    """Exits by time and cause, with the numbers at risk.

    Parameters
    ----------
    times_s
        Distinct times, increasing on the last axis, padded with ``inf``.
    at_risk
        Total weight still under observation just before each time.
    exits
        Total weight of exits at each time, per :class:`~bot_orch.survival.causes.Cause` on the last axis.
    """

    times_s: Floats
    at_risk: Floats
    exits: Floats

    def events(self, causes: Iterable[int]) -> Floats:
        """Total weight of exits at each time for any of these causes."""
        total: Floats = self.exits[..., list(causes)].sum(axis=-1)
        return total


def life_table(
    t_s: npt.ArrayLike,
    cause: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    entry_s: npt.ArrayLike | None = None,
) -> LifeTable:
    """Tabulate times on the last axis; a boolean ``cause`` means completed or censored.

    Examples
    --------
    >>> table = life_table([2.0, 1.0, 2.0, 5.0], [1, 1, 0, 0])
    >>> table.times_s, table.at_risk
    (array([1., 2., 5.]), array([4., 3., 1.]))
    """
    codes = np.asarray(cause).astype(np.int64)
    if np.any(codes < 0) or np.any(codes > N_CAUSES):
        raise InvalidInputError("cause", "holds an unknown code", "use the codes of Cause")
    data = check_observations(t_s, codes > 0, weights)
    t, w, codes = data.t_s, data.weights, np.broadcast_to(codes, data.t_s.shape)
    t = np.where(w > 0, t, np.inf)
    order = np.argsort(t, axis=-1, kind="stable")
    t, w = np.take_along_axis(t, order, axis=-1), np.take_along_axis(w, order, axis=-1)
    codes = np.take_along_axis(codes, order, axis=-1)
    lead, n = t.shape[:-1], t.shape[-1]
    group = np.cumsum(np.diff(t, axis=-1, prepend=-np.inf) > 0, axis=-1) - 1 if n else np.zeros(t.shape, dtype=int)
    size = int(group.max()) + 1 if group.size else 0
    rows = np.indices((*lead, n))[:-1]
    times, exits = np.full((*lead, size), np.inf), np.zeros((*lead, size, N_CAUSES + 1))
    times[(*rows, group)] = t
    np.add.at(exits, (*rows, group, codes), w)
    gone_later = np.cumsum(exits.sum(axis=-1)[..., ::-1], axis=-1)[..., ::-1]
    table = LifeTable(times, gone_later, exits)
    return table if entry_s is None else _late_entries(table, data.weights, np.asarray(entry_s, dtype=float))


def _late_entries(table: LifeTable, weights: Floats, entry_s: Floats) -> LifeTable:
    """Left truncation: remove from the risk sets those who had not yet entered."""
    entry = np.broadcast_to(entry_s, weights.shape)
    late = np.einsum("...n,...jn->...j", weights, (entry[..., None, :] >= table.times_s[..., :, None]).astype(float))
    return LifeTable(table.times_s, table.at_risk - late, table.exits)


def _share(table: LifeTable, causes: Iterable[int]) -> Floats:
    events = table.events(causes)
    return np.divide(events, table.at_risk, out=np.zeros_like(events), where=table.at_risk > 0)


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
    return StepSurvival(table.times_s, np.cumprod(1 - _share(table, causes), axis=-1))


def nelson_aalen(table: LifeTable, causes: Iterable[int] = (Cause.COMPLETED,)) -> Floats:
    """Nelson-Aalen estimate of the cumulative hazard at the times of the table."""
    return np.cumsum(_share(table, causes), axis=-1)


def cumulative_incidence(table: LifeTable, cause: int = Cause.COMPLETED) -> Floats:
    """Aalen-Johansen estimate [1]_ of the cumulative incidence of a cause at the times of the table.

    References
    ----------
    .. [1] Aalen, Johansen. An empirical transition matrix for nonhomogeneous Markov chains. Scand. J. Stat. 5, 1978.

    Examples
    --------
    >>> cumulative_incidence(life_table([1.0, 2.0], [Cause.CRASHED, Cause.COMPLETED]))
    array([0. , 0.5])
    """
    alive = np.cumprod(1 - _share(table, range(1, N_CAUSES + 1)), axis=-1)
    before = np.concatenate([np.ones((*alive.shape[:-1], 1)), alive[..., :-1]], axis=-1)
    return np.cumsum(before * _share(table, (cause,)), axis=-1)


def completion_survival(table: LifeTable) -> StepSurvival:
    """P(T > t) with T = inf for a failed task: one minus the cumulative incidence of completion.

    Without failures it is Kaplan-Meier.

    Examples
    --------
    >>> completion_survival(life_table([1.0, 2.0], [Cause.CRASHED, Cause.COMPLETED])).survival([1.0, 2.0, 99.0])
    array([1. , 0.5, 0.5])
    """
    return StepSurvival(table.times_s, np.clip(1 - cumulative_incidence(table), 0.0, 1.0))
