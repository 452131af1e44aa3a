"""``/v1/models``: ``auto``, the other routers of the service as ``auto:NAME``, and every agent."""

from __future__ import annotations

from typing import Any

from bot_orch.service.api.gateway.chat_request import AUTO
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.routing.chats import unknown_model
from bot_orch.service.web.endpoint import Request

__all__ = ["models", "one_model"]


async def models(request: Request) -> Reply:
    """``GET /v1/models``."""
    names = ("auto", *_routers(request), *request.runtime.ledger.router.agents)
    return json_reply({"object": "list", "data": [_entry(name) for name in names]})


async def one_model(request: Request) -> Reply:
    """``GET /v1/models/{id}``."""
    name = request.params["id"]
    if name not in AUTO and name not in _routers(request) and name not in request.runtime.ledger.router.agents:
        raise unknown_model()
    return json_reply(_entry(name))


def _routers(request: Request) -> list[str]:
    """Model names that select a router: at the default router all that the caller may use, else only its own."""
    runtime, only = request.runtime, request.caller.router
    every = list(runtime.peers)
    shown = every if only is None and every[:1] == [runtime.config.name] else [runtime.config.name]
    return [f"auto:{name}" for name in shown if name in runtime.peers and request.caller.may_use(name)]


def _entry(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "bot-orch"}
