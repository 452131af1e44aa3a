"""A request to the gateway in the terms of a chat, and the round that serves it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import msgspec

from bot_orch.agents.base import CallRequest
from bot_orch.arrays import nan_for_null
from bot_orch.log.events import TaskRecord
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.api.bodies import ChatAside, ChatHints
from bot_orch.service.api.decisions import session_of
from bot_orch.service.judging.completions import is_noted
from bot_orch.service.loops import results_in
from bot_orch.service.problems import Problem
from bot_orch.service.routing.estimates import size_of
from bot_orch.service.routing.needs import needs_of
from bot_orch.service.routing.prompt import prompt_of
from bot_orch.service.routing.rounds import Round
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.web.endpoint import Request

__all__ = [
    "AUTO",
    "ChatRequest",
    "check_held",
    "make_round",
    "native",
    "read_hints",
    "read_model",
    "text_of",
    "unknown_model",
]

AUTO = frozenset({"auto", "bot-orch", "bot-orch/auto"})
_NO_HINTS = ChatHints()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request asks for.

    Parameters
    ----------
    endpoint
        The interface that was asked.
    model
        ``auto``, or the name of an agent.
    messages, params
        The request as a chat.
    hints
        For the router.
    stream
        Whether the answer is wanted in pieces.
    document
        The request as it came, for agents that speak this interface themselves.
    only
        The part of the request that a chat cannot express.
    refers_to
        Ids of earlier answers that the request builds on, beside the results of tools in the messages.
    held
        State at the agent's endpoint that the request builds on, of which it is not known whose it is.
    user
        Who the request is for, as the caller names them.
    """

    endpoint: str
    model: str
    messages: tuple[Mapping[str, Any], ...]
    _: KW_ONLY
    params: Mapping[str, Any]
    hints: ChatHints = _NO_HINTS
    stream: bool = False
    document: Mapping[str, Any] | None = None
    only: str = ""
    refers_to: tuple[str, ...] = ()
    held: str = ""
    user: str = ""
    text: str = field(default="", repr=False)


def read_model(body: Mapping[str, Any]) -> str:
    """The model of a request."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Problem(400, "missing_model", "model: is missing; write auto or the name of an agent", param="model")
    return model


def read_hints(body: Mapping[str, Any]) -> ChatHints:
    """The hints of a request for the router."""
    return msgspec.convert({"bot_orch": body.get("bot_orch")}, ChatAside).bot_orch or ChatHints()


def native(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request as an agent gets it that speaks its interface."""
    return {name: value for name, value in body.items() if name != "bot_orch"}


def text_of(value: Any) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""


def unknown_model() -> Problem:
    """The answer to a model that is no agent."""
    return Problem(404, "model_not_found", "there is no such model; see /v1/models", param="model")


async def check_held(request: Request, asked: ChatRequest) -> None:
    """Refuse what a tenant wants to go on from at an agent's endpoint, unless it is known to be its own."""
    tenant, runtime = request.caller.tenant, request.runtime
    if not tenant:
        return
    if asked.held:
        message = f"{asked.held}: is kept for all tenants by the agent; send the messages instead"
        raise Problem(422, "not_for_tenants", message, param=asked.held)
    for each in asked.refers_to:
        if runtime.loops.agent_of(request.caller.key, (each,)) is None and not await is_noted(runtime, each, tenant):
            message = "previous_response_id: there is no such response; send the messages instead"
            raise Problem(404, "previous_response_not_found", message, param="previous_response_id")


def make_round(request: Request, asked: ChatRequest, *, trace: Mapping[str, str]) -> Round:
    """The round that serves a request."""
    runtime, caller = request.runtime, request.caller
    eligible = None if asked.model in AUTO else (asked.model,)
    if eligible is not None and asked.model not in runtime.ledger.router.agents:
        raise unknown_model()
    hints, messages, params = asked.hints, asked.messages, asked.params
    kind = hints.kind or ("embeddings" if asked.endpoint == "embeddings" else "")
    size = size_of(params, text=asked.text, messages=messages)
    constraints = RoutingConstraints(
        kind,
        eligible,
        session_of(request, hints.session or None) or _session(request, asked),
        size=size,
        calls=True,
        chat=True,
        token=caller.name,
        tenant=caller.tenant,
        tags=request.tags,
        needs=needs_of(asked.endpoint, size, params=params, messages=messages, region=hints.region, only=asked.only),
        made_by=runtime.loops.agent_of(caller.key, (*asked.refers_to, *results_in(messages))),
    )
    call = CallRequest(
        "",
        messages=messages,
        params=params,
        stream=asked.stream,
        headers=trace,
        endpoint=asked.endpoint,
        document=asked.document,
        region=hints.region,
    )
    task_id = f"chat-{time_ordered_id(runtime.writer.now_us())}"
    record = TaskRecord(task_id, kind, nan_for_null(hints.features), hints.reference, hints.profiles, hints.claims)
    text = None if runtime.ledger.router.settings.text is None else asked.text or prompt_of(messages)  # not logged
    return Round(runtime, record, constraints, call=call, text=text)


def _session(request: Request, asked: ChatRequest) -> str | None:
    """The session of a request that names none: its user or its conversation, as a digest that is safe to log."""
    settings, token = request.runtime.config.router, request.caller.name
    by = settings.sticky_by
    if by == "session" or settings.sticky_s <= 0:
        return None
    if by == "user":
        return request.inside(_digest("user", token, asked.user)) if asked.user else None
    first = next((place for place, each in enumerate(asked.messages) if each.get("role") == "user"), None)
    if first is None:
        return None
    said = (repr(each.get("content")) for each in asked.messages[: first + 1])
    return request.inside(_digest("conversation", token, *said))


def _digest(*parts: str) -> str:
    said = "\0".join(parts).encode("utf-8", "surrogatepass")
    return f"{parts[0]}:{hashlib.blake2b(said, digest_size=12).hexdigest()}"
