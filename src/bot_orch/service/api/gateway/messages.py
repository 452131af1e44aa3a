"""``/v1/messages``: Anthropic's clients work unchanged, with ``model="auto"``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import usage_from
from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.api.gateway.frames import ChatPieces, Piece, event_as_sent, named_event
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.web.endpoint import JsonFace

_STOPPED = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class MessagesFace(JsonFace):
    """Error bodies and authentication in the format of Anthropic's clients."""

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """See :class:`Face`."""
        return json_reply(error_document(problem), problem.status, problem.headers)


class MessagesDialect:
    """Anthropic's Messages."""

    endpoint = "messages"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        given = body.get("messages")
        if not isinstance(given, list) or not given or not all(isinstance(each, dict) for each in given):
            raise Problem(400, "missing_messages", "messages: must be a list of messages", param="messages")
        only: list[str] = []
        messages: list[dict[str, Any]] = []
        if system := _plain(body.get("system")):
            messages.append({"role": "system", "content": system})
        for each in given:
            messages += _turn(each, only)
        params, offered = _params(body, only)
        return ChatRequest(
            self.endpoint,
            read_model(body),
            tuple(messages),
            params=params,
            hints=read_hints(body),
            stream=body.get("stream") is True,
            document=native(body),
            only=only[0] if only else "",
            offered=tuple(offered),
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """See :class:`Dialect`."""
        return message_document(chat)

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> MessagesWriter:
        """See :class:`Dialect`."""
        return MessagesWriter(frame)


def _turn(message: Mapping[str, Any], only: list[str]) -> list[dict[str, Any]]:
    """Convert one turn to chat messages: tool results first, each as a separate message."""
    role, content = text_of(message.get("role")) or "user", message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "tool_result", "tool_use_id": str(made)}:
                said = _content([_part(each, only) for each in _listed(block.get("content"))])
                results.append({"role": "tool", "tool_call_id": made, "content": said})
            case {"type": "tool_use", "id": str(made), "name": str(name)}:
                function = {"name": name, "arguments": json.dumps(block.get("input") or {})}
                calls.append({"id": made, "type": "function", "function": function})
            case {"type": "thinking" | "redacted_thinking"}:
                pass  # of the model that wrote it
            case _:
                parts.append(_part(block, only))
    found: dict[str, Any] = {"role": role, "content": _content(parts) if parts else None}
    if calls:
        found["tool_calls"] = calls
    return [*results, *([found] if parts or calls else [])]


