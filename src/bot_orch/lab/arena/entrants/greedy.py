"""Greedy baselines: try agents once, then follow the largest mean reward. No features, no bonus, no randomisation.

Over all agents this is optimism about the untried; over a random few of them it spends fewer rounds on trying. With
many agents and few rounds both are hard to beat (Bayati et al. 2020) [1]_.

References
----------
.. [1] Bayati, Hamidi, Johari, Khosravi. Unreasonable effectiveness of greedy algorithms in multi-armed bandit with many
   arms. NeurIPS 2020.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.attempts import STOPPED
from bot_orch.lab.environments.replay.bandit import RoundContext, RoundOutcome, Setup
from bot_orch.lab.harness.players import Pick, Player
from bot_orch.rng import uniform


def pool_size(agents: int, rounds: int | None) -> int:
    """Twice the square root of the number of rounds, rounded up, at most all agents; all if it is unknown.

    Examples
    --------
    >>> pool_size(1000, 400), pool_size(10, 400), pool_size(1000, None)
    (40, 10, 1000)
    """
    return agents if rounds is None else min(agents, math.ceil(2.0 * math.sqrt(rounds)))


class Greedy(Player):
    """Tries every agent of a pool once in random order, then takes the largest mean reward; ties at random.

    An agent whose first outcome has not come is not chosen again while another of the pool has one. Where no agent of
    the pool can take a task, all that can are the pool of that round.

    Parameters
    ----------
    few
        Whether the pool is a random :func:`pool_size` of the agents instead of all, drawn once per seed.
    """

    uses_features = False

    def __init__(self, setup: Setup, *, few: bool) -> None:
        shape = (setup.seeds, setup.agents)
        self._tried, self._told, self._sum = np.zeros(shape, dtype=bool), np.zeros(shape), np.zeros(shape)
        self._everyone, self._rows = np.ones(shape, dtype=bool), np.arange(setup.seeds)
        drawn = np.stack([uniform(setup.keys, index) for index in range(setup.agents)], axis=1)
        size = pool_size(setup.agents, setup.rounds) if few else setup.agents
        self.pool: Bools = drawn.argsort(axis=1).argsort(axis=1) < size

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """Draw among the agents with the largest mean; untried agents come first."""
        can = self._everyone if before.eligible is None else before.eligible
        among = self.pool & can
        among = np.where(among.any(axis=1, keepdims=True), among, can)
        mean = np.where(self._told > 0.0, self._sum / np.maximum(self._told, 1.0), -1.0)
        value = np.where(among, np.where(self._tried, mean, np.inf), -np.inf)
        best = among & (value == value.max(axis=1, keepdims=True))
        place = (u * best.sum(axis=1)).astype(np.int64)
        agent = (best.cumsum(axis=1) > place[:, None]).argmax(axis=1)
        self._tried[self._rows, agent] = True
        return Pick(agent)

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Learn the truth where it is observed and zero for a timeout, like the other peers."""
        reward = after.reward
        if after.reason is not None:
            reward = np.where([each in ("timeout", STOPPED) for each in after.reason], 0.0, reward)
        if after.truth is not None:
            reward = np.where(np.isfinite(after.truth), after.truth, reward)
        known = np.isfinite(reward)
        self._told[self._rows, after.agent] += known
        self._sum[self._rows, after.agent] += np.where(known, reward, 0.0)


ENTRANTS = [
    Entrant(
        "optimistic-greedy",
        "every agent once, then the largest mean reward; no features",
        partial(Greedy, few=False),
    ),
    Entrant(
        "subsampled-greedy",
        "the same over 2 sqrt(rounds) agents drawn at random (Bayati et al. 2020 draw sqrt(rounds)); no features",
        partial(Greedy, few=True),
    ),
]
