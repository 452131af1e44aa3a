"""Estimators of each agent's reward: the paper's moving average with history term, and means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.errors import InvalidInputError


class Estimator(ABC):
    """Online estimator of the reward of every agent."""

    id: ClassVar[str]

    @abstractmethod
    def schema(self) -> Schema:
        """State arrays of the estimator."""

    @abstractmethod
    def estimate(self, state: Arrays) -> Floats:
        """The current estimate of every agent's reward."""

    @abstractmethod
    def count(self, state: Arrays) -> Floats:
        """(Effective) number of rewards behind each estimate."""

    @abstractmethod
    def update(self, state: Arrays, observed: Bools, reward: Floats) -> None:
        """Add the observed rewards; updates ``state`` in place."""

    @property
    def can_revise(self) -> bool:
        """Whether :meth:`revise` is implemented."""
        return False

    def revise(self, state: Arrays, change: Floats, *, position: float) -> None:
        """Change a past reward of each agent by ``change``; it was number ``position`` of its agent."""
        raise NotImplementedError(f"{self.id} cannot take a reward back")

    def update_chosen(self, state: Arrays, agent: Ints, earned: Floats) -> None:
        """Add the rewards ``batch`` of the chosen agents, all known. The default calls :meth:`update`."""
        shape = self.count(state).shape
        observed = np.arange(shape[-1]) == np.asarray(agent)[..., None]
        self.update(state, observed, np.broadcast_to(np.asarray(earned)[..., None], shape))


class History(ABC):
    """f_i(R_1..t-1), the history term of Algorithm 2, which the paper does not specify."""

    id: ClassVar[str]

    @abstractmethod
    def correction(self, total: Floats, last: Floats, count: Floats) -> Floats:
        """History term from the sum, the last and the number of past rewards of every agent."""


@dataclass(frozen=True, slots=True)
class NoHistory(History):
    """f = 0: Algorithm 1."""

    id: ClassVar[str] = "none"

    def correction(self, total: Floats, last: Floats, count: Floats) -> Floats:
        """Zero for every agent."""
        return np.zeros_like(total)


@dataclass(frozen=True, slots=True)
class MeanReward(History):
    """f_i = beta * mean of the past observed rewards of agent i."""

    beta: float = 0.05
    id: ClassVar[str] = "mean"

    def correction(self, total: Floats, last: Floats, count: Floats) -> Floats:
        """``beta * total / count``, zero before the first reward."""
        return self.beta * total / np.maximum(count, 1.0)


@dataclass(frozen=True, slots=True)
class LastReward(History):
    """f_i = beta * the last observed reward of agent i."""

    beta: float = 0.05
    id: ClassVar[str] = "last"

    def correction(self, total: Floats, last: Floats, count: Floats) -> Floats:
        """``beta * last``."""
        return self.beta * last


