"""Agents: calls to models, functions and people, with a label for every way in which a call can end."""

from bot_orch.agents.base import AgentRunner, Attempt, CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.breaker import Breaker, BreakerSettings, BreakerState, BreakerView
from bot_orch.agents.capabilities import Capabilities, Needs
from bot_orch.agents.endings import MEANING, Ending, Meaning
from bot_orch.agents.guard import Guard, GuardView
from bot_orch.agents.kinds.anthropic import AnthropicRunner, AnthropicSettings
from bot_orch.agents.kinds.human import HumanAnswer, HumanQueue, HumanRunner, HumanSettings
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.kinds.python import PythonRunner, PythonSettings
from bot_orch.agents.kinds.simulated import SimulatedRunner, SimulatedSettings
from bot_orch.agents.limits import Limits, Price, Retry
from bot_orch.agents.registry import KINDS, AgentSettings, make_agent, make_runner

__all__ = [
    "KINDS",
    "MEANING",
    "AgentRunner",
    "AgentSettings",
    "AnthropicRunner",
    "AnthropicSettings",
    "Attempt",
    "Breaker",
    "BreakerSettings",
    "BreakerState",
    "BreakerView",
    "CallFailure",
    "CallReply",
    "CallRequest",
    "Capabilities",
    "Chunk",
    "Ending",
    "Guard",
    "GuardView",
    "HumanAnswer",
    "HumanQueue",
    "HumanRunner",
    "HumanSettings",
    "Limits",
    "Meaning",
    "Needs",
    "OpenAIRunner",
    "OpenAISettings",
    "Price",
    "PythonRunner",
    "PythonSettings",
    "Retry",
    "SimulatedRunner",
    "SimulatedSettings",
    "Usage",
    "make_agent",
    "make_runner",
]
