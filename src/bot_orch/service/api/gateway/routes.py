"""The routes of the gateway; the models that it lists."""

from __future__ import annotations

from functools import partial
from typing import Any

from bot_orch.service.api.gateway.answering import Dialect, answer
from bot_orch.service.api.gateway.chat_request import AUTO
from bot_orch.service.api.gateway.messages import MessagesDialect, MessagesFace
from bot_orch.service.api.gateway.openai import ChatDialect
from bot_orch.service.api.gateway.responses import ResponsesDialect
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.routing.requests import needs_of, size_of
from bot_orch.service.routing.rounds import unknown_model
from bot_orch.service.web.endpoint import JsonFace, Request, RouteSpec


async def _models(request: Request) -> Reply:
    """``GET /v1/models``."""
    aliases = request.runtime.config.router.aliases
    names = ("auto", *request.runtime.ledger.router.agents, *aliases)
    return json_reply({"object": "list", "data": [_entry(name) for name in names]})


async def _one_model(request: Request) -> Reply:
    """``GET /v1/models/{id}``."""
    name = request.params["id"]
    known = {*AUTO, *request.runtime.ledger.router.agents, *request.runtime.config.router.aliases}
    if name not in known:
        raise unknown_model()
    return json_reply(_entry(name))


async def _count_tokens(request: Request) -> Reply:
    """``POST /v1/messages/count_tokens``: an estimate, without a decision or a call."""
    asked = MessagesDialect().read(request.body)
    size = size_of(asked.params, messages=asked.messages)
    needs = needs_of(asked.endpoint, size, params=asked.params, messages=asked.messages)
    return json_reply({"input_tokens": needs.tokens - (size.output_tokens or 0)})


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
    RouteSpec(
        "POST",
        "/v1/messages/count_tokens",
        _count_tokens,
        scope="decide",
        summary="Tokens of a request, as routing estimates them",
        body=dict[str, Any],
        answer=dict[str, int],
        statuses=(200, 413, 422),
        large=True,
        face=MessagesFace,
    ),
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
