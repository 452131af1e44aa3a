"""The pipeline and the orchestrator around it."""

from bot_orch.core.orchestrator import Orchestrator

__all__ = ["Orchestrator"]
