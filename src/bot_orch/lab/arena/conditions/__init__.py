"""Conditions: problems that may occur in traffic, each defined once as a change of the replay."""

from bot_orch.lab.arena.conditions.catalog import CONDITIONS, PLAIN, Condition, find_conditions
from bot_orch.lab.arena.conditions.play import play_staged, staged

__all__ = ["CONDITIONS", "PLAIN", "Condition", "find_conditions", "play_staged", "staged"]
