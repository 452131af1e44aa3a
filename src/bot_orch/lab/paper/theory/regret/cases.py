"""Streams of rounds on which item 1 is tried: where its bound is nearly met, and where its statement breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.rng import generator

__all__ = ["CASES", "Case", "CaseRounds"]

_GAP_REWARD = np.array([0.55, 0.50, 0.50, 0.45, 0.60, 0.50])
_GAP_ALIGNMENT = np.array([0.10, 0.30, 0.20, 0.30, 0.40, 0.40])
_GAP_NOISE = 0.1


@dataclass(frozen=True, slots=True)
class CaseRounds:
    """One seed: realised rewards and alignment costs, and the expected utility given the task; all ``(T, M)``."""

    reward: Floats
    alignment: Floats
    expected: Floats

    def utility(self, lambda_: float) -> Floats:
        """The utility R - lambda * W."""
        return self.reward - lambda_ * self.alignment


@dataclass(frozen=True, slots=True)
class Case:
    """A stream with utilities R - lambda * W in [low, high]."""

    agents: int
    lambda_: float
    low: float
    _: KW_ONLY
    high: float
    draw: Callable[[int, int], CaseRounds]

    @property
    def width(self) -> float:
        """The range b - a."""
        return self.high - self.low


def _coins(seed: int, rounds: int) -> CaseRounds:
    reward = (generator("theory", "coins", seed).random((rounds, 6)) < 0.5).astype(float)
    return CaseRounds(reward, 1.0 - reward, np.zeros((rounds, 6)))


def _gaps(seed: int, rounds: int) -> CaseRounds:
    rng = generator("theory", "gaps", seed)
    reward = (rng.random((rounds, 6)) < _GAP_REWARD).astype(float)
    alignment = _GAP_ALIGNMENT + _GAP_NOISE * (2.0 * rng.random((rounds, 6)) - 1.0)
    return CaseRounds(reward, alignment, np.broadcast_to(_GAP_REWARD - _GAP_ALIGNMENT, (rounds, 6)))


def _alternating(seed: int, rounds: int) -> CaseRounds:
    task = generator("theory", "alternating", seed).integers(2, size=rounds)
    alignment = (task[:, None] != np.arange(2)).astype(float)
    return CaseRounds(np.full((rounds, 2), 0.5), alignment, 0.5 - alignment)


def _switch(seed: int, rounds: int) -> CaseRounds:  # noqa: ARG001
    second = np.arange(rounds) >= rounds // 4  # the first agent fits a quarter of the rounds, the second the rest
    alignment = (second[:, None] != np.arange(2)).astype(float)
    return CaseRounds(np.full((rounds, 2), 0.5), alignment, 0.5 - alignment)


#: ``coins``: all agents are equal, the worst case of the bound. ``gaps``: one agent is better by 0.15 or more.
#: ``alternating``: the task decides, at random, which of two agents fits. ``switch``: the fit changes once.
CASES: dict[str, Case] = {
    "coins": Case(6, 1.0, -1.0, high=1.0, draw=_coins),
    "gaps": Case(6, 1.0, -0.5, high=1.0, draw=_gaps),
    "alternating": Case(2, 1.0, -0.5, high=0.5, draw=_alternating),
    "switch": Case(2, 1.0, -0.5, high=0.5, draw=_switch),
}
