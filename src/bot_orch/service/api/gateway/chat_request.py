"""A request to the gateway in the terms of a chat."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from bot_orch.agents.base import CallRequest
from bot_orch.core.events import TaskRecord
from bot_orch.service.api.bodies import ChatAside, ChatHints
from bot_orch.service.problems import Problem
from bot_orch.service.routing.requests import needs_of, prompt_of, size_of
from bot_orch.service.routing.rounds import ChatTask
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.web.endpoint import Request

AUTO = frozenset({"auto", "bot-orch", "bot-orch/auto"})
_NO_HINTS = ChatHints()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A parsed request to the gateway.

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
    offered
        Tools of the endpoint that the answer may use and need not: left out if no agent has them.
    refers_to
        Ids of earlier answers that the request builds on, in addition to tool results in the messages.
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
    offered: tuple[str, ...] = ()
    refers_to: tuple[str, ...] = ()


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
    """The request body for an agent with the same interface."""
    return {name: value for name, value in body.items() if name != "bot_orch"}


def text_of(value: Any) -> str:
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def chat_task(request: Request, asked: ChatRequest) -> ChatTask:
    """The properties of a request that the choice of an agent depends on."""
    caller, hints, messages = request.caller, asked.hints, asked.messages
    size = size_of(asked.params, messages=messages)
    encodes = request.runtime.config.router.encoder is not None
    return ChatTask(
        TaskRecord.of("", hints),
        RoutingConstraints(
            hints.kind,
            None if asked.model in AUTO else (asked.model,),
            hints.session or _session(request, asked),
            size=size,
            calls=True,
            chat=True,
            token=caller.name,
            tags=request.tags,
            needs=needs_of(asked.endpoint, size, params=asked.params, messages=messages, only=asked.only),
        ),
        refers_to=asked.refers_to,
        results=tuple(_results_in(messages)),
        text=prompt_of(messages) if encodes else None,
    )


def call_of(asked: ChatRequest, trace: Mapping[str, str]) -> CallRequest:
    """The call to send to agents."""
    return CallRequest(
        "",
        messages=asked.messages,
        params=asked.params,
        stream=asked.stream,
        headers=trace,
        endpoint=asked.endpoint,
        document=asked.document,
    )


def _session(request: Request, asked: ChatRequest) -> str | None:
    """The session of a request without one: a digest of its messages up to the user's first one, safe to log."""
    if request.runtime.config.router.sticky_s <= 0:
        return None
    first = next((place for place, each in enumerate(asked.messages) if each.get("role") == "user"), None)
    if first is None:
        return None
    said = (repr(each.get("content")) for each in asked.messages[: first + 1])
    parts = "\0".join(("conversation", request.caller.name, *said))
    return f"conversation:{hashlib.blake2b(parts.encode('utf-8', 'surrogatepass'), digest_size=12).hexdigest()}"


def _results_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the tool calls whose results end the chat.

    Examples
    --------
    >>> _results_in([{"role": "user"}, {"role": "tool", "tool_call_id": "a"}, {"role": "tool", "tool_call_id": "b"}])
    ['b', 'a']
    >>> _results_in([{"role": "tool", "tool_call_id": "a"}, {"role": "user"}])
    []
    """
    found: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        if isinstance(made := message.get("tool_call_id"), str):
            found.append(made)
    return found
