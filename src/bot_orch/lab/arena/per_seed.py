"""Other libraries in the same replay: one learner per seed, each in its own loop over the tasks.

They bring no preparation of features, so they get the context that is prepared in hindsight: a control that favours
them, as our policies get raw inputs. Where tasks have texts, those that read ``words`` get them, too; the others say in
their description that they do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.text import TextFeatures
from bot_orch.lab.environments.replay.attempts import STOPPED
from bot_orch.lab.environments.replay.bandit import RoundContext, RoundOutcome, Setup
from bot_orch.lab.harness.players import Pick, Player


class Learner(ABC):
    """A bandit of another library, for one seed.

    ``t`` is the round (from 1) that a call is about, and ``now`` the round under way: outcomes may come later.
    ``words`` are the codes of the words of the task that a call is about, for those with ``reads_words``.
    """

    t: int = 0
    now: int = 0
    words: Sequence[int] = ()
    reads_words = False

    @abstractmethod
    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """Choose one of ``arms`` for a task with prepared features ``x`` (empty where there are none)."""

    @abstractmethod
    def update(self, x: Floats, arm: int, reward: float) -> None:
        """Learn the reward of the arm pulled in round ``t``."""

    def saved(self) -> Learner:
        """The learner as its saved state restores it; by default a copy, as pickling would make it."""
        return deepcopy(self)


class PerSeedPlayer(Player):
    """One learner per seed, built from the seed's key."""

    def __init__(self, setup: Setup, build: Callable[[Setup, int], Learner], *, uses_features: bool = True) -> None:
        self.uses_features = uses_features and bool(setup.features or setup.text)
        self._words = TextFeatures.parse(setup.text).words if setup.text else 0
        self._learners = [build(setup, int(key % 2**31)) for key in setup.keys]
        self._everyone = list(range(setup.agents))
        self._nothing = np.zeros((setup.seeds, 0))

    @property
    def reads_words(self) -> bool:
        """Whether the learners receive the words of texts."""
        return self._learners[0].reads_words

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """Pull each learner once, among its eligible arms."""
        x = self._features(before)
        chosen = np.empty(len(self._learners), dtype=np.int64)
        for b, learner in enumerate(self._learners):
            learner.t = learner.now = before.t
            learner.words = self._words_of(before, b)
            arms = self._everyone if before.eligible is None else np.flatnonzero(before.eligible[b]).tolist()
            chosen[b] = learner.pull(x[b], arms, float(u[b]))
        return Pick(chosen)

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Update each learner once: with the truth where it is observed, with zero for a timeout."""
        x = self._features(before)
        for b, learner in enumerate(self._learners):
            reward = float(after.reward[b])
            if after.reason is not None and after.reason[b] in ("timeout", STOPPED):  # it did not complete in its time
                reward = 0.0
            if after.truth is not None and np.isfinite(after.truth[b]):
                reward = float(after.truth[b])
            if np.isfinite(reward):
                learner.t = before.t
                learner.words = self._words_of(before, b)
                learner.update(x[b], int(after.agent[b]), reward)

    def _words_of(self, before: RoundContext, b: int) -> list[int]:
        if not self._words or before.inputs is None:
            return []
        return [int(code) for code in before.inputs[b, -self._words :] if code]

    def _features(self, before: RoundContext) -> Floats:
        """The prepared context."""
        return self._nothing if before.context is None else before.context

    def restarted(self) -> Player:
        """Every learner restored from its saved state."""
        self._learners = [learner.saved() for learner in self._learners]
        return self
