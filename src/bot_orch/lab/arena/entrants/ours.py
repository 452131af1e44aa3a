"""Our policies with other settings than their defaults; the registry adds each with its defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player, PolicyPlayer
from bot_orch.policies.registry import make_policy

__all__ = ["ENTRANTS"]


def _player(name: str, lambda_: float, settings: dict[str, Any], setup: Setup) -> Player:
    return PolicyPlayer(make_policy(name, **settings), setup, lambda_)


def _tuned(name: str, scale: float) -> Entrant:
    about = f"exploration {scale:g}: earns more with features, locks in without (benchmarks/peers.py)"
    return Entrant(f"{name}-tuned", about, partial(_player, name, 0.0, {"scale": scale}), default=False)


ENTRANTS = [
    Entrant(
        "bot",
        "Algorithm 1: softmax over EMA minus alignment, the paper's constants, lambda 1",
        partial(_player, "bot", 1.0, {}),
    ),
    Entrant(
        "thompson-beta+ot",
        "Beta posteriors minus alignment, lambda 1; differs from thompson-beta where outputs are shown",
        partial(_player, "thompson-beta", 1.0, {}),
        default=False,
    ),
    _tuned("linucb", 0.3),
    _tuned("lints", 0.2),
]
