"""Base class of survival models.

A model defines the cumulative hazard ``H(t)``, the log hazard ``log h(t)`` and the inverse of ``H``. Survival,
quantiles, sampling and the likelihood of right-censored data follow from them.

Parameters have leading batch dimensions and an agent axis, ``(..., M)``; times broadcast against them by NumPy's rules.
Times are in seconds, hazards per second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.errors import InvalidInputError

__all__ = ["Fit", "Observations", "SurvivalModel", "check_observations"]


class SurvivalModel(ABC):
    """A distribution of completion times with survival function S(t) = P(T > t).

    A subclass is a frozen dataclass of float arrays. ``own_axes`` gives the number of trailing axes of a parameter that
    belong to the model itself (a table of rates, say); the others are batch and agents.
    """

    own_axes: ClassVar[Mapping[str, int]]

    @abstractmethod
    def cumulative_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """H(t) = -log S(t)."""

    @abstractmethod
    def log_hazard(self, t_s: npt.ArrayLike) -> Floats:
        """The logarithm of the hazard h(t) = dH/dt, per second."""

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

    def hazard(self, t_s: npt.ArrayLike) -> Floats:
        """h(t), per second."""
        return np.exp(self.log_hazard(t_s))

    def quantile(self, p: npt.ArrayLike) -> Floats:
        """The time by which a fraction ``p`` has finished."""
        with np.errstate(divide="ignore"):
            return self.time_at(-np.log1p(-np.asarray(p, dtype=float)))

    def sample(self, u: npt.ArrayLike, theta: npt.ArrayLike = 1.0) -> Floats:
        """Times with survival S^theta from uniforms in [0, 1); increasing in ``u``."""
        return self.time_at(-np.log1p(-np.asarray(u, dtype=float)) / np.asarray(theta, dtype=float))

    def log_likelihood(self, t_s: npt.ArrayLike, event: npt.ArrayLike, entry_s: npt.ArrayLike = 0.0) -> Floats:
        """Log-likelihood of each right-censored time (not summed).

        ``event * log h(t) - H(t) + H(entry)``: a completed time contributes its density, a censored one its survival;
        ``entry_s`` is the start of observation (left truncation).
        """
        observed = np.where(np.asarray(event, dtype=bool), self.log_hazard(t_s), 0.0)
        return observed - self.cumulative_hazard(t_s) + self.cumulative_hazard(entry_s)


M = TypeVar("M", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Fit(Generic[M]):
    """A maximum-likelihood fit: the model, its log-likelihood, and whether the optimiser converged."""

    model: M
    log_likelihood: Floats
    converged: Bools
    _: KW_ONLY
    n_iterations: int = 0


class Observations(NamedTuple):
    """Right-censored data, observations on the last axis."""

    t_s: Floats
    event: Bools
    weights: Floats


def check_observations(t_s: npt.ArrayLike, event: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Observations:
    """Validate observations and broadcast them to a common shape; values of weight zero are ignored.

    Examples
    --------
    >>> check_observations([2.0, np.nan], [True, False], [1, 0]).t_s
    array([2., 1.])
    """
    raw = (np.asarray(t_s, dtype=float), np.asarray(event, dtype=bool))
    w = np.asarray(1.0 if weights is None else weights, dtype=float)
    t, d, w = np.broadcast_arrays(*raw, w)
    if not np.all(np.isfinite(w)) or np.any(w < 0):
        raise InvalidInputError("weights", "holds a negative or non-finite number", "pass weights of zero or more")
    used = w > 0
    if not np.all(np.isfinite(t[used])) or np.any(t[used] < 0):
        raise InvalidInputError("t_s", "holds a negative or non-finite time", "pass seconds, zero or more")
    return Observations(np.where(used, t, 1.0), np.where(used, d, False), np.array(w))
