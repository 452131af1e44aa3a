"""river's UCB, which reads no context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot_orch.arrays import Floats
from bot_orch.errors import MissingExtraError
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player


class River(Learner):
    """Wraps one policy."""

    def __init__(self, setup: Setup, seed: int) -> None:
        try:
            from river import bandit
        except ImportError as error:
            raise MissingExtraError("playing against river", "peers") from error
        self._policy: Any = bandit.UCB(delta=0.3, seed=seed)

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """The arm that the library pulls; it draws its own random numbers."""
        return int(self._policy.pull(list(arms)))

    def update(self, x: Floats, arm: int, reward: float) -> None:
        """Update the policy."""
        self._policy.update(arm, reward)


def _player(setup: Setup) -> Player:
    return PerSeedPlayer(setup, River, uses_features=False)


ENTRANTS = [Entrant("river-ucb", "UCB(delta=0.3)", _player, kind="peer")]
