"""Our policies with settings other than the defaults; the registry adds each with its defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import ClaimThreshold, Player, PolicyPlayer
from bot_orch.policies.auto import Auto
from bot_orch.policies.registry import make_policy

_auto = partial(PolicyPlayer, Auto(), lambda_="auto")


def _policy(name: str, lambda_: float, settings: dict[str, Any], setup: Setup) -> Player:
    return PolicyPlayer(make_policy(name, **settings), setup, lambda_)


def _tuned(name: str, scale: float) -> Entrant:
    about = f"exploration {scale:g}: earns more with features, locks in without"
    return Entrant(f"{name}-tuned", about, partial(_policy, name, 0.0, {"scale": scale}), default=False)


ENTRANTS = [
    Entrant("auto", "the default policy, lambda auto", _auto),
    Entrant("auto-no-alignment", "auto, lambda 0", partial(_auto, lambda_=0.0), default=False),
    Entrant("auto-no-context", "auto without features", partial(_auto, context=False), default=False),
    Entrant("auto-no-claims", "auto without claims", partial(_auto, claims=False), default=False),
    Entrant(
        "bot",
        "Algorithm 1: softmax over EMA minus alignment, the paper's constants, lambda 1",
        partial(_policy, "bot", 1.0, {}),
    ),
    Entrant(
        "thompson-beta+ot",
        "Beta posteriors minus alignment, lambda 1; differs from thompson-beta where outputs are shown",
        partial(_policy, "thompson-beta", 1.0, {}),
        default=False,
    ),
    _tuned("linucb", 0.3),
    _tuned("lints", 0.2),
    Entrant(
        "claim-threshold",
        "the agent that is surest of itself if it claims 0.9, else one that claims nothing; random without claims",
        partial(PolicyPlayer, ClaimThreshold()),
        default=False,
    ),
]
