"""river's bandits: UCB and Thompson without context, LinUCB with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bot_orch.arrays import Floats
from bot_orch.errors import MissingExtraError
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player
from bot_orch.rng import derive_key, uniform


class River(Learner):
    """Wraps one policy. River's Thompson sampling counts wins, so a reward is a win with that probability."""

    def __init__(self, kind: str, setup: Setup, seed: int) -> None:
        try:
            from river import bandit, proba
        except ImportError as error:
            raise MissingExtraError("playing against river", "peers") from error
        makers: dict[str, Callable[[], Any]] = {
            "ucb": lambda: bandit.UCB(delta=0.3, seed=seed),
            "thompson": lambda: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed),
            "linucb": lambda: bandit.LinUCBDisjoint(alpha=1.0, beta=10.0, seed=seed),
        }
        self._policy = makers[kind]()
        self._binary, self._contextual = kind == "thompson", kind == "linucb"
        self._key, self._n = derive_key("river coin", seed), 0

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """The arm that the library pulls; it draws its own random numbers."""
        arms = list(arms)
        return int(self._policy.pull(arms, _named(x)) if self._contextual else self._policy.pull(arms))

    def update(self, x: Floats, arm: int, reward: float) -> None:
        """Update the policy; Thompson sampling gets a coin flip with the reward's probability."""
        self._n += 1
        if self._contextual:
            self._policy.update(arm, _named(x), reward)
        elif self._binary:
            self._policy.update(arm, uniform(self._key, self._n) < reward)
        else:
            self._policy.update(arm, reward)


def _named(x: Floats) -> dict[str, float]:
    return {"one": 1.0, **{str(j): float(value) for j, value in enumerate(x)}}


def _player(kind: str, setup: Setup) -> Player:
    return PerSeedPlayer(setup, partial(River, kind), uses_features=kind == "linucb")


ENTRANTS = [
    Entrant("river-ucb", "UCB(delta=0.3)", partial(_player, "ucb"), kind="peer"),
    Entrant("river-thompson", "ThompsonSampling(Beta)", partial(_player, "thompson"), kind="peer"),
    Entrant(
        "river-linucb",
        "LinUCBDisjoint(alpha=1, beta=10); slow; components of texts, no words",
        partial(_player, "linucb"),
        kind="peer",
        default=False,
    ),
]
