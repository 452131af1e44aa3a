"""The routes of the gateway; the models that it lists."""

from __future__ import annotations

from functools import partial
from typing import Any

from bot_orch.service.api.gateway.answering import Dialect, answer
from bot_orch.service.api.gateway.chat_request import AUTO
from bot_orch.service.api.gateway.messages import MessagesDialect, MessagesFace
from bot_orch.service.api.gateway.openai import ChatDialect, CompletionsDialect, EmbeddingsDialect
from bot_orch.service.api.gateway.responses import ResponsesDialect
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.routing.rounds import unknown_model
from bot_orch.service.web.endpoint import JsonFace, Request, RouteSpec

__all__ = ["GATEWAY_ROUTES"]


async def _models(request: Request) -> Reply:
    """``GET /v1/models``."""
    names = ("auto", *_routers(request), *request.runtime.ledger.router.agents)
    return json_reply({"object": "list", "data": [_entry(name) for name in names]})


async def _one_model(request: Request) -> Reply:
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


_STATUSES = (200, 404, 413, 422, 429, 502, 503, 504)


def _asks(path: str, dialect: Dialect, summary: str, *, face: type[JsonFace] = JsonFace) -> RouteSpec:
    return RouteSpec(
        "POST",
        path,
        partial(answer, dialect),
        scope="decide",
        summary=summary,
        body=dict[str, Any],
        answer=dict[str, Any],
        statuses=_STATUSES,
        watch=True,
        large=True,
        face=face,
        carried=True,
    )


GATEWAY_ROUTES: tuple[RouteSpec, ...] = (
    _asks("/v1/chat/completions", ChatDialect(), "OpenAI-compatible; model auto"),
    _asks("/v1/responses", ResponsesDialect(), "OpenAI's Responses"),
    _asks("/v1/messages", MessagesDialect(), "Anthropic's Messages", face=MessagesFace),
    _asks("/v1/completions", CompletionsDialect(), "OpenAI's legacy completions"),
    _asks("/v1/embeddings", EmbeddingsDialect(), "Embeddings, among agents that declare them"),
    RouteSpec("GET", "/v1/models", _models, scope="decide", summary="auto and every agent", answer=dict[str, Any]),
    RouteSpec(
        "GET",
        "/v1/models/{id:path}",
        _one_model,
        scope="decide",
        summary="One of them",
        answer=dict[str, Any],
        statuses=(200, 404),
    ),
)