@dataclass(frozen=True, slots=True)
class EMA(Estimator):
    """rhat <- alpha * rhat + (1 - alpha) * R + f, the estimate of Algorithms 1 (f = 0) and 2.

    With constant alpha its standard deviation converges to sigma * sqrt((1 - alpha) / (1 + alpha)), not to zero.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> ema = EMA(alpha=0.9)
    >>> state = allocate(ema.schema(), (), 2)
    >>> ema.update(state, np.array([True, False]), np.array([1.0, 1.0]))
    >>> ema.estimate(state).round(3)
    array([0.1, 0. ])
    """

    alpha: float = 0.9
    history: History = field(default_factory=NoHistory)
    initial: float = 0.0
    id: ClassVar[str] = "ema"

    def __post_init__(self) -> None:
        if not 0.0 <= self.alpha < 1.0:
            raise InvalidInputError("alpha", f"is {self.alpha}", "pass a number in [0, 1)")

    @property
    def _remembers(self) -> bool:
        return not isinstance(self.history, NoHistory)

    def schema(self) -> Schema:
        """Estimate and count; with a history term also sums and last rewards."""
        fields = {"rhat": Field(fill=self.initial), "count": Field()}
        return fields | {"total": Field(), "last": Field()} if self._remembers else fields

    def estimate(self, state: Arrays) -> Floats:
        """``rhat``."""
        return state["rhat"]

    def count(self, state: Arrays) -> Floats:
        """Number of rewards seen."""
        return state["count"]

    def update(self, state: Arrays, observed: Bools, reward: Floats) -> None:
        """One step of the recursion for observed agents."""
        step = self.alpha * state["rhat"] + (1.0 - self.alpha) * reward
        if self._remembers:
            step += self.history.correction(state["total"], state["last"], state["count"])
            state["total"] += np.where(observed, reward, 0.0)
            np.copyto(state["last"], reward, where=observed)
        np.copyto(state["rhat"], step, where=observed)
        state["count"] += observed

    @property
    def can_revise(self) -> bool:
        """Only without a history term, which is not linear in past rewards alone."""
        return not self._remembers

    def revise(self, state: Arrays, change: Floats, *, position: float) -> None:
        """A reward has the weight ``(1 - alpha) * alpha ** (rewards since)``."""
        since = np.maximum(state["count"] - position, 0.0)
        state["rhat"] += (1.0 - self.alpha) * np.where(change != 0.0, self.alpha**since, 0.0) * change

    def update_chosen(self, state: Arrays, agent: Ints, earned: Floats) -> None:
        """One step of the recursion for the chosen agents only."""
        rhat, count = state["rhat"], state["count"]
        if self._remembers:
            Estimator.update_chosen(self, state, agent, earned)
        elif rhat.ndim == 1:
            i, alpha = int(agent), self.alpha
            rhat[i] = alpha * rhat.item(i) + (1.0 - alpha) * float(earned)
            count[i] += 1.0
        else:
            rhat, count, at = _flat(rhat), _flat(count), _entries(agent, rhat.shape[-1])
            rhat[at] = self.alpha * rhat[at] + (1.0 - self.alpha) * np.ravel(earned)
            count[at] += 1.0


@dataclass(frozen=True, slots=True)
class Mean(Estimator):
    """The running mean of all rewards and of ``prior`` pseudo-rewards of 1/2."""

    prior: float = 0.0
    id: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        if not self.prior >= 0.0:
            raise InvalidInputError("prior", f"is {self.prior}", "pass a number, zero or more")

    def schema(self) -> Schema:
        """Sum and count."""
        return {"total": Field(), "count": Field()}

    def estimate(self, state: Arrays) -> Floats:
        """``total / count`` including the prior; zero before the first reward without a prior."""
        weight, total = state["count"], state["total"]
        if self.prior:
            weight, total = weight + self.prior, total + 0.5 * self.prior
        if np.count_nonzero(weight) < weight.size:
            weight = np.where(weight > 0.0, weight, 1.0)
        mean: Floats = total / weight
        return mean

    def count(self, state: Arrays) -> Floats:
        """Number of rewards seen."""
        return state["count"]

    def update(self, state: Arrays, observed: Bools, reward: Floats) -> None:
        """Add to sums and counts."""
        state["total"] += np.where(observed, reward, 0.0)
        state["count"] += observed

    @property
    def can_revise(self) -> bool:
        """Always: rewards are summed."""
        return True

    def revise(self, state: Arrays, change: Floats, *, position: float) -> None:
        """Change the sum."""
        state["total"] += change

    def update_chosen(self, state: Arrays, agent: Ints, earned: Floats) -> None:
        """Add to the chosen agents' sums and counts."""
        total, count = state["total"], state["count"]
        if total.ndim == 1:
            i = int(agent)
            total[i] += float(earned)
            count[i] += 1.0
        else:
            total, count, at = _flat(total), _flat(count), _entries(agent, total.shape[-1])
            total[at] += np.ravel(earned)
            count[at] += 1.0


def _flat(values: Floats) -> Floats:
    """A view with one dimension."""
    if not values.flags.c_contiguous:  # reshape would copy
        raise InvalidInputError("state", "is not C-ordered", "allocate it from the schema")
    return values.reshape(-1)


def _entries(agent: Ints, m: int) -> Ints:
    """Numbers of the chosen agents' entries in a flat array ``batch * M``."""
    return np.arange(0, agent.size * m, m) + np.ravel(agent)
