"""Exponential times: a constant hazard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Field, Floats, Schema
from bot_orch.survival.base import Fit, Observations, check_observations
from bot_orch.survival.models.location_scale import EXTREME_VALUE, LocationScaleModel, Standard
from bot_orch.survival.online.base import AgentIndex, OnlineFit, Prior, add_counts, counts_with, per_event

__all__ = ["Exponential", "OnlineExponential", "fit_exponential"]


@dataclass(frozen=True, slots=True, eq=False)
class Exponential(LocationScaleModel):
    """S(t) = exp(-t / scale).

    Parameters
    ----------
    scale_s
        The mean time in seconds; ``inf`` for an agent that never finishes.

    Examples
    --------
    >>> model = Exponential([10.0, 20.0])  # two agents
    >>> model.survival(10.0).round(3)
    array([0.368, 0.607])
    >>> model.quantile(0.5).round(2)
    array([ 6.93, 13.86])
    """

    scale_s: Floats
    standard: ClassVar[Standard] = EXTREME_VALUE
    fixed_spread: ClassVar[bool] = True
    own_axes: ClassVar[Mapping[str, int]] = {"scale_s": 0}

    def __init__(self, scale_s: npt.ArrayLike) -> None:
        object.__setattr__(self, "scale_s", np.asarray(scale_s, dtype=float))

    @property
    def location(self) -> Floats:
        """The log of the scale."""
        return np.log(self.scale_s)

    @property
    def spread(self) -> Floats:
        """Constant 1."""
        return np.ones(self.scale_s.shape)

    @classmethod
    def from_location(cls, mu: npt.ArrayLike, sigma: npt.ArrayLike = 1.0) -> Self:
        """The exponential whose log time has this location; its scale is 1 and ``sigma`` is not read."""
        del sigma
        return cls(np.exp(mu))

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """Time over scale."""
        return np.asarray(t_s, dtype=float) / self.scale_s

    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """-log scale, at every time."""
        return -np.log(self.scale_s) + 0.0 * np.asarray(t_s, dtype=float)

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """H * scale."""
        h = np.asarray(cumulative_hazard, dtype=float)
        with np.errstate(invalid="ignore"):
            return np.where(h == 0, 0.0, h * self.scale_s)

    def with_hazard_ratio(self, ratio: npt.ArrayLike) -> Self:
        """The model whose hazard is ``ratio`` times as high."""
        return type(self)(self.scale_s / np.asarray(ratio, dtype=float))


def fit_exponential(
    t_s: npt.ArrayLike,
    event: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    entry_s: npt.ArrayLike = 0.0,
) -> Fit[Exponential]:
    """Maximum likelihood in closed form: exposure time divided by the number of events.

    Observations lie on the last axis; leading axes are fitted separately.

    Examples
    --------
    >>> fit_exponential([1.0, 2.0, 3.0], [True, True, False]).model.scale_s
    array(3.)
    """
    data = check_observations(t_s, event, weights)
    exposure = np.sum(data.weights * (data.t_s - np.asarray(entry_s, dtype=float)), axis=-1)
    events = np.sum(data.weights * data.event, axis=-1)
    model = Exponential(per_event(exposure, events))
    with np.errstate(invalid="ignore"):
        value = np.where(events > 0, -events * np.log(model.scale_s) - events, 0.0)
    return Fit(model, value, events > 0)


@dataclass(frozen=True, slots=True)
class OnlineExponential(OnlineFit[Exponential]):
    """Online exponential fit; exact, with two numbers per agent.

    Parameters
    ----------
    prior
        Prior before the first outcome; without it the fit is maximum likelihood.
    discount
        Factor of the weights of an agent's earlier outcomes per new outcome of that agent.

    Examples
    --------
    >>> fit = OnlineExponential()
    >>> state = fit.init((), 2)
    >>> fit.update(state, 4.0, True, agent=0)
    >>> fit.update(state, 2.0, False, agent=0)  # a timeout adds exposure but no event
    >>> fit.model(state).scale_s
    array([ 6., inf])
    """

    prior: Prior | None = None
    discount: float = 1.0

    @property
    def schema(self) -> Schema:
        """Number of events and exposure in seconds, per agent."""
        return {"events": Field(), "exposure_s": Field()}

    def _add(self, state: Arrays, at: AgentIndex, data: Observations, cause: npt.ArrayLike) -> None:
        keep = np.where(data.weights > 0, self.discount, 1.0)
        add_counts(state, at, keep, events=data.weights * data.event, exposure_s=data.weights * data.t_s)

    def model(self, state: Arrays) -> Exponential:
        """The fitted model of every agent."""
        events, exposure = counts_with(self.prior, state)
        return Exponential(per_event(exposure, events))
