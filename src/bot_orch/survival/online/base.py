"""Base class and shared functions of online fits.

State is a dictionary of arrays declared by a schema (:mod:`bot_orch.arrays`), of shape ``batch + (M,) + own``. It can
be saved, and an agent added or removed, without model-specific code. Updates change the arrays in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Floats, Ints, Schema, allocate
from bot_orch.errors import InvalidInputError
from bot_orch.survival.base import Observations, check_observations

__all__ = ["AgentIndex", "OnlineFit", "Prior", "add_counts", "agent_index", "counts_with", "per_event"]

ModelT = TypeVar("ModelT", covariant=True)
#: Index that selects agents from an array of shape ``batch + (M,)``, see :func:`agent_index`.
AgentIndex = tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class Prior:
    """Prior of an agent without outcomes: ``weight`` pseudo-observations that completed after about ``scale_s``.

    It makes a fit defined before the first event; its weight decreases as outcomes arrive.
    """

    scale_s: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale_s) and self.scale_s > 0):
            raise InvalidInputError("prior.scale_s", f"is {self.scale_s}", "pass a typical time in seconds")
        if not (np.isfinite(self.weight) and self.weight > 0):
            raise InvalidInputError("prior.weight", f"is {self.weight}", "pass a positive number of tasks, or no prior")


class OnlineFit(ABC, Generic[ModelT]):
    """A model fit that is updated one outcome at a time."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The arrays of the state."""

    @abstractmethod
    def model(self, state: Arrays) -> ModelT:
        """The fitted model of every agent, with parameters of shape ``batch + (M,)``."""

    @abstractmethod
    def _add(self, state: Arrays, at: AgentIndex, data: Observations, cause: npt.ArrayLike) -> None:
        """Add checked observations to the rows ``at``; ``cause`` is ``event`` as :meth:`update` got it."""

    def update(
        self,
        state: Arrays,
        t_s: npt.ArrayLike,
        event: npt.ArrayLike,
        agent: npt.ArrayLike | None = None,
        weight: npt.ArrayLike = 1.0,
    ) -> None:
        """Add one outcome per batch row; ``event`` is False where the time was right-censored.

        ``agent`` holds the agent of each batch row, and times have the shape of the batch; None means that times are
        ``batch + (M,)``, one for every agent. An outcome of weight zero changes nothing.
        """
        data = check_observations(t_s, event, weight)
        name, field = next(iter(self.schema.items()))
        lead = state[name].shape[: state[name].ndim - len(field.shape)]
        self._add(state, agent_index(lead, agent), data, event)

    def init(self, batch: tuple[int, ...], n_agents: int) -> Arrays:
        """Initial state, without outcomes."""
        return allocate(self.schema, batch, n_agents)


def agent_index(lead: tuple[int, ...], agent: npt.ArrayLike | None) -> AgentIndex:
    """Index that selects one agent per batch row from an array with leading shape ``lead = batch + (M,)``.

    Without ``agent`` it selects all of them.

    Examples
    --------
    >>> np.arange(6).reshape(3, 2)[agent_index((3, 2), [0, 1, 0])]
    array([0, 3, 4])
    """
    if agent is None:
        return tuple(np.indices(lead))
    chosen = np.asarray(agent, dtype=np.int64)
    if np.any(chosen < 0) or np.any(chosen >= lead[-1]):
        raise InvalidInputError("agent", f"is not one of the {lead[-1]} agents", "pass an index from 0")
    rows = tuple(np.indices(lead[:-1]))
    return (*rows, np.broadcast_to(chosen, lead[:-1]))


def add_counts(state: Arrays, at: AgentIndex, keep: Floats, *, events: Floats, exposure_s: Floats) -> None:
    """Multiply the events and exposures of agents by ``keep``, then add new ones."""
    state["events"][at] = keep * state["events"][at] + events
    state["exposure_s"][at] = keep * state["exposure_s"][at] + exposure_s


def counts_with(prior: Prior | None, state: Arrays) -> tuple[Floats, Floats]:
    """Events and exposures of every agent, including those of the prior."""
    events, exposure = state["events"], state["exposure_s"]
    if prior is None:
        return events, exposure
    return events + prior.weight, exposure + prior.weight * prior.scale_s


def per_event(exposure: Floats, events: Floats) -> Floats:
    """Exposure divided by events; infinite where there was no event."""
    out = np.full(np.broadcast(exposure, events).shape, np.inf)
    return np.asarray(np.divide(exposure, events, out=out, where=events > 0))
