"""Agents: how a task reaches a model, a program or a person, and how each way of ending is reported."""

from bot_orch.agents.base import AgentRunner, Attempt, CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.endings import MEANING, Ending, Meaning

__all__ = [
    "MEANING",
    "AgentRunner",
    "Attempt",
    "CallFailure",
    "CallReply",
    "CallRequest",
    "Chunk",
    "Ending",
    "Meaning",
    "Usage",
]
