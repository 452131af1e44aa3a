"""Expected seconds of a call per agent, and the probability that it takes longer than a deadline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema
from bot_orch.core.constraints.prices import forgetful_add

_PSEUDO_OUTCOMES = 2.0


@dataclass(frozen=True, slots=True)
class Seconds:
    """Mean seconds per agent, shrunk towards the mean of all agents. A censored outcome counts with its elapsed time.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> state = allocate(Seconds().schema, (), 2)
    >>> Seconds().see(state, np.array(0), np.array(3.0))
    >>> Seconds().means(state)
    array([3., 3.])
    """

    @property
    def schema(self) -> Schema:
        """Seconds and outcomes per agent."""
        return {"seconds": Field(), "outcomes": Field()}

    def means(self, state: Arrays) -> Floats:
        """Mean seconds, ``batch + (M,)``."""
        total, n = state["seconds"], state["outcomes"]
        usual = np.add.reduce(total, axis=-1, keepdims=True) / np.maximum(np.add.reduce(n, axis=-1, keepdims=True), 1.0)
        return np.asarray((total + _PSEUDO_OUTCOMES * usual) / (n + _PSEUDO_OUTCOMES))

    def see(self, state: Arrays, agent: Ints, elapsed_s: Floats, *, before: Floats | None = None) -> None:
        """Record the time of one outcome per batch element, NaN where unknown, replacing ``before`` where known."""
        known = np.isfinite(elapsed_s)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        if before is not None:
            again = known & np.isfinite(before)
            state["seconds"][at] += np.where(again, elapsed_s - before, 0.0)
            known &= ~again
        forgetful_add(state, at, known=known, values={"seconds": np.where(known, elapsed_s, 0.0)})


@dataclass(frozen=True, slots=True)
class Lates:
    """P(late) per agent, with a prior mean of half the ``limit`` worth two outcomes: untried agents count as prompt."""

    limit: float

    @property
    def schema(self) -> Schema:
        """Late outcomes and all outcomes per agent."""
        return {"late": Field(), "outcomes": Field()}

    def means(self, state: Arrays) -> Floats:
        """P(late), ``batch + (M,)``."""
        return np.asarray(
            (state["late"] + 0.5 * _PSEUDO_OUTCOMES * self.limit) / (state["outcomes"] + _PSEUDO_OUTCOMES)
        )

    def see(self, state: Arrays, agent: Ints, late: Floats) -> None:
        """Record one outcome per batch element: 1 late, 0 in time, NaN unknown."""
        known = np.isfinite(late)
        at = (*np.indices(np.shape(agent), sparse=True), agent)
        forgetful_add(state, at, known=known, values={"late": np.where(known, late, 0.0)})


def lateness(elapsed_s: Floats, completed: Bools | None, deadline_s: float) -> Floats:
    """1 late, 0 in time; NaN where the time is unknown or watching ended before the deadline.

    Examples
    --------
    >>> lateness(np.array([1.0, 9.0, 2.0]), np.array([True, True, False]), 8.0)
    array([ 0.,  1., nan])
    """
    cut = np.zeros(np.shape(elapsed_s), dtype=bool) if completed is None else ~np.asarray(completed, dtype=bool)
    with np.errstate(invalid="ignore"):
        late = (elapsed_s > deadline_s) | (cut & (elapsed_s >= deadline_s))
    unknown = ~np.isfinite(elapsed_s) | (cut & ~late)
    return np.where(unknown, np.nan, late.astype(float))
