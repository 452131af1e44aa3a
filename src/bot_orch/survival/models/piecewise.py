"""Piecewise-constant hazard: a rate per interval of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Field, Floats, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import Fit, Observations, SurvivalModel, check_observations
from bot_orch.survival.online.base import AgentIndex, OnlineFit, Prior, add_counts, counts_with

__all__ = ["OnlinePiecewise", "PiecewiseConstant", "exposures", "fit_piecewise"]


def _check_breaks(breaks_s: npt.ArrayLike) -> Floats:
    breaks = np.asarray(breaks_s, dtype=float)
    if breaks.ndim != 1 or not np.all(np.isfinite(breaks)) or np.any(np.diff(breaks, prepend=0.0) <= 0):
        raise InvalidInputError("breaks_s", f"is {breaks}", "pass increasing positive times in one dimension")
    return breaks


@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseConstant(SurvivalModel):
    """h(t) = rate_k for t in (break_k, break_{k+1}].

    Parameters
    ----------
    breaks_s
        The K - 1 inner boundaries, common to all agents; zero and infinity are implied.
    rates
        K hazards per second, on the last axis.

    Examples
    --------
    >>> model = PiecewiseConstant([10.0], [0.1, 0.5])
    >>> model.cumulative_hazard([5.0, 10.0, 12.0])
    array([0.5, 1. , 2. ])
    >>> model.time_at([0.5, 2.0])
    array([ 5., 12.])
    """

    breaks_s: Floats
    rates: Floats
    own_axes: ClassVar[Mapping[str, int]] = {"rates": 1}

    def __init__(self, breaks_s: npt.ArrayLike, rates: npt.ArrayLike) -> None:
        object.__setattr__(self, "breaks_s", _check_breaks(breaks_s))
        object.__setattr__(self, "rates", np.asarray(rates, dtype=float))
        if self.rates.ndim == 0 or self.rates.shape[-1] != self.breaks_s.size + 1:
            raise InvalidInputError("rates", f"has shape {self.rates.shape}", "pass one rate more than breaks")

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The sum of rate times time spent in each interval."""
        spent = exposures(t_s, self.breaks_s)
        with np.errstate(invalid="ignore"):
            total: Floats = np.sum(np.where(self.rates > 0, spent * self.rates, 0.0), axis=-1)
        return total

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The log of the rate of the interval; a break belongs to the interval it ends."""
        inside = interval(t_s, self.breaks_s)
        rates, k = _spread(self.rates, inside)
        with np.errstate(divide="ignore"):
            return np.log(np.take_along_axis(rates, k[..., None], axis=-1)[..., 0])

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """Invert the piecewise linear cumulative hazard."""
        h = np.asarray(cumulative_hazard, dtype=float)
        widths = np.diff(self.breaks_s, prepend=0.0)
        reached = np.cumsum(self.rates[..., :-1] * widths, axis=-1)
        before = np.concatenate([np.zeros((*self.rates.shape[:-1], 1)), reached], axis=-1)
        k = np.sum(h[..., None] > reached, axis=-1)
        rates, k = _spread(self.rates, k)
        pick = k[..., None]
        rate = np.take_along_axis(rates, pick, axis=-1)[..., 0]
        done = np.take_along_axis(np.broadcast_to(before, rates.shape), pick, axis=-1)[..., 0]
        start = np.concatenate([[0.0], self.breaks_s])[k]
        rest = np.maximum(h - done, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return start + np.where(rest > 0, rest / rate, 0.0)

    def with_hazard_ratio(self, ratio: npt.ArrayLike) -> Self:
        """The model whose hazard is ``ratio`` times as high."""
        return type(self)(self.breaks_s, self.rates * np.asarray(ratio, dtype=float)[..., None])


def _spread(rates: Floats, k: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.int64]]:
    lead = np.broadcast_shapes(rates.shape[:-1], k.shape)
    return np.broadcast_to(rates, (*lead, rates.shape[-1])), np.broadcast_to(k, lead)


def interval(t_s: npt.ArrayLike, breaks_s: Floats) -> npt.NDArray[np.int64]:
    """The interval (break_k, break_{k+1}] each time falls into."""
    return np.asarray(np.searchsorted(breaks_s, np.asarray(t_s, dtype=float), side="left"), dtype=np.int64)


def exposures(t_s: npt.ArrayLike, breaks_s: Floats) -> Floats:
    """Seconds spent in each interval up to ``t``, on a new last axis.

    Examples
    --------
    >>> exposures(12.0, np.array([5.0, 10.0]))
    array([5., 5., 2.])
    """
    t = np.asarray(t_s, dtype=float)[..., None]
    starts = np.concatenate([[0.0], breaks_s])
    widths = np.concatenate([np.diff(starts), [np.inf]])
    return np.asarray(np.clip(t - starts, 0.0, widths))


class Counts(NamedTuple):
    """Sufficient statistics: weighted events and seconds watched per interval."""

    events: Floats
    exposure_s: Floats


def _counts(t_s: Floats, event: Bools, weights: Floats, breaks_s: Floats, entry_s: npt.ArrayLike = 0.0) -> Counts:
    hit = np.eye(breaks_s.size + 1)[interval(t_s, breaks_s)]
    seen = (weights * event)[..., None] * hit
    spent = exposures(t_s, breaks_s) - exposures(entry_s, breaks_s)
    return Counts(seen, weights[..., None] * spent)


def _rates(events: Floats, exposure_s: Floats) -> Floats:
    return np.divide(events, exposure_s, out=np.zeros_like(events), where=exposure_s > 0)


def fit_piecewise(
    t_s: npt.ArrayLike,
    event: npt.ArrayLike,
    breaks_s: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    entry_s: npt.ArrayLike = 0.0,
) -> Fit[PiecewiseConstant]:
    """Maximum likelihood in closed form: events divided by exposure time, per interval.

    Examples
    --------
    >>> fit_piecewise([1.0, 3.0, 4.0], [True, True, False], breaks_s=[2.0]).model.rates
    array([0.2       , 0.33333333])
    """
    data, breaks = check_observations(t_s, event, weights), _check_breaks(breaks_s)
    parts = _counts(data.t_s, data.event, data.weights, breaks, entry_s)
    events, exposure = parts.events.sum(axis=-2), parts.exposure_s.sum(axis=-2)
    rates = _rates(events, exposure)
    log_rates = np.log(np.where(events > 0, rates, 1.0))
    value = np.sum(events * log_rates - rates * exposure, axis=-1)
    return Fit(PiecewiseConstant(breaks, rates), value, np.any(events > 0, axis=-1))


@dataclass(frozen=True, slots=True)
class OnlinePiecewise(OnlineFit[PiecewiseConstant]):
    """Online piecewise-constant fit; exact, with 2 K numbers per agent.

    ``prior`` and ``discount`` are as in :class:`~bot_orch.survival.models.exponential.OnlineExponential`; the prior
    counts in every interval.

    Examples
    --------
    >>> fit = OnlinePiecewise(breaks_s=(2.0,))
    >>> state = fit.init((), 1)
    >>> for t, event in [(1.0, True), (3.0, True), (4.0, False)]:
    ...     fit.update(state, t, event, agent=0)
    >>> fit.model(state).rates
    array([[0.2       , 0.33333333]])
    """

    breaks_s: tuple[float, ...]
    prior: Prior | None = None
    discount: float = 1.0

    @property
    def schema(self) -> Schema:
        """Number of events and exposure in seconds, per agent and interval."""
        k = len(self.breaks_s) + 1
        return {"events": Field(shape=(k,)), "exposure_s": Field(shape=(k,))}

    def _add(self, state: Arrays, at: AgentIndex, data: Observations, cause: npt.ArrayLike) -> None:
        parts = _counts(*data, _check_breaks(self.breaks_s))
        keep = np.where(data.weights > 0, self.discount, 1.0)[..., None]
        add_counts(state, at, keep, events=parts.events, exposure_s=parts.exposure_s)

    def model(self, state: Arrays) -> PiecewiseConstant:
        """The fitted model of every agent."""
        events, exposure = counts_with(self.prior, state)
        return PiecewiseConstant(np.asarray(self.breaks_s), _rates(events, exposure))
