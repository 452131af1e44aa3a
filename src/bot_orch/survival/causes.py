"""Causes for the end of observation of an agent.

*Administrative censoring* (a timeout, a caller's own deadline, a cancelled call, a person who did not answer) means
only that the agent was still running when observation stopped. A *failure* (a crash, out of memory) is a competing
event: the task will never complete, and treating it as censored would overestimate the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats, Ints
from bot_orch.types import Outcome


class Cause(IntEnum):
    """Cause of the end of an attempt; only ``COMPLETED`` has delta = 1 in the paper's notation."""

    CENSORED = 0
    COMPLETED = 1
    CRASHED = 2
    OUT_OF_MEMORY = 3
    OTHER_FAILURE = 4


N_CAUSES = len(Cause) - 1

REASONS: Mapping[str, Cause] = MappingProxyType(
    {
        "ok": Cause.COMPLETED,
        "completed": Cause.COMPLETED,
        "timeout": Cause.CENSORED,
        "deadline": Cause.CENSORED,
        "cancelled": Cause.CENSORED,
        "unanswered": Cause.CENSORED,
        "shutdown": Cause.CENSORED,
        "horizon": Cause.CENSORED,
        "not_applicable": Cause.CENSORED,
        "crash": Cause.CRASHED,
        "crashed": Cause.CRASHED,
        "error": Cause.CRASHED,
        "memout": Cause.OUT_OF_MEMORY,
        "oom": Cause.OUT_OF_MEMORY,
        "out_of_memory": Cause.OUT_OF_MEMORY,
        "other": Cause.OTHER_FAILURE,
        "failed": Cause.OTHER_FAILURE,
    }
)


def cause_of(outcome: Outcome) -> Cause:
    """The cause of one outcome; an unknown reason counts as censoring.

    Examples
    --------
    >>> cause_of(Outcome.censored(elapsed_s=3.0, reason="out_of_memory"))
    <Cause.OUT_OF_MEMORY: 3>
    >>> cause_of(Outcome.censored(elapsed_s=30.0, reason="timeout"))
    <Cause.CENSORED: 0>
    """
    if outcome.event:
        return Cause.COMPLETED
    cause = REASONS.get((outcome.reason or "").strip().lower(), Cause.CENSORED)
    return Cause.CENSORED if cause is Cause.COMPLETED else cause


class ObservedTimes(NamedTuple):
    """Observed data: the time at which observation ended, and its cause."""

    t_s: Floats
    cause: Ints

    @property
    def event(self) -> Any:
        """delta: whether the task completed."""
        return self.cause == Cause.COMPLETED


def observe(
    completion_s: npt.ArrayLike,
    cutoff_s: npt.ArrayLike = np.inf,
    failures_s: Mapping[Cause, npt.ArrayLike] | None = None,
) -> ObservedTimes:
    """The earliest of completion, failures and the administrative cutoff.

    Arguments broadcast, say to (rounds, seeds, agents). A completion exactly at the cutoff counts as observed.

    Examples
    --------
    >>> seen = observe([3.0, 8.0, 9.0], cutoff_s=5.0, failures_s={Cause.CRASHED: [4.0, 4.0, np.inf]})
    >>> seen.t_s, seen.cause
    (array([3., 4., 5.]), array([1, 2, 0]))
    """
    t = np.asarray(completion_s, dtype=float)
    cause: Ints = np.full(t.shape, int(Cause.COMPLETED), dtype=np.int64)
    for code, failure_s in (failures_s or {}).items():
        first = np.asarray(failure_s, dtype=float) < t
        cause, t = np.where(first, int(code), cause), np.minimum(t, failure_s)
    cut = np.asarray(cutoff_s, dtype=float) < t
    return ObservedTimes(np.minimum(t, cutoff_s), np.where(cut, int(Cause.CENSORED), cause))
