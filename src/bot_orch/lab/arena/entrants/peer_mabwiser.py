"""mabwiser's linear bandits, on (1, x), where x ends with the words of texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bot_orch.arrays import Floats
from bot_orch.errors import MissingExtraError
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer, with_intercept
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player

_SETTINGS = {"mabwiser-linucb": ("LinUCB", 0.3), "mabwiser-lints": ("LinTS", 0.2)}


class MabWiser(Learner):
    """Wraps one MAB object. It must be fitted before it predicts, so the first pull is random."""

    dense_words = True

    def __init__(self, kind: str, alpha: float, setup: Setup, seed: int) -> None:
        try:
            from mabwiser.mab import MAB, LearningPolicy
        except ImportError as error:
            raise MissingExtraError("playing against mabwiser", "peers") from error
        policy = getattr(LearningPolicy, kind)(alpha=alpha, l2_lambda=1.0)
        self._mab: Any = MAB(list(range(setup.agents)), policy, seed=seed)
        self._fitted = False

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """The eligible arm with the largest expectation."""
        if not self._fitted:
            return arms[int(u * len(arms))]
        value = self._mab.predict_expectations(with_intercept(x)[None])
        return max(arms, key=lambda arm: float(value[arm]))

    def update(self, x: Floats, arm: int, reward: float) -> None:
        """``fit`` the first time, ``partial_fit`` afterwards."""
        learn = self._mab.partial_fit if self._fitted else self._mab.fit
        learn([arm], [reward], with_intercept(x)[None])
        self._fitted = True


def _player(kind: str, alpha: float, setup: Setup) -> Player:
    return PerSeedPlayer(setup, partial(MabWiser, kind, alpha))


ENTRANTS = [
    Entrant(
        name,
        f"{kind}(alpha={alpha:g}, l2_lambda=1){'; slow with many agents' if kind == 'LinTS' else ''}",
        partial(_player, kind, alpha),
        kind="peer",
        default=kind != "LinTS",  # it draws a vector per agent and round
    )
    for name, (kind, alpha) in _SETTINGS.items()
]
