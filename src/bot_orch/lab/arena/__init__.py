"""The arena: policies and peers replayed over matrices of real outcomes."""

from bot_orch.lab.arena.league import league_frame, results_frame
from bot_orch.lab.arena.registry import Entrant, discover_entrants
from bot_orch.lab.harness.players import Pick, Player, PolicyPlayer, play

__all__ = ["Entrant", "Pick", "Player", "PolicyPlayer", "discover_entrants", "league_frame", "play", "results_frame"]
