"""Mode observe: the router's choice is asked in the background beside the agent whose answer is served."""

from __future__ import annotations

import logging
from typing import Protocol

from bot_orch.agents.base import CallReply
from bot_orch.core.events import DecisionMade
from bot_orch.errors import BotOrchError
from bot_orch.service.problems import Problem, StorageError
from bot_orch.service.routing.rules import RoutingConstraints, expected_usd
from bot_orch.service.runtime import Runtime

_log = logging.getLogger("bot_orch.rounds")


def dollars_to_compare(runtime: Runtime, decision: DecisionMade, constraints: RoutingConstraints) -> float | None:
    """The dollars taken for a comparison of the router's choice with a decision; None if it is not compared.

    An agent that goes on after its own tool calls is not compared, nor is one that had to be taken.
    """
    observe = runtime.config.router.observe
    if observe is None or constraints.unseen or constraints.made_by is not None or decision.by != "observe":
        return None
    if runtime.stopping or runtime.ledger.kill_switch:
        return None
    others = [name for name in decision.agents if name != decision.agent]
    usd = max(expected_usd(others, runtime.guards, constraints.size).values(), default=0.0)
    return usd if runtime.shadow_allowance.take(usd, runtime.writer.now_us(), observe.usd_per_day) else None


class _Call(Protocol):
    runtime: Runtime

    async def run(self) -> CallReply: ...


async def ask_unseen(call: _Call) -> None:
    """Make a call whose answer is not served; a failure is logged and has no other effect."""
    call.runtime.metrics.count("bot_orch_shadow_calls_total")
    try:
        await call.run()
    except (Problem, StorageError):
        return
    except BotOrchError as error:
        _log.warning("shadow call failed", extra={"fields": {"detail": str(error)}})
