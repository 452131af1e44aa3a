"""Shadow calls: an agent is asked beside the chosen one, its answer is judged and learned from, and nobody sees it.

A shadow call is a decision of its own among one agent, marked ``by: shadow``. Its cost counts in the budgets. Rules, a
request's own list of agents and the budget hold for it as for others: where they exclude the agent, it is not asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from bot_orch.errors import BotOrchError
from bot_orch.log.events import DecisionMade
from bot_orch.rng import derive_key, uniform
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.runtime import Runtime

__all__ = ["SHADOW", "drawn_shadows", "unseen"]

SHADOW = "shadow"
_log = logging.getLogger("bot_orch.rounds")


def drawn_shadows(runtime: Runtime, decision: DecisionMade) -> list[str]:
    """Agents to ask beside the one of ``decision``: each is drawn with its rate, by a random stream of its own."""
    rollout, seed = runtime.ledger.rollout, runtime.config.router.seed
    if not runtime.shadows or runtime.stopping or runtime.ledger.kill_switch or runtime.config.router.kill_switch:
        return []
    return [
        name
        for name, rate in runtime.shadows.items()
        if name not in rollout.drained
        and name in runtime.guards
        and runtime.guards[name].available
        and uniform(derive_key(seed, SHADOW, name), decision.counter) < rate
    ]


async def unseen(work: Awaitable[object], runtime: Runtime, agent: str) -> None:
    """Await a shadow call; its failure is logged like others, and is nobody else's problem."""
    runtime.metrics.count("bot_orch_shadow_calls_total", agent=agent)
    try:
        await work
    except (Problem, StorageError):
        return
    except BotOrchError as error:
        _log.warning("shadow call failed", extra={"fields": {"agent": agent, "detail": str(error)}})
