"""Our own policies, without and with context, with the settings they enter with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player, PolicyPlayer
from bot_orch.policies.registry import make_policy

__all__ = ["ENTRANTS"]


def _build(name: str, aligned: bool, settings: dict[str, Any]) -> Callable[[Setup], Player]:
    def build(setup: Setup) -> Player:
        return PolicyPlayer(make_policy(name, **settings), setup, 1.0 if aligned else 0.0)

    return build


def _entrant(name: str, about: str, *, aligned: bool = False, **settings: Any) -> Entrant:
    return Entrant(name, about, _build(name, aligned, settings))


def _tuned(name: str, scale: float) -> Entrant:
    about = f"exploration {scale:g}: earns more with features, locks in without (benchmarks/peers.py)"
    return Entrant(f"{name}-tuned", about, _build(name, False, {"scale": scale}), default=False)


ENTRANTS = [
    _entrant("bot", "Algorithm 1: softmax over EMA minus alignment, the paper's constants, lambda 1", aligned=True),
    _entrant("no-ot", "the same without alignment"),
    _entrant("ucb1", "mean plus confidence radius"),
    _entrant("thompson-beta", "Beta posteriors"),
    Entrant(
        "thompson-beta+ot",
        "Beta posteriors minus alignment, lambda 1; differs from thompson-beta where outputs are shown",
        _build("thompson-beta", True, {}),
        default=False,
    ),
    _entrant("linucb", "ridge regression per agent, the library's default bonus 1"),
    _entrant("lints", "ridge regression per agent, the library's default posterior scale 0.5"),
    _tuned("linucb", 0.3),
    _tuned("lints", 0.2),
    _entrant("discounted-ucb", "discount 0.99, bonus 0.6"),
    _entrant("sliding-window-ucb", "window 200, bonus 0.6"),
    _entrant("exp3-ix", "implicit exploration 0.05"),
    _entrant("epsilon-greedy", "epsilon 0.1"),
]
