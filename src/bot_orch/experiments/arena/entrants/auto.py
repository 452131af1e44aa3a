"""auto, and auto with one part taken out at a time."""

from __future__ import annotations

from functools import partial

from bot_orch.environments.replay import Setup
from bot_orch.experiments.arena.guides import embedding_guide
from bot_orch.experiments.arena.players import Player, PolicyPlayer
from bot_orch.experiments.arena.registry import Entrant
from bot_orch.policies.auto import Auto

__all__ = ["ENTRANTS"]


def _player(setup: Setup, *, aligned: bool = True, context: bool = True, forgetting: bool = True) -> Player:
    guide = embedding_guide(setup) if aligned else None
    return PolicyPlayer(Auto(forgetting=forgetting), setup, guide, context=context)


ENTRANTS = [
    Entrant("auto", "the default policy, lambda auto", _player),
    Entrant("auto-no-alignment", "auto, lambda 0", partial(_player, aligned=False), default=False),
    Entrant("auto-no-context", "auto without features", partial(_player, context=False), default=False),
    Entrant("auto-no-forgetting", "auto without the drifting model", partial(_player, forgetting=False), default=False),
]
