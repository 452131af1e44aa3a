"""Distributions of completion times: exponential, Weibull and log-normal.

A model defines the cumulative hazard ``H(t)`` and its inverse; survival, quantiles and sampling follow from them.

Parameters have leading batch dimensions and an agent axis, ``(..., M)``; times broadcast against them by NumPy's rules.
Times are in seconds, hazards per second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats


class SurvivalModel(ABC):
    """A distribution of completion times with survival function S(t) = P(T > t).

    A subclass is a frozen dataclass of float arrays. ``own_axes`` gives the number of trailing axes of a parameter that
    belong to the model itself (a table of levels, say); the others are batch and agents.
    """

    own_axes: ClassVar[Mapping[str, int]]

    @abstractmethod
    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """H(t) = -log S(t)."""

    @abstractmethod
    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """The first time at which H reaches the given value; ``inf`` if it never does."""

    @property
    def lead(self) -> tuple[int, ...]:
        """Batch and agent dimensions of the parameters."""
        shapes = [np.shape(getattr(self, name)) for name in self.own_axes]
        own = list(self.own_axes.values())
        return np.broadcast_shapes(*(shape[: len(shape) - n] for shape, n in zip(shapes, own, strict=True)))

    def select(self, index: Any) -> Self:
        """The model of the agents (or batch rows) at ``index`` of the leading dimensions."""
        lead = self.lead
        parts = {}
        for name, own in self.own_axes.items():
            value = np.asarray(getattr(self, name))
            full = np.broadcast_to(value, lead + value.shape[value.ndim - own :])
            parts[name] = full[index]
        return replace(self, **parts)  # type: ignore[type-var]

    def survival(self, t_s: npt.ArrayLike) -> Floats:
        """S(t) = P(T > t)."""
        return np.exp(-self.cumulative_hazard(t_s))

    def quantile(self, p: npt.ArrayLike) -> Floats:
        """The time by which a fraction ``p`` has finished."""
        with np.errstate(divide="ignore"):
            return self.time_at(-np.log1p(-np.asarray(p, dtype=float)))

    def sample(self, u: npt.ArrayLike, theta: npt.ArrayLike = 1.0) -> Floats:
        """Times with survival S^theta from uniforms in [0, 1); increasing in ``u``."""
        return self.time_at(-np.log1p(-np.asarray(u, dtype=float)) / np.asarray(theta, dtype=float))


@dataclass(frozen=True, slots=True, eq=False)
class Exponential(SurvivalModel):
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
    own_axes: ClassVar[Mapping[str, int]] = {"scale_s": 0}

    def __init__(self, scale_s: npt.ArrayLike) -> None:
        object.__setattr__(self, "scale_s", np.asarray(scale_s, dtype=float))

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """Time over scale."""
        return np.asarray(t_s, dtype=float) / self.scale_s

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """H * scale."""
        h = np.asarray(cumulative_hazard, dtype=float)
        with np.errstate(invalid="ignore"):
            return np.where(h == 0, 0.0, h * self.scale_s)


@dataclass(frozen=True, slots=True, eq=False)
class Weibull(SurvivalModel):
    """S(t) = exp(-(t / scale)^shape).

    The hazard increases for shape above 1 and decreases for shape below 1.

    Examples
    --------
    >>> model = Weibull(scale_s=10.0, shape=[0.5, 2.0])
    >>> model.survival(20.0).round(3)
    array([0.243, 0.018])
    >>> bool(np.allclose(model.survival(model.sample(0.3)), 0.7))
    True
    """

    scale_s: Floats
    shape: Floats
    own_axes: ClassVar[Mapping[str, int]] = {"scale_s": 0, "shape": 0}

    def __init__(self, scale_s: npt.ArrayLike, shape: npt.ArrayLike) -> None:
        object.__setattr__(self, "scale_s", np.asarray(scale_s, dtype=float))
        object.__setattr__(self, "shape", np.asarray(shape, dtype=float))

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """(t / scale)^shape, by logarithms."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(np.exp(self.shape * (np.log(np.asarray(t_s, dtype=float)) - np.log(self.scale_s))))

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """Scale times H^(1 / shape)."""
        with np.errstate(divide="ignore", over="ignore"):
            w = np.log(np.asarray(cumulative_hazard, dtype=float))
            return np.where(np.isposinf(self.scale_s), np.inf, np.exp(np.log(self.scale_s) + w / self.shape))


@dataclass(frozen=True, slots=True, eq=False)
class LogNormal(SurvivalModel):
    """S(t) = P(Z > (log t - mu) / sigma); exp(mu) is the median time in seconds.

    Examples
    --------
    >>> model = LogNormal(mu=np.log(10.0), sigma=0.5)
    >>> model.survival([0.0, 10.0]).round(3)
    array([1. , 0.5])
    """

    mu: Floats
    sigma: Floats
    own_axes: ClassVar[Mapping[str, int]] = {"mu": 0, "sigma": 0}

    def __init__(self, mu: npt.ArrayLike, sigma: npt.ArrayLike) -> None:
        object.__setattr__(self, "mu", np.asarray(mu, dtype=float))
        object.__setattr__(self, "sigma", np.asarray(sigma, dtype=float))

    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """-log P(Z > w) at w = (log t - mu) / sigma."""
        from scipy.special import log_ndtr

        with np.errstate(divide="ignore"):
            w = (np.log(np.asarray(t_s, dtype=float)) - self.mu) / self.sigma
        return -np.asarray(log_ndtr(-w))

    def time_at(self, cumulative_hazard: npt.ArrayLike) -> Floats:
        """exp(mu + sigma * w) where -log P(Z > w) is the given hazard."""
        from scipy.special import ndtri_exp

        with np.errstate(over="ignore"):
            w = -np.asarray(ndtri_exp(-np.asarray(cumulative_hazard, dtype=float)))
            return np.where(np.isposinf(self.mu), np.inf, np.exp(self.mu + self.sigma * w))
