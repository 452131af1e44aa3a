"""The policy auto and its ablations."""

from __future__ import annotations

from functools import partial

from bot_orch.core.settings import Lambda
from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.players import Player, PolicyPlayer
from bot_orch.policies.auto import Auto

__all__ = ["ENTRANTS", "FIXED_LAMBDAS"]

FIXED_LAMBDAS = (0.1, 0.3, 1.0, 3.0)


def _player(
    setup: Setup, *, lambda_: Lambda = "auto", context: bool = True, claims: bool = True, forgetting: bool = True
) -> Player:
    return PolicyPlayer(Auto(forgetting=forgetting), setup, lambda_, context=context, claims=claims)


ENTRANTS = [
    Entrant("auto", "the default policy, lambda auto", _player),
    Entrant("auto-no-alignment", "auto, lambda 0", partial(_player, lambda_=0.0), default=False),
    Entrant("auto-no-context", "auto without features", partial(_player, context=False), default=False),
    Entrant("auto-no-claims", "auto without claims", partial(_player, claims=False), default=False),
    Entrant("auto-no-forgetting", "auto without the drifting model", partial(_player, forgetting=False), default=False),
    *(
        Entrant(f"auto-lambda-{value:g}", f"auto, lambda {value:g}", partial(_player, lambda_=value), default=False)
        for value in FIXED_LAMBDAS
    ),
]
