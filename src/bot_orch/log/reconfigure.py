"""Changes of settings within a log: agents are added or removed, lambda, the policy or the engine is replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot_orch.core.engine import ENGINE
from bot_orch.core.events import Configured
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.settings import Settings
from bot_orch.core.state import agent_to_dict
from bot_orch.core.text import carried_over
from bot_orch.core.warm import WarmStart

__all__ = ["change_to"]


def change_to(router: Orchestrator | None, wanted: Orchestrator, engine: str = ENGINE) -> Configured | None:
    """The event that changes ``router`` to the settings of ``wanted``; ``None`` if nothing changes.

    ``engine`` is the one that the log names so far; a newer one is written down too.
    """
    if router is None:
        return Configured(wanted.to_json(), engine=ENGINE)
    old, new = router.settings, _completed(wanted.settings, router)
    if old.spec() == new.spec() and _by_id(router) == _by_id(wanted) and engine == ENGINE:  # measures have no equality
        return None
    document = Orchestrator.from_settings(new, wanted.members).to_json()
    return Configured(document, keep_learned=old.learned_under() == new.learned_under(), engine=ENGINE)


def _by_id(router: Orchestrator) -> dict[str, Any]:
    return {agent.id: agent_to_dict(agent) for agent in router.members}


def _completed(settings: Settings, router: Orchestrator) -> Settings:
    """Settings completed by what the router inferred from its first task and measure."""
    settings = carried_over(settings, router.settings)
    if isinstance(router.policy, WarmStart) and router.policy.policy == settings.policy:
        settings = replace(settings, policy=router.policy)  # a warm start is learned, not configured
    if settings.alignment is not None or router.alignment is None:
        return settings
    return replace(settings, alignment=replace(router.alignment, units=settings.chosen_units()))
