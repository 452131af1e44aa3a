"""Vowpal Wabbit's contextual explorers, through ``vowpal-wabbit-next``.

Action-dependent features: the task's features are shared, every agent is one indicator, and ``-q ::`` crosses all, so
that every agent has its own linear model, intercept included. The shared features are the context prepared in hindsight
and, where tasks have texts, their words (``c_CODE``). The cost is one minus the reward, in [0, 1] as RegCB
expects. docs/evidence/benchmarks.md says how its settings were searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import MissingExtraError
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player
from bot_orch.numerics.choice import draw

_BASE = "--cb_explore_adf --quiet"
_SETTINGS = {
    "vw-squarecb": "-q :: --squarecb --gamma_scale 1000",
    "vw-regcb": "-q :: --regcbopt --mellowness 0.01",
    "vw-regcb-sa": "-q sa --regcbopt --mellowness 0.001",
    "vw-softmax": "-q :: --softmax --lambda 10",
}


class VowpalWabbit(Learner):
    """Wraps one workspace; draws from its predicted probabilities and learns with the drawn one."""

    reads_words = True

    def __init__(self, options: str, setup: Setup, seed: int) -> None:
        try:
            import vowpal_wabbit_next as vw
        except ImportError as error:
            raise MissingExtraError("playing against Vowpal Wabbit", "peers") from error
        self._arguments = [*_BASE.split(), *options.split(), "--random_seed", str(seed)]
        self._shown: dict[int, tuple[str, list[int], float]] = {}
        self._open(vw.Workspace(self._arguments))

    def _open(self, workspace: Any) -> None:
        from vowpal_wabbit_next import TextFormatParser

        self._workspace, self._parse = workspace, TextFormatParser(workspace).parse_line

    def pull(self, x: Floats, arms: Sequence[int], u: float) -> int:
        """Predict, then draw."""
        names = [f"{j}:{value:.6g}" for j, value in enumerate(x)] + [f"c_{code}" for code in self.words]
        shared = "shared |s " + " ".join(names)
        predicted: Any = self._workspace.predict_one([self._parse(shared), *(self._parse(f"|a {arm}") for arm in arms)])
        p = np.zeros(len(arms))
        for position, probability in predicted:
            p[position] = probability
        position = int(draw(p, u))
        self._shown[self.t] = (shared, list(arms), float(p[position] / p.sum()))
        return arms[position]

    def update(self, x: Floats, arm: int, reward: float) -> None:
        """Learn with the probability the arm was drawn with."""
        shared, arms, probability = self._shown.pop(self.t)
        label = f"0:{1.0 - reward:.6g}:{probability:.6g} "
        lines = [f"{label if other == arm else ''}|a {other}" for other in arms]
        self._workspace.learn_one([self._parse(shared), *map(self._parse, lines)])

    def saved(self) -> Learner:
        """A workspace from the bytes that the library serialises."""
        from vowpal_wabbit_next import Workspace

        self._open(Workspace(self._arguments, model_data=self._workspace.serialize()))
        return self


def _player(options: str, setup: Setup) -> Player:
    return PerSeedPlayer(setup, partial(VowpalWabbit, options))


ENTRANTS = [
    Entrant(name, f"{_BASE.removesuffix(' --quiet')} {options}", partial(_player, options), kind="peer")
    for name, options in _SETTINGS.items()
]
