"""Shadow calls: agents asked in the background beside the one whose answer is served."""

from __future__ import annotations

import logging
from typing import Protocol

from bot_orch.agents.base import CallReply
from bot_orch.core.events import DecisionMade
from bot_orch.errors import BotOrchError
from bot_orch.rng import derive_key, uniform
from bot_orch.service.config import BesideConfig
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.routing.rules import ANY, RoutingConstraints, expected_usd
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.rounds")
_SHADOW = "shadow"


def drawn_shadows(runtime: Runtime, decision: DecisionMade) -> list[str]:
    """Agents to call in addition to the decision's, each drawn with its own rate from a separate random stream."""
    rollout, seed = runtime.ledger.rollout, runtime.config.router.seed
    if not runtime.shadows or _stopped(runtime):
        return []
    return [
        name
        for name, rate in runtime.shadows.items()
        if name not in rollout.drained
        and name in runtime.guards
        and runtime.guards[name].available
        and uniform(derive_key(seed, _SHADOW, name), decision.counter) < rate
    ]


def beside(runtime: Runtime, decision: DecisionMade, constraints: RoutingConstraints) -> tuple[str, float] | None:
    """Who is compared with the agent of a decision, with the expected dollars; None for nobody.

    In mode ``observe`` whom the router would choose, otherwise the baseline. An agent that goes on after its own tool
    calls is not compared, nor is one that had to be taken.
    """
    wanted: BesideConfig | None = runtime.config.router.shadow
    if wanted is None or constraints.shadow or constraints.made_by is not None or _stopped(runtime):
        return None
    observes = runtime.config.router.mode == "observe"
    if decision.by != ("observe" if observes else "policy") or (not observes and decision.agent == wanted.baseline):
        return None
    names = [name for name in decision.agents if name != decision.agent] if observes else [wanted.baseline]
    usd = max(expected_usd(names, runtime.guards, constraints.size).values(), default=0.0)
    now_us = runtime.writer.now_us()
    if not runtime.shadow_allowance.take(usd, now_us, wanted.usd_per_day):
        return None
    return (ANY if observes else wanted.baseline), usd


def _stopped(runtime: Runtime) -> bool:
    switch = runtime.ledger.kill_switch
    return bool(runtime.stopping or switch)


class _Call(Protocol):
    runtime: Runtime

    async def run(self) -> CallReply: ...


async def unseen(call: _Call, agent: str) -> None:
    """Make a shadow call; a failure is logged and has no other effect."""
    call.runtime.metrics.count("bot_orch_shadow_calls_total", agent=agent)
    try:
        await call.run()
    except (Problem, StorageError):
        return
    except BotOrchError as error:
        _log.warning("shadow call failed", extra={"fields": {"agent": agent, "detail": str(error)}})
