"""Replay of runtimes in which a round may ask several agents in turn within one deadline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.arrays import Bools
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay, RoundContext, RoundOutcome
from bot_orch.rng import derive_keys, uniform
from bot_orch.survival.causes import Cause

#: Reason of an outcome that was cut off because another agent was asked.
STOPPED = "cancelled"


class AttemptReplay(Replay):
    """One pass over a matrix of runtimes for one seed.

    Each attempt shows the cell of one agent as far as it was watched; an agent is asked once per round. A run that
    ended by itself without completing leaves its remaining time to the others.

    Parameters
    ----------
    attempts
        How many agents a round may ask.
    feature_time
        Whether computing the features uses up time of the round.

    Examples
    --------
    >>> from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
    >>> times = {"time_s": np.array([[8.0, 3.0]]), "event": np.ones((1, 2)), "cutoff_s": np.array(10.0)}
    >>> replay = AttemptReplay(matrix_from_arrays("toy", times), "given", seed=0, attempts=2)
    >>> first = replay.before(0)
    >>> replay.attempt(0, watched_s=5.0).reason, replay.left_s, replay.again().eligible
    (('cancelled',), 5.0, array([[False,  True]]))
    >>> float(replay.attempt(1, watched_s=5.0).elapsed_s[0]), replay.spent_s, replay.completed
    (3.0, 8.0, True)
    """

    def __init__(
        self,
        matrix: Matrix,
        order: Order = "shuffled",
        rounds: int | None = None,
        *,
        seed: int,
        attempts: int,
        feature_time: bool = False,
        **settings: Any,
    ) -> None:
        if matrix.runtime is None or not matrix.runtime_only:
            problem = f"{matrix.name} has no runtimes to learn from"
            raise InvalidInputError("attempts", problem, "pass a set with time_s, event and cutoff_s and no reward")
        super().__init__(matrix, order, rounds, seeds=[seed], **settings)
        self._runtime, self.attempts = matrix.runtime, attempts
        counted = feature_time and self.inputs is not None and matrix.feature_cost_s is not None
        self._before_s = matrix.feature_cost_s if counted else None
        self._later_keys = derive_keys(["arena attempt", matrix.name], self.seeds)
        self._open: RoundContext | None = None
        self._free: Bools = np.zeros((1, matrix.n_agents), dtype=bool)
        self.spent_s, self.completed, self.asked, self._decisions = 0.0, False, 0, 0

    @property
    def cutoff_s(self) -> float:
        """Seconds of the round as a whole."""
        return float(self._runtime.cutoff_s[self.rows[self._asked, 0], 0])

    @property
    def left_s(self) -> float:
        """Seconds left in the round."""
        return max(0.0, self.cutoff_s - self.spent_s)

    @property
    def last(self) -> bool:
        """Whether the next attempt is the last one of the round."""
        return self.asked + 1 >= self.attempts or int(self._free.sum()) <= 1

    def before(self, t: int) -> RoundContext:
        """Open round ``t`` (from 0); returns what is known before the first attempt. Attempts are numbered globally."""
        found = super().before(t)
        row = int(self.rows[t, 0])
        self._free = np.isfinite(self.matrix.reward[row])[None]
        self.spent_s = 0.0 if self._before_s is None else float(self._before_s[row])
        self.completed, self.asked, self._open = False, 0, found
        return self._numbered(found)

    def again(self) -> RoundContext | None:
        """The context of another attempt; None if the round is over."""
        if self._open is None or self.completed or self.asked >= self.attempts:
            return None
        if self.left_s <= 0.0 or not self._free.any():
            return None
        return self._numbered(self._open)

    def _numbered(self, found: RoundContext) -> RoundContext:
        self._decisions += 1
        return replace(found, t=self._decisions, eligible=self._free.copy())

    def later_draws(self, t: int) -> Any:
        """The random draws of an attempt after the first one, ``(1,)``."""
        return uniform(self._later_keys, t * self.attempts + self.asked)

    def attempt(self, agent: int, *, watched_s: float) -> RoundOutcome:
        """The outcome of one agent, observed for ``watched_s`` seconds."""
        if not self._free[0, agent] or self.asked >= self.attempts:
            raise RuntimeError(f"agent {agent} cannot be asked now; a round asks an agent once, {self.attempts} in all")
        at = (self.rows[self._asked], np.array([agent]))
        time_s, cause, cutoff_s = self._runtime.time_s[at], self._runtime.cause[at], self._runtime.cutoff_s[at]
        ended = (time_s <= watched_s) & ~((cause == Cause.CENSORED) & (watched_s < cutoff_s))
        elapsed_s, cause = np.where(ended, time_s, watched_s), np.where(ended, cause, Cause.CENSORED)
        self._free[0, agent] = False
        self.asked += 1
        self.spent_s += float(elapsed_s[0])
        self.completed = bool(cause[0] == Cause.COMPLETED)
        stopped = not ended[0] and watched_s < cutoff_s[0]
        return RoundOutcome(
            at[1],
            np.full(1, np.nan) if stopped else self._signal(elapsed_s, cause, cutoff_s),
            elapsed_s=elapsed_s,
            cause=cause,
            reason=(STOPPED,) if stopped else None,
        )

    def after(self, t: int, agent: Any, audit: Any = None) -> RoundOutcome:
        """Refused: a round consists of attempts."""
        raise RuntimeError("a round consists of attempts; call attempt()")
