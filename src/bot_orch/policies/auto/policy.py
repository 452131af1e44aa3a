"""auto: the default policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Schema
from bot_orch.errors import InvalidInputError
from bot_orch.policies.auto.kinds import steps
from bot_orch.policies.auto.ridge import revise
from bot_orch.policies.auto.state import AutoState, flatten, schema
from bot_orch.policies.base import Choice, Feedback, Policy, Situation

__all__ = ["Auto", "coupled_randucb"]

_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Auto(Policy):
    """Coupled RandUCB over a mixture of five reward models, weighted by predictive performance.

    The members: a Gaussian process over tasks and agents, one whose effects fade with time, ridge regressions on the
    features, the agents' mean rewards, and recalibrated claims. Without features the linear member is left out, without
    claims the last. An agent's score is its estimate, minus its penalty, plus a random multiple of its standard
    deviation; the multiple is common to all agents: see :func:`coupled_randucb`. The exploration bonus includes the
    cost times the weight of the prior; otherwise an expensive agent would not be tried.

    Parameters
    ----------
    scale
        Degree of optimism: the root mean square of that random multiple.
    forgetting
        Whether to include the member whose effects fade, and to forget quickly when errors rise.
    capacity
        Rows of the memory of the Gaussian processes. When it is full, similar outcomes of an agent share a row.
    block
        Coefficients updated per outcome.

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
    capacity: int = 768
    block: int = 6
    id: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise InvalidInputError("scale", f"is {self.scale}", "pass a positive number")
        if self.capacity < 2 or self.block < 1:
            problem = f"are {self.capacity} and {self.block}"
            raise InvalidInputError("capacity, block", problem, "pass at least 2 and 1")

    def schema(self, n_features: int) -> Schema:
        """State arrays of all members."""
        return schema(n_features, self.capacity)

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The learned state; a memory of release 0.1 is learned again, row by row."""
        return (
            {**state, **learned} if "levels" in learned or "owner" not in learned else relearned(self, state, learned)
        )

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probability of having the largest randomised upper confidence bound."""
        shape, s = state["uid"].shape, situation
        d, m = state["x"].shape[-1], shape[-1]
        if len(shape) == 1:
            found = np.empty((3, m))
            claims = _nothing(m) if s.claims is None else np.array(s.claims, dtype=float)
            pending, cost = (_zeros(m) if each is None else np.array(each, dtype=float) for each in (s.pending, s.cost))
            eligible = _everybody(m) if s.eligible is None else np.array(s.eligible, dtype=bool)
            x = _zeros(0) if s.context is None or d == 0 else np.array(s.context, dtype=float)
            penalty = np.array(np.broadcast_to(s.penalty, m), dtype=float)
            given = (x, claims, float(s.t), pending, penalty, cost, eligible, self.scale, self.forgetting)
            steps().choose(AutoState(*map(state.__getitem__, AutoState._fields)), *given, found)
            return Choice(*found)
        flat, rows = flatten(state), math.prod(shape[:-1])
        stacked = np.empty((rows, 3, m))
        eligible = _rows(_everybody(m) if s.eligible is None else s.eligible, shape)
        rest = (_rows(_zeros(m) if each is None else each, shape) for each in (s.pending, s.penalty, s.cost))
        x = _rows(_zeros(0) if s.context is None or d == 0 else s.context, (*shape[:-1], d))
        claims = _rows(_nothing(m) if s.claims is None else s.claims, shape)
        steps().choose_rows(flat, x, claims, float(s.t), *rest, eligible, self.scale, self.forgetting, stacked)
        return Choice(*(stacked[:, k].reshape(shape) for k in range(3)))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn the chosen agent's outcome, or all agents' under full feedback."""
        shape, f = state["uid"].shape, feedback
        d, m = state["x"].shape[-1], shape[-1]
        context = _zeros(0) if f.context is None or d == 0 else np.array(f.context, dtype=float)
        claims = _nothing(m) if f.claims is None else np.array(f.claims, dtype=float)
        everybody = range(m) if m > 1 and f.observed.all() else [f.agent]
        if len(shape) == 1:
            one = AutoState(*map(state.__getitem__, AutoState._fields))
            for agent in everybody:
                steps().learn(
                    one, int(agent), float(f.reward[agent]), context, claims, float(f.t), self.block, self.forgetting
                )
            return
        flat, reward = flatten(state), _rows(f.reward, shape)
        x, claims = _rows(context, (*shape[:-1], d)), _rows(claims, shape)
        for agent in everybody:
            index = np.array(np.broadcast_to(agent, shape[:-1]), dtype=np.int64).ravel()
            earned = reward[np.arange(len(index)), index]
            steps().learn_rows(flat, index, earned, x, claims, float(f.t), self.block, self.forgetting)

    @property
    def can_revise(self) -> bool:
        """The data of all members can be changed; their weights keep the error of the earlier lesson."""
        return True

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Change a past reward of one agent in every member, unless its row in the memory was merged or dropped."""
        agent = int(new.agent)
        change = float(new.reward[agent] - old.reward[agent])
        one = AutoState(*map(state.__getitem__, AutoState._fields))
        context = _zeros(0) if new.context is None else new.context
        claims = _nothing(len(one.uid)) if new.claims is None else new.claims
        revise(one, agent, change, x=context, claims=claims, t=float(new.t))


