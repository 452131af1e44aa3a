"""Outcome matrix: the outcome of each of M agents on each of T tasks.

The matrix holds every outcome; :mod:`bot_orch.lab.environments.replay.bandit` shows a policy only what a live router
would have seen of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeOutcomes:
    """Times to completion, right-censored at a cutoff; every array is ``(T, M)``.

    Attributes
    ----------
    time_s
        When watching ended: the time of completion, of a failure, or the cutoff.
    cause
        Why it ended, a code of :class:`~bot_orch.survival.causes.Cause`.
    cutoff_s
        How long anyone would have watched.
    """

    time_s: Floats
    cause: Ints
    cutoff_s: Floats

    @property
    def event(self) -> Floats:
        """1 where the task was completed within the cutoff."""
        return np.asarray(self.cause == 1, dtype=float)

    @property
    def reward(self) -> Floats:
        """``event * (1 - log(1 + t) / log(1 + cutoff))``: the reported reward of a runtime set."""
        return self.event * np.clip(1.0 - np.log1p(self.time_s) / np.log1p(self.cutoff_s), 0.0, 1.0)

    @property
    def par10(self) -> Floats:
        """The time, ten times the cutoff where the task was not completed."""
        return np.where(self.cause == 1, self.time_s, 10.0 * self.cutoff_s)

    def after(self, spent_s: Floats) -> RuntimeOutcomes:
        """The same runs, started when ``spent_s`` seconds of the cutoff had passed, ``(T,)``.

        Examples
        --------
        >>> runs = RuntimeOutcomes(np.array([[2.0, 7.0]]), np.array([[1, 1]]), np.array([[10.0, 10.0]]))
        >>> runs.after(np.array([5.0])).par10
        array([[  7., 100.]])
        """
        ended = self.time_s + spent_s[:, None]
        cause = np.where(ended > self.cutoff_s, 0, self.cause)
        return RuntimeOutcomes(np.minimum(ended, self.cutoff_s), cause, self.cutoff_s)


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """One data set.

    Attributes
    ----------
    reward
        ``(T, M)`` in [0, 1], the mean over trials where there are several; NaN where an agent cannot take the task.
    trials
        ``(T, M, K)`` single trials, or ``None``; NaN where a cell has fewer than K.
    true_reward
        ``(T, M)``: what the agent was really worth where ``reward`` is a judge's opinion.
    runtime, runtime_only
        Times, and whether ``reward`` was computed from them because the file gives no other.
    features
        ``(T, F)`` known before the choice; NaN where unknown.
    feature_cost_s
        ``(T,)`` seconds that computing the features takes, 0 where unknown; they pass before the agent starts.
    text
        ``(T,)`` the requests, known before the choice.
    elapsed_s, cost_usd
        ``(T, M)``; NaN where unknown.
    output_embed, reference_embed
        ``(T, M, D)`` what each agent produced, ``(T, D)`` what the task wanted.
    output_probs
        ``(T, M, L)``: distributions over labels that agents put out; NaN where an agent puts out none.
    claims
        ``(T, M)`` in [0, 1]: the probability of being right that an agent states of itself before the choice; NaN where
        it states none.
    groups
        ``task_*`` arrays of length T: family, date, category.
    notes
        What a reader has to tell about the file: columns read under another name, arrays not read.
    """

    name: str
    agents: tuple[str, ...]
    reward: Floats
    _: KW_ONLY
    trials: Floats | None = None
    true_reward: Floats | None = None
    runtime: RuntimeOutcomes | None = None
    runtime_only: bool = False
    features: Floats | None = None
    feature_names: tuple[str, ...] = ()
    feature_cost_s: Floats | None = None
    elapsed_s: Floats | None = None
    cost_usd: Floats | None = None
    output_embed: Floats | None = None
    reference_embed: Floats | None = None
    output_probs: Floats | None = None
    claims: Floats | None = None
    text: npt.NDArray[np.str_] | None = None
    groups: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def n_tasks(self) -> int:
        """T."""
        return int(self.reward.shape[0])

    @property
    def n_agents(self) -> int:
        """M."""
        return int(self.reward.shape[1])

    @property
    def eligible(self) -> Bools:
        """Mask ``(T, M)`` of agents that can take a task."""
        return np.isfinite(self.reward)

    @property
    def playable(self) -> Ints:
        """Tasks that at least one agent can take."""
        return np.flatnonzero(self.eligible.any(axis=1))
