"""Broken greedy baselines that a world with known choices must catch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.entrants.greedy import Greedy
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, RoundOutcome
from bot_orch.lab.harness.players import Pick, play

MEANS = np.linspace(0.0, 1.0, 50)


class Forgets(Greedy):
    """Never remembers whom it tried."""

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        pick = super().choose(before, u)
        self._tried[:] = False
        return pick


class Misattributes(Greedy):
    """Learns every reward as its neighbour's."""

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        super().learn(before, replace(after, agent=(after.agent + 1) % len(MEANS)))


class Everybody(Greedy):
    """Draws no few."""

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        self.pool = np.ones_like(self.pool)
        return super().choose(before, u)


class Ignores(Greedy):
    """Does not ask who can take the task."""

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        return super().choose(replace(before, eligible=None), u)


def check_greedy(kind: type[Greedy], reward: np.ndarray) -> None:
    """Raise ``AssertionError`` unless a pool of 12 is tried once and its best agent is followed for the other 24."""
    replay = Replay(Matrix("toy", tuple(f"agent-{i}" for i in range(50)), reward), seeds=range(4))
    player = kind(replay.setup, few=True)
    pools, trace = player.pool.copy(), play(player, replay)
    for seed, pool in enumerate(pools):
        drawn = np.flatnonzero(pool)
        assert sorted(trace.agent[:12, seed]) == drawn.tolist(), "tries"
        assert (trace.agent[12:, seed] == drawn.max()).all(), "follows"


def test_the_entrant_passes() -> None:
    check_greedy(Greedy, np.tile(MEANS, (36, 1)))


@pytest.mark.parametrize("kind", [Forgets, Misattributes, Everybody])
def test_a_broken_one_is_caught(kind: type[Greedy]) -> None:
    with pytest.raises(AssertionError, match="tries|follows"):
        check_greedy(kind, np.tile(MEANS, (36, 1)))


def test_one_that_ignores_who_is_eligible_is_refused() -> None:
    reward = np.tile(MEANS, (36, 1))
    reward[np.random.default_rng(0).random(reward.shape) < 0.5] = np.nan
    with pytest.raises(InvalidInputError, match="cannot take this task"):
        check_greedy(Ignores, reward)