def coupled_randucb(location: Floats, sd: Floats, eligible: Bools | None = None) -> Floats:
    """Coupled RandUCB [1]_: P(agent i has the largest ``location + |Z| * sd``), one standard normal Z for all agents.

    As a function of |Z| each score is a line. An agent has the largest score between two crossings of the upper
    envelope, so its probability is a difference of two values of a distribution function and needs no sampling.

    References
    ----------
    .. [1] Vaswani, Mehrabian, Durand, Kveton. Old dog learns new tricks: randomized UCB for bandit problems.
       AISTATS 2020.

    Examples
    --------
    >>> coupled_randucb(np.array([0.5, 0.4, 0.3]), np.array([0.1, 0.2, 0.1])).round(3)
    array([0.683, 0.317, 0.   ])
    """
    shape = np.broadcast_shapes(location.shape, sd.shape)
    rows = [np.broadcast_to(np.asarray(each, dtype=float), shape).reshape(-1, shape[-1]) for each in (location, sd)]
    open_ = np.ones(shape, dtype=bool) if eligible is None else np.broadcast_to(eligible, shape)
    p = np.empty(shape)
    for height, rise, free, out in zip(*rows, open_.reshape(-1, shape[-1]), p.reshape(-1, shape[-1]), strict=True):
        steps().envelope(np.ascontiguousarray(height), np.ascontiguousarray(rise), np.ascontiguousarray(free), out)
    return p


def _rows(values: npt.NDArray[_Scalar], shape: tuple[int, ...]) -> npt.NDArray[_Scalar]:
    """A fresh contiguous array (rows, width), broadcast over the batch: numba compiles once for such arrays."""
    return np.array(np.broadcast_to(values, shape).reshape(math.prod(shape[:-1]), shape[-1]), order="C")


def relearned(policy: Auto, state: Arrays, old: Arrays) -> Arrays:
    """Teach ``policy`` the outcomes that release 0.1 kept: a ring of rows with agent, reward, round and features."""
    n = min(int(old["seen"]), len(old["owner"]))
    agents, m = {int(uid): index for index, uid in enumerate(old["uid"]) if uid >= 0}, len(old["uid"])
    for row in np.argsort(old["round"][:n], kind="stable"):
        index = agents.get(int(old["owner"][row]))
        if index is not None:
            reward, x = np.full(m, old["reward"][row]), old["x"][row]
            one = np.arange(m) == index
            policy.update(
                state, Feedback(int(old["round"][row]), np.array(index), one, reward, one * 1.0, one * 0.0, x)
            )
    return state


@lru_cache(maxsize=64)
def _everybody(m: int) -> Bools:
    return np.ones(m, dtype=bool)


@lru_cache(maxsize=64)
def _zeros(m: int) -> Floats:
    return np.zeros(m)


@lru_cache(maxsize=64)
def _nothing(m: int) -> Floats:
    return np.full(m, np.nan)
