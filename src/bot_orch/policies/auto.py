"""auto: the policy to use when there is no reason to use another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from bot_orch.arrays import Arrays, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.choice import best_of_family
from bot_orch.policies.contextual_memory import Memory, Prior

__all__ = ["Auto"]

_LASTING = Prior(agent=0.2, task=1.0, agent_task=1.0)
_DRIFTING = Prior(agent=0.2, task=1.0, agent_task=1.0, agent_drift=0.3, drift=0.5, agent_task_drift=0.5)


@dataclass(frozen=True, slots=True)
class Auto(Policy):
    """P(agent i is best for this task), from a memory of past tasks that weighs lasting against drifting models.

    Rewards are estimated by :class:`~bot_orch.policies.contextual_memory.Memory`; with features the estimate depends on
    the task, without them it is a shrunken mean. Every agent's score is normal around its estimate minus its penalty,
    as wide as the estimate is uncertain, and the probability that it is the largest is found by quadrature.

    Parameters
    ----------
    scale
        Width of the scores in standard deviations of the estimate: 1 is Thompson sampling, 0.3 explores less.
    forgetting
        Whether a drifting model takes part; it gains weight only where it predicts better.
    capacity, block
        Outcomes remembered, and coefficients renewed per outcome.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> policy = Auto()
    >>> state = allocate(policy.schema(0), (), 2)
    >>> policy.choose(state, Situation(1, penalty=np.array([0.0, 0.1]))).propensities.round(3)
    array([0.847, 0.153])
    """

    scale: float = 0.3
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
        """The memory's arrays."""
        return _memory(self).schema(n_features)

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability matching."""
        found = _memory(self).predict(state, situation.context, situation.t, situation.pending)
        sd = self.scale * np.sqrt(state["noise"][..., None] * found.variance)
        p = best_of_family(found.value - situation.penalty, sd, ndtr, situation.eligible, points=64)
        return Choice(p, found.value, sd)

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Remember the chosen agent's outcome, or everybody's under full feedback."""
        memory, m = _memory(self), feedback.observed.shape[-1]
        everybody = feedback.observed.all() and m > 1
        for agent in range(m) if everybody else [feedback.agent]:
            index = np.broadcast_to(np.asarray(agent), np.shape(feedback.agent))
            reward = np.take_along_axis(feedback.reward, index[..., None], axis=-1)[..., 0]
            memory.learn(state, index, reward, feedback.context, feedback.t)


@lru_cache(maxsize=16)
def _memory(policy: Auto) -> Memory:
    priors = (_LASTING, _DRIFTING) if policy.forgetting else (_LASTING,)
    return Memory(priors, capacity=policy.capacity, block=policy.block)
