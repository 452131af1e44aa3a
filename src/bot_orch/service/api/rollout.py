"""``/v1/admin/agents/{id}/drain`` and ``/resume``: take an agent out of service and put it back."""

from __future__ import annotations

from bot_orch.log.events import Noted
from bot_orch.log.rollout import DRAINED, RESUMED
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.web.endpoint import Request

__all__ = ["drain", "resume"]


async def drain(request: Request) -> Reply:
    """``POST /v1/admin/agents/{id}/drain``: no new work for the agent; what it has begun goes on."""
    return await _note(request, DRAINED)


async def resume(request: Request) -> Reply:
    """``POST /v1/admin/agents/{id}/resume``."""
    return await _note(request, RESUMED)


async def _note(request: Request, topic: str) -> Reply:
    """Log the change unless it holds already; the next start, or the next owner, reads it from the log."""
    runtime, name = request.runtime, request.params["id"]
    if name not in runtime.ledger.router.agents:
        raise Problem(404, "unknown_agent", "there is no such agent; see /v1/agents")
    if (name in runtime.ledger.rollout.drained) != (topic == DRAINED):
        note = Noted(topic, name, {"by": request.caller.name})
        await runtime.writer.stage(runtime.writer.stamp(), note, name).durable()
    guard = runtime.guards.get(name)
    in_flight = 0 if guard is None else guard.view().in_flight
    return json_reply({"agent": name, "draining": topic == DRAINED, "in_flight": in_flight})
