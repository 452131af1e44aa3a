"""Windows of a quota: requests left, when the next window begins, and how many tasks are expected until then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Field, Floats, Schema

_MEMORY = 300.0  # tasks over which the rate of tasks is a mean


@dataclass(frozen=True, slots=True)
class Windows:
    """Use of a quota of ``requests`` tasks every ``seconds``; times are those of the tasks.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> windows, state = Windows(10.0, 60.0), allocate(Windows(10.0, 60.0).schema, (), 1)
    >>> for time_s in (0.0, 6.0, 12.0):
    ...     windows.pass_task(state, time_s, np.array(1.0))
    >>> left, share = windows.left(state, 12.0)
    >>> float(left), float(windows.left(state, 61.0)[0])
    (7.0, 10.0)
    """

    requests: float
    seconds: float

    @property
    def schema(self) -> Schema:
        """Requests used in the window, its end, the time of the newest task, and the mean time between tasks."""
        return {name: Field(per_agent=False) for name in ("used", "reset", "newest", "gap", "gaps")}

    def left(self, state: Arrays, now: float) -> tuple[Floats, Floats]:
        """Requests left, and the share of the tasks until the reset that may use one."""
        over = (now >= state["reset"]) | (state["gaps"] == 0.0)
        left = np.maximum(np.where(over, self.requests, self.requests - state["used"]), 0.0)
        rest = np.where(over, self.seconds, state["reset"] - now)
        tasks = 1.0 + rest / np.maximum(state["gap"], 1e-9)
        return left, np.where(state["gaps"] < 2.0, 1.0, left / tasks)

    def pass_task(self, state: Arrays, now: float, used: Floats) -> None:
        """Count a task, and whether it used a request."""
        first = state["gaps"] == 0.0
        over = first | (now >= state["reset"])
        passed = np.where(first, 0.0, np.floor((now - state["reset"]) / self.seconds) + 1.0)
        start = np.where(first, now + self.seconds, state["reset"] + passed * self.seconds)
        state["used"][...] = np.where(over, 0.0, state["used"]) + used
        state["reset"][...] = np.where(over, start, state["reset"])
        rate = np.maximum(1.0 / _MEMORY, 1.0 / np.maximum(state["gaps"], 1.0))
        gap = np.maximum(now - state["newest"], 0.0)
        state["gap"] += np.where(first, 0.0, rate * (gap - state["gap"]))
        state["newest"][...] = np.where(first, now, np.maximum(state["newest"], now))
        state["gaps"] += 1.0

    def told(self, state: Arrays, reset_s: Floats) -> None:
        """The next window begins in so many seconds."""
        known = np.isfinite(reset_s) & (state["gaps"] > 0.0)
        state["reset"][...] = np.where(known, state["newest"] + np.nan_to_num(reset_s), state["reset"])
