"""A thread-safe orchestrator that calls agents given as Python functions and can keep its state in a file."""

from bot_orch.router.attempts import Call
from bot_orch.router.history import RecentRounds
from bot_orch.router.routing import Router

__all__ = ["Call", "RecentRounds", "Router"]
