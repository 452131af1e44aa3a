"""Chats as requests to Anthropic's Messages, and its answers as chat completions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending

__all__ = ["FINISH", "chat_from_message", "message_request"]

FINISH: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause_turn": "stop",
    "model_context_window_exceeded": "length",
}
"""Finish reasons of a chat, by stop reason."""

_SAME = ("temperature", "top_p", "top_k", "thinking", "metadata", "service_tier")
_CHOICES: Mapping[str, dict[str, Any]] = {
    name: {"type": kind} for name, kind in (("auto", "auto"), ("none", "none"), ("required", "any"))
}


def message_request(
    messages: Iterable[Mapping[str, Any]], params: Mapping[str, Any], *, model: str, max_tokens: int
) -> dict[str, Any]:
    """The request for a chat.

    Examples
    --------
    >>> chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    >>> message_request(chat, {"stop": "."}, model="m", max_tokens=100)
    {'model': 'm', 'max_tokens': 100, 'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': '2 + 2?'}]}],
     'system': 'Be brief.', 'stop_sequences': ['.']}
    """
    system, turns = _turns(messages)
    most = params.get("max_completion_tokens") or params.get("max_tokens") or max_tokens
    document: dict[str, Any] = {"model": model, "max_tokens": most, "messages": turns}
    if system:
        document["system"] = system
    document |= {name: params[name] for name in _SAME if params.get(name) is not None}
    stop = params.get("stop")
    if stop:
        document["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if isinstance(params.get("user"), str) and "metadata" not in document:
        document["metadata"] = {"user_id": params["user"]}
    if params.get("tools"):
        document["tools"] = [_tool(tool) for tool in params["tools"]]
    document |= _choice(params)
    format_ = params.get("response_format")
    if isinstance(format_, Mapping) and format_.get("type") == "json_schema":
        schema = (format_.get("json_schema") or {}).get("schema") or {}
        document["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return document


def chat_from_message(document: Mapping[str, Any]) -> dict[str, Any]:
    """A message as a chat completion."""
    said: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in document["content"]:
        if block["type"] == "text":
            said.append(block["text"])
        elif block["type"] == "tool_use":
            function = {"name": block["name"], "arguments": json.dumps(block["input"])}
            calls.append({"id": block["id"], "type": "function", "function": function})
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said) if said or not calls else None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": FINISH.get(document.get("stop_reason") or "", "stop")}
    return {
        "id": document.get("id"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": document.get("model"),
        "choices": [choice],
        "usage": chat_usage(document.get("usage") or {}),
    }


def chat_usage(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Token counts of a chat; tokens read from or written to a cache are part of the prompt."""
    kept = counts.get("cache_read_input_tokens") or 0
    read = (counts.get("input_tokens") or 0) + kept + (counts.get("cache_creation_input_tokens") or 0)
    written = counts.get("output_tokens") or 0
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {**usage, "prompt_tokens_details": {"cached_tokens": kept}} if kept else usage


def _turns(messages: Iterable[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """The system text, and the turns, with consecutive messages of one role merged, as the interface requires."""
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            system.append(_text(message.get("content")))
            continue
        blocks = _blocks(message)
        role = "assistant" if role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return "\n\n".join(system), turns


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    if message.get("role") == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
        return [{**result, "content": _parts(message.get("content"))}]
    blocks = _parts(message.get("content"))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        blocks.append(
            {"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": _input(function)}
        )
    return blocks


def _input(function: Mapping[str, Any]) -> Any:
    try:
        return json.loads(function.get("arguments") or "{}")
    except ValueError:
        message = "the arguments of a tool call in the chat are no JSON"
        raise CallFailure(Ending.UPSTREAM_4XX, message, started=False, status=400) from None


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    found = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, Mapping) and part.get("type") == "image_url":
            found.append({"type": "image", "source": _source((part.get("image_url") or {}).get("url") or "")})
        elif isinstance(part, Mapping) and isinstance(part.get("text"), str) and part["text"]:
            found.append({"type": "text", "text": part["text"]})
    return found


def _source(url: str) -> dict[str, Any]:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    return {"type": "base64", "media_type": head.partition(";")[0], "data": data}


def _text(content: Any) -> str:
    return "\n\n".join(part["text"] for part in _parts(content) if part["type"] == "text")


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {}
    made = {"name": function.get("name"), "input_schema": function.get("parameters") or {"type": "object"}}
    return {**made, "description": function["description"]} if function.get("description") else made


def _choice(params: Mapping[str, Any]) -> dict[str, Any]:
    asked = params.get("tool_choice")
    choice: dict[str, Any] | None = None
    if isinstance(asked, str):
        choice = _CHOICES.get(asked)
    elif isinstance(asked, Mapping):
        choice = {"type": "tool", "name": (asked.get("function") or {}).get("name")}
    if params.get("parallel_tool_calls") is False and params.get("tools"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {} if choice is None else {"tool_choice": choice}
