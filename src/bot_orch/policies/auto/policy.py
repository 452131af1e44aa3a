"""auto: the default policy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from bot_orch.arrays import Arrays, Bools, Floats, Schema, row_views
from bot_orch.errors import InvalidInputError
from bot_orch.policies.auto.memory import GaussianProcessMemory, GaussianProcessPrior
from bot_orch.policies.base import Choice, Feedback, Policy, Situation

__all__ = ["Auto", "coupled_randucb"]

_CAUTIOUS = GaussianProcessPrior(agent=0.05, task=1.0, agent_task=0.1)
_BOLD = GaussianProcessPrior(agent=0.05, task=1.0, agent_task=0.7)
_DRIFTING = GaussianProcessPrior(
    agent=0.05, task=1.0, agent_task=0.5, agent_drift=0.1, drift=0.2, agent_task_drift=0.2, apart=True
)


@dataclass(frozen=True, slots=True)
class Auto(Policy):
    """Coupled RandUCB over Gaussian-process estimates averaged over stationary and drifting models.

    Rewards are estimated by :class:`~bot_orch.policies.auto.memory.GaussianProcessMemory`; with features the estimate
    depends on the task, without them it is a shrunken mean. An agent's score is its estimate, minus its penalty, plus a
    random multiple of its standard deviation; the multiple is common to all agents: see :func:`coupled_randucb`. The
    exploration bonus includes the cost times the weight of the prior; otherwise an expensive agent would not be tried.

    Parameters
    ----------
    scale
        Degree of optimism: the root mean square of that random multiple.
    forgetting
        Whether to include a drifting model; it gains weight only if it predicts better.
    capacity, block
        Number of rows of the memory, and coefficients updated per outcome. Beyond the capacity similar old outcomes are
        merged.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> policy = Auto()
    >>> state = allocate(policy.schema(0), (), 2)
    >>> policy.choose(state, Situation(1, penalty=np.array([0.0, 0.1]))).propensities.round(3)
    array([1., 0.])
    """

    scale: float = 0.65
    forgetting: bool = True
    capacity: int = 2048
    block: int = 16
    id: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise InvalidInputError("scale", f"is {self.scale}", "pass a positive number")
        if self.capacity < 2 or self.block < 1:
            problem = f"are {self.capacity} and {self.block}"
            raise InvalidInputError("capacity, block", problem, "pass at least 2 and 1")

    def schema(self, n_features: int) -> Schema:
        """State arrays of the memory."""
        return _memory(self).schema(n_features)

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability of having the largest randomised upper confidence bound."""
        if not _in_step(state):
            return _by_rows(self, state, situation)
        found = _memory(self).predict(state, situation.context, situation.t, pending=situation.pending)
        sd = self.scale * np.sqrt(state["noise"][..., None] * found.variance)
        if situation.cost is None:
            return Choice(coupled_randucb(found.value - situation.penalty, sd, situation.eligible), found.value, sd)
        trust = found.unknown * situation.cost
        p = coupled_randucb(found.value - (situation.penalty - trust), sd, situation.eligible)
        return Choice(p, found.value, sd + trust)

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn the chosen agent's outcome, or all agents' under full feedback."""
        memory, m = _memory(self), feedback.observed.shape[-1]
        everybody = feedback.observed.all() and m > 1
        for agent in range(m) if everybody else [feedback.agent]:
            index = np.broadcast_to(np.asarray(agent), np.shape(feedback.agent))
            reward = np.take_along_axis(feedback.reward, index[..., None], axis=-1)[..., 0]
            if _in_step(state):
                memory.learn(state, index, reward, context=feedback.context, t=feedback.t)
                continue
            for row in np.ndindex(state["seen"].shape):
                context = None if feedback.context is None else feedback.context[row]
                memory.learn(row_views(state, row), index[row], np.asarray(reward[row]), context=context, t=feedback.t)


def coupled_randucb(location: Floats, sd: Floats, eligible: Bools | None = None) -> Floats:
    """Coupled RandUCB [1]_: P(agent i has the largest ``location + |Z| * sd``), one standard normal Z for all agents.

    As a function of |Z| each score is a line. An agent has the largest score between its last crossing with a flatter
    line and its first crossing with a steeper one, so its probability is a difference of two values of a distribution
    function and needs no sampling.

    References
    ----------
    .. [1] Vaswani, Mehrabian, Durand, Kveton. Old dog learns new tricks: randomized UCB for bandit problems.
       AISTATS 2020.

    Examples
    --------
    >>> coupled_randucb(np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.1])).round(3)
    array([0.683, 0.317, 0.   ])
    """
    if eligible is not None:
        location = np.where(eligible, location, -np.inf)
    rise = sd[..., :, None] - sd[..., None, :]  # slope of the row's agent minus that of the column's
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = location[..., None, :] - location[..., :, None]
        cross = gap / rise
    first = np.maximum.reduce(np.where(rise > 0.0, cross, 0.0), axis=-1)
    last = np.minimum.reduce(np.where(rise < 0.0, cross, np.inf), axis=-1)
    level = rise == 0.0
    beaten = np.logical_or.reduce(level & (gap > 0.0), axis=-1) | ~np.isfinite(location)
    twins = np.add.reduce(level & (gap == 0.0), axis=-1, dtype=np.float64)
    mass = erf(np.maximum(last, 0.0) / np.sqrt(2.0)) - erf(np.maximum(first, 0.0) / np.sqrt(2.0))
    p = np.where(beaten, 0.0, np.maximum(mass, 0.0) / np.maximum(twins, 1.0))
    normal: Floats = p / np.add.reduce(p, axis=-1, keepdims=True)
    return normal


def _in_step(state: Arrays) -> bool:
    """Whether all rows of a batch hold outcomes of the same rounds, so that one vectorised update is possible."""
    seen = state["seen"]
    if seen.size == 1:
        return True
    first = (0,) * seen.ndim
    n = min(int(seen[first]), state["round"].shape[-1])
    return bool((seen == seen[first]).all() and (state["round"][..., :n] == state["round"][first][:n]).all())


def _by_rows(policy: Auto, state: Arrays, s: Situation) -> Choice:
    """Choose row by row, for batches whose rows are not in step."""
    batch = state["seen"].shape

    def part(values: npt.NDArray[Any] | None, row: tuple[int, ...]) -> Any:
        return None if values is None else np.broadcast_to(values, (*batch, values.shape[-1]))[row]

    found = []
    for row in np.ndindex(batch):
        arrays = row_views(state, row)
        rest = (part(each, row) for each in (s.penalty, s.eligible, s.context, s.pending, s.cost))
        found.append(policy.choose(arrays, Situation(s.t, *rest)))
    stacked = (np.stack([getattr(each, f.name) for each in found]) for f in fields(Choice))
    return Choice(*(each.reshape(*batch, -1) for each in stacked))


@lru_cache(maxsize=16)
def _memory(policy: Auto) -> GaussianProcessMemory:
    priors = (_CAUTIOUS, _BOLD, _DRIFTING) if policy.forgetting else (_CAUTIOUS, _BOLD)
    return GaussianProcessMemory(priors, capacity=policy.capacity, block=policy.block)
