"""The orchestrator, its engine and its state."""

from bot_orch.core.orchestrator import Orchestrator

__all__ = ["Orchestrator"]
