"""The routes of the gateway."""

from __future__ import annotations

from typing import Any

from bot_orch.service.api.gateway.chat import complete
from bot_orch.service.api.gateway.completions import complete_text
from bot_orch.service.api.gateway.embeddings import embed
from bot_orch.service.api.gateway.messages import MessagesFace, send_message
from bot_orch.service.api.gateway.models import models, one_model
from bot_orch.service.api.gateway.responses import respond
from bot_orch.service.web.endpoint import Handler, JsonFace
from bot_orch.service.web.routes import RouteSpec

__all__ = ["GATEWAY_ROUTES"]

_STATUSES = (200, 404, 413, 422, 429, 502, 503, 504)


def _asks(path: str, handler: Handler, summary: str, *, face: type[JsonFace] = JsonFace) -> RouteSpec:
    return RouteSpec(
        "POST",
        path,
        handler,
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
    _asks("/v1/chat/completions", complete, "OpenAI-compatible; model auto"),
    _asks("/v1/responses", respond, "OpenAI's Responses"),
    _asks("/v1/messages", send_message, "Anthropic's Messages", face=MessagesFace),
    _asks("/v1/completions", complete_text, "OpenAI's legacy completions"),
    _asks("/v1/embeddings", embed, "Embeddings, among agents that declare them"),
    RouteSpec("GET", "/v1/models", models, scope="decide", summary="auto and every agent", answer=dict[str, Any]),
    RouteSpec(
        "GET",
        "/v1/models/{id:path}",
        one_model,
        scope="decide",
        summary="One of them",
        answer=dict[str, Any],
        statuses=(200, 404),
    ),
)
