"""Registry of agent kinds, and construction of agents from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bot_orch.agents.base import AgentRunner
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.human import HumanQueue, HumanRunner, HumanSettings
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.kinds.python import PythonRunner, PythonSettings
from bot_orch.agents.kinds.simulated import SimulatedRunner, SimulatedSettings
from bot_orch.agents.kinds.subprocess import SubprocessRunner, SubprocessSettings
from bot_orch.agents.limits import Limits
from bot_orch.errors import InvalidInputError

__all__ = ["KINDS", "AgentSettings", "make_agent", "make_runner"]

AgentSettings = OpenAISettings | PythonSettings | SubprocessSettings | HumanSettings | SimulatedSettings

KINDS: Mapping[str, type[AgentSettings]] = MappingProxyType(
    {
        "openai": OpenAISettings,
        "python": PythonSettings,
        "subprocess": SubprocessSettings,
        "human": HumanSettings,
        "simulated": SimulatedSettings,
    }
)


def make_runner(
    agent_id: str, settings: AgentSettings, limits: Limits | None = None, *, queue: HumanQueue | None = None
) -> AgentRunner:
    """Build the runner of an agent, without guard."""
    if isinstance(settings, OpenAISettings):
        return OpenAIRunner(settings, limits)
    if isinstance(settings, PythonSettings):
        return PythonRunner(settings, limits)
    if isinstance(settings, SubprocessSettings):
        return SubprocessRunner(settings, limits)
    if isinstance(settings, SimulatedSettings):
        return SimulatedRunner(settings, agent_id)
    if queue is None:
        raise InvalidInputError(f"agents.{agent_id}", "is a person, but there is no queue", "pass queue")
    return HumanRunner(settings, queue)


def make_agent(
    agent_id: str,
    settings: AgentSettings,
    limits: Limits | None = None,
    *,
    queue: HumanQueue | None = None,
    **options: Any,
) -> Guard:
    """Build a guarded agent; ``options`` are those of :class:`Guard`.

    For people the timeouts are disabled; their only time limit is ``answer_within_s``.

    Examples
    --------
    >>> make_agent("demo", SimulatedSettings()).available
    True
    """
    limits = limits or Limits()
    if isinstance(settings, HumanSettings):
        limits = replace(limits, first_byte_s=None, total_s=None, idle_s=None)
    return Guard(agent_id, make_runner(agent_id, settings, limits, queue=queue), limits, **options)
