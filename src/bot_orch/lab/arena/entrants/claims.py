"""The baseline that routes by claims alone."""

from __future__ import annotations

from bot_orch.lab.arena.registry import Entrant
from bot_orch.lab.environments.replay.bandit import Setup
from bot_orch.lab.harness.claim_threshold import ClaimThreshold
from bot_orch.lab.harness.players import Player, PolicyPlayer

__all__ = ["ENTRANTS"]


def _player(setup: Setup) -> Player:
    return PolicyPlayer(ClaimThreshold(), setup)


ENTRANTS = [
    Entrant(
        "claim-threshold",
        "the agent that is surest of itself if it claims 0.9, else one that claims nothing; random without claims",
        _player,
        default=False,
    )
]
