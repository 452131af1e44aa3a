"""Registry of agent kinds, and construction of agents from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from bot_orch.agents.base import AgentRunner
from bot_orch.agents.capabilities import Capabilities
from bot_orch.agents.endpoints import EndpointsRunner
from bot_orch.agents.guard import Guard
from bot_orch.agents.kinds.anthropic import AnthropicRunner, AnthropicSettings
from bot_orch.agents.kinds.human import HumanQueue, HumanRunner, HumanSettings
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.kinds.python import PythonRunner, PythonSettings
from bot_orch.agents.kinds.simulated import SimulatedRunner, SimulatedSettings
from bot_orch.agents.limits import Limits
from bot_orch.errors import InvalidInputError

AgentSettings = OpenAISettings | AnthropicSettings | PythonSettings | HumanSettings | SimulatedSettings

KINDS: Mapping[str, type[AgentSettings]] = MappingProxyType(
    {
        "openai": OpenAISettings,
        "anthropic": AnthropicSettings,
        "python": PythonSettings,
        "human": HumanSettings,
        "simulated": SimulatedSettings,
    }
)
_MANY = 1000  # calls under way to an agent that holds neither threads nor processes


def make_runner(
    agent_id: str,
    settings: AgentSettings,
    limits: Limits | None = None,
    *,
    queue: HumanQueue | None = None,
    capabilities: Capabilities | None = None,
) -> AgentRunner:
    """Build the runner of an agent, without guard."""
    if isinstance(settings, OpenAISettings):
        return _http_runner(settings, limits, (capabilities or Capabilities()).interfaces)
    if isinstance(settings, PythonSettings):
        return PythonRunner(settings, limits)
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
    capabilities: Capabilities | None = None,
    **options: Any,
) -> Guard:
    """Build a guarded agent; ``options`` are passed to :class:`Guard`.

    For people the timeouts are disabled; their only time limit is ``answer_within_s``.

    Examples
    --------
    >>> make_agent("demo", SimulatedSettings()).available
    True
    """
    limits, capabilities = limits or Limits(), capabilities or Capabilities()
    if limits.concurrency is None and not isinstance(settings, PythonSettings):
        limits = replace(limits, concurrency=_MANY)
    if isinstance(settings, HumanSettings):
        limits = replace(limits, first_byte_s=None, total_s=None, idle_s=None)
    if isinstance(settings, AnthropicSettings):
        capabilities = replace(capabilities, interfaces=tuple(dict.fromkeys((*capabilities.interfaces, "messages"))))
    runner = make_runner(agent_id, settings, limits, queue=queue, capabilities=capabilities)
    return Guard(agent_id, runner, limits, capabilities=capabilities, **options)


def _http_runner(settings: OpenAISettings, limits: Limits | None, interfaces: tuple[str, ...]) -> AgentRunner:
    kind: Any = AnthropicRunner if isinstance(settings, AnthropicSettings) else OpenAIRunner
    alone = [
        replace(settings, base_url=url, api_key=key or settings.api_key, model=model or settings.model, places=())
        for url, key, model in settings.places or [(settings.base_url, "", "")]
    ]
    runners = [kind(each, limits, interfaces=interfaces) for each in alone]
    return EndpointsRunner(runners) if settings.places else runners[0]