def _listed(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _content(parts: list[dict[str, Any]]) -> Any:
    texts = [part["text"] for part in parts if part["type"] == "text"]
    return "".join(texts) if len(texts) == len(parts) else parts


def _part(block: Any, only: list[str]) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": str(media), "data": str(data)}}:
            return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{data}"}}
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": str(other)}:
            only.append(other)
            return {"type": "text", "text": ""}
    raise Problem(400, "invalid_content", "messages: hold a block without a type", param="messages")


def _plain(system: Any) -> str:
    if isinstance(system, str):
        return system
    return "\n\n".join(text_of(each.get("text")) for each in system or () if isinstance(each, Mapping))


def _params(body: Mapping[str, Any], only: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a chat, and the tools that it cannot express but need not use."""
    params = {name: body[name] for name in ("temperature", "top_p") if body.get(name) is not None}
    if body.get("max_tokens") is not None:
        params["max_completion_tokens"] = body["max_tokens"]
    if body.get("stop_sequences"):
        params["stop"] = body["stop_sequences"]
    if isinstance(user := body.get("metadata"), Mapping) and user.get("user_id"):
        params["user"] = user["user_id"]
    tools: list[dict[str, Any]] = []
    offered: list[str] = []
    choice = body.get("tool_choice")
    forced = choice.get("name") if isinstance(choice, Mapping) and choice.get("type") == "tool" else None
    for tool in body.get("tools") or ():
        kind = tool.get("type") or "custom" if isinstance(tool, Mapping) else None
        if kind != "custom":
            needed = forced is not None and isinstance(tool, Mapping) and tool.get("name") == forced
            (only if needed else offered).append(f"tool {kind}")
            continue
        function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
        told = {"description": tool["description"]} if tool.get("description") else {}
        tools.append({"type": "function", "function": {**function, **told}})
    if tools:
        params["tools"] = tools
        params |= _choice(choice)
    elif isinstance(choice, Mapping) and choice.get("type") == "any":
        only += offered
    format_ = (body.get("output_config") or {}).get("format")
    if isinstance(format_, Mapping) and format_.get("type") == "json_schema":
        schema = {"name": "answer", "schema": format_.get("schema")}
        params["response_format"] = {"type": "json_schema", "json_schema": schema}
    if body.get("stream") is True:
        params["stream_options"] = {"include_usage": True}
    return params, offered


def _choice(asked: Any) -> dict[str, Any]:
    if not isinstance(asked, Mapping):
        return {}
    found: dict[str, Any] = {"parallel_tool_calls": False} if asked.get("disable_parallel_tool_use") else {}
    if asked.get("type") == "tool":
        return {**found, "tool_choice": {"type": "function", "function": {"name": asked.get("name")}}}
    return {**found, "tool_choice": _CHOICES.get(str(asked.get("type")), "auto")}


def error_document(problem: Problem) -> dict[str, Any]:
    """Return an error in the format of Anthropic's API."""
    kind = _TYPES.get(problem.status, "invalid_request_error" if problem.status < 500 else "api_error")
    error = {"type": kind, "message": problem.message, "code": problem.code, "param": problem.param}
    return {"type": "error", "error": error if problem.details is None else {**error, "details": problem.details}}


def message_document(chat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a chat completion to a message; only the first choice is used."""
    choice = (chat.get("choices") or [{}])[0]
    message, content = choice.get("message") or {}, []
    said = message.get("content") or message.get("refusal")
    if said:
        content.append({"type": "text", "text": said})
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        content.append(_tool_use(call.get("id"), function.get("name"), _arguments(function.get("arguments"))))
    stopped = _STOPPED.get(choice.get("finish_reason") or "", "end_turn")
    return _message(chat, content, stopped=stopped, counts=_counts(chat.get("usage")))


def _message(frame: Mapping[str, Any], content: list[Any], *, stopped: str | None, counts: Any) -> dict[str, Any]:
    made = str(frame.get("id") or "").removeprefix("chatcmpl-")
    return {
        "id": made if made.startswith("msg_") else f"msg_{made}",
        "type": "message",
        "role": "assistant",
        "model": frame.get("model"),
        "content": content,
        "stop_reason": stopped,
        "stop_sequence": None,
        "usage": counts,
    }


def _tool_use(made: Any, name: Any, given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": made, "name": name, "input": given}


def _arguments(said: Any) -> Any:
    try:
        given = json.loads(said or "{}")
    except (TypeError, ValueError):
        return {"arguments": said}
    return given if isinstance(given, dict) else {"arguments": given}


def _counts(told: Any) -> dict[str, int]:
    """The tokens of a chat, as Anthropic counts them: those of a cache are not among the input."""
    used = usage_from(told)
    return {
        "input_tokens": used.input_tokens - used.cached_tokens - used.cache_write_tokens,
        "cache_creation_input_tokens": used.cache_write_tokens,
        "cache_read_input_tokens": used.cached_tokens,
        "output_tokens": used.output_tokens,
    }


class MessagesWriter:
    """Writes the events of a streamed message; events of an agent that speaks Messages are passed on unchanged.

    Parameters
    ----------
    frame
        Fields of a chat chunk: id and model.
    """

    def __init__(self, frame: Mapping[str, Any]) -> None:
        self._frame, self._pieces = frame, ChatPieces(frame)
        self._passed = self._started = False
        self._place, self._open = -1, ""
        self._stopped = "end_turn"
        self._told: Any = None

    def of(self, chunk: Chunk) -> bytes:
        """See :class:`EventWriter`."""
        if chunk.endpoint == "messages":
            self._passed = True
            return b"" if chunk.raw is None else event_as_sent(chunk.raw)
        return b"".join(named_event(each) for piece in self._pieces.of(chunk) for each in self._of(piece))

    def end(self) -> bytes:
        """See :class:`EventWriter`."""
        return b"" if self._passed else b"".join(map(named_event, self._closing()))

    def failed(self, problem: Problem) -> bytes:
        """See :class:`EventWriter`."""
        return named_event(error_document(problem))

    def _of(self, piece: Piece) -> Iterator[dict[str, Any]]:
        yield from self._start()
        match piece.kind:
            case "text" | "refusal":
                if self._open != "text":
                    yield from self._begin("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": piece.text})
            case "call":
                yield from self._begin("tool", _tool_use(piece.id, piece.name, {}))
            case "arguments":
                yield self._delta({"type": "input_json_delta", "partial_json": piece.text})
            case "finish":
                self._stopped = _STOPPED.get(piece.text, "end_turn")
            case "usage":
                self._told = piece.counts

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._started:
            self._started = True
            frame = {**self._frame, "model": self._pieces.model}
            yield {"type": "message_start", "message": _message(frame, [], stopped=None, counts=_counts(None))}

    def _begin(self, kind: str, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._close()
        self._open, self._place = kind, self._place + 1
        yield {"type": "content_block_start", "index": self._place, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._place, "delta": delta}

    def _close(self) -> Iterator[dict[str, Any]]:
        if self._open:
            self._open = ""
            yield {"type": "content_block_stop", "index": self._place}

    def _closing(self) -> Iterator[dict[str, Any]]:
        yield from self._start()
        yield from self._close()
        delta = {"stop_reason": self._stopped, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": _counts(self._told)}
        yield {"type": "message_stop"}
