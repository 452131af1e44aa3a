"""Parsing of answers: strict JSON, and the formats accepted from programs and endpoints."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NoReturn

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk, Usage
from bot_orch.agents.endings import Ending

__all__ = [
    "in_one_piece",
    "load_json",
    "reply_from_completion",
    "reply_from_value",
    "request_document",
    "tool_call_ids",
    "usage_from",
]


def request_document(request: CallRequest) -> dict[str, Any]:
    """The document for a program's standard input."""
    return {
        "id": request.id,
        "text": request.plain(),
        "messages": [dict(message) for message in request.messages],
        "params": dict(request.params),
        "deadline_s": request.deadline_s,
    }


def load_json(data: bytes | str) -> Any:
    """Parse JSON; raises :class:`CallFailure` (``malformed``) for anything else, including NaN and infinities."""
    try:
        return _decode(data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass"))
    except (ValueError, RecursionError):
        raise CallFailure(Ending.MALFORMED) from None


def reply_from_value(value: Any, status: int | None = None) -> CallReply:
    """The reply of a program: a string, or an object with ``text`` or ``output``, ``usage``, ``extra``.

    Examples
    --------
    >>> reply_from_value({"output": {"label": "bug"}}).text
    '{"label": "bug"}'
    """
    if isinstance(value, CallReply):
        return value
    if isinstance(value, str):
        return CallReply(text=value, status=status)
    if not isinstance(value, Mapping) or not ("text" in value or "output" in value):
        raise CallFailure(Ending.MALFORMED, "the answer has neither text nor output")
    output = value.get("output")
    try:
        text = value["text"] if "text" in value else output if isinstance(output, str) else json.dumps(output)
        extra = dict(value.get("extra") or {})
    except (TypeError, ValueError, RecursionError):
        raise CallFailure(Ending.MALFORMED) from None
    if not isinstance(text, str):
        raise CallFailure(Ending.MALFORMED, "the answer's text is not a string")
    return CallReply(text=text, output=output, usage=usage_from(value.get("usage")), status=status, extra=extra)


def reply_from_completion(data: bytes, status: int) -> CallReply:
    """The reply of an OpenAI-compatible endpoint without streaming."""
    document = load_json(data)
    try:
        message = document["choices"][0]["message"]
        content = message.get("content")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise CallFailure(Ending.MALFORMED, "the answer has no choices", status=status) from None
    text = content if isinstance(content, str) else ""
    usage = usage_from(document.get("usage"))
    made = tool_call_ids(message)
    extra = {"completion_id": document.get("id"), "finish_reason": document["choices"][0].get("finish_reason")}
    return CallReply(text=text, output=message, usage=usage, status=status, raw=data, extra=extra, made=made)


def tool_call_ids(message: Any) -> tuple[str, ...]:
    """Ids of the tool calls in a message, or in a piece of one.

    Examples
    --------
    >>> tool_call_ids({"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function"}, {"index": 1}]})
    ('call_1',)
    """
    calls = message.get("tool_calls") if isinstance(message, Mapping) else None
    if not isinstance(calls, list):
        return ()
    ids = (call.get("id") for call in calls if isinstance(call, Mapping))
    return tuple(each for each in ids if isinstance(each, str) and each)


async def in_one_piece(reply: CallReply) -> AsyncGenerator[Chunk, None]:
    """Convert a reply to a stream with a single content chunk; tool calls and finish reasons are kept."""
    event = None if reply.raw is None else _as_event(reply.raw)
    yield Chunk(reply.text, raw=event, more=event is not None)
    yield Chunk(reply=reply)


def _as_event(raw: bytes) -> bytes | None:
    """Convert a chat completion to a single stream event; ``None`` for any other document."""
    try:
        document = load_json(raw)
        choices = [_as_delta(choice) for choice in document["choices"]]
    except (CallFailure, TypeError, KeyError, ValueError, AttributeError):
        return None
    return json.dumps({**document, "object": "chat.completion.chunk", "choices": choices}).encode() if choices else None


def _as_delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    delta = dict(choice["message"])
    calls = delta.get("tool_calls")
    if calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return {**{name: value for name, value in choice.items() if name != "message"}, "delta": delta}


def usage_from(value: Any) -> Usage:
    """Token counts, as ``prompt_tokens``/``completion_tokens`` or ``input_tokens``/``output_tokens``; else zero."""
    if isinstance(value, Usage):
        return value
    if not isinstance(value, Mapping):
        return Usage()
    first = value.get("prompt_tokens", value.get("input_tokens"))
    second = value.get("completion_tokens", value.get("output_tokens"))
    return Usage(_count(first), _count(second))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else 0


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode  # json.loads() would make one for every document
