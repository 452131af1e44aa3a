"""Models behind Anthropic's Messages: chats are translated, requests to ``/v1/messages`` are passed on."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.limits import Limits
from bot_orch.agents.replies import Accumulator, accumulate, asks_for_counts, load_json, read_reply
from bot_orch.agents.tokens import prompt_tokens

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

VERSION = "2023-06-01"
"""Of the interface."""

_MOST_TOKENS = 4096  # of answers to requests that set no limit; the interface needs one
_SAME = ("temperature", "top_p", "top_k", "thinking", "metadata", "service_tier")
_CHOICES: Mapping[str, dict[str, Any]] = {
    name: {"type": kind} for name, kind in (("auto", "auto"), ("none", "none"), ("required", "any"))
}


@dataclass(frozen=True, slots=True)
class AnthropicSettings(OpenAISettings):
    """Connection settings, like :class:`OpenAISettings`."""


class AnthropicRunner(OpenAIRunner):
    """Runner that calls the endpoint over persistent connections."""

    def __init__(
        self, settings: AnthropicSettings, limits: Limits | None = None, *, interfaces: Collection[str] = ()
    ) -> None:
        super().__init__(settings, limits, interfaces={*interfaces, "messages"})
        self._own = settings
        self._url = settings.url("messages")
        self._headers["anthropic-version"] = VERSION
        if settings.api_key:
            self._headers.pop("Authorization")
            self._headers["x-api-key"] = settings.api_key

    def _document(self, request: CallRequest) -> dict[str, Any]:
        if request.endpoint == "messages":
            return super()._document(request)
        return message_request(request.chat(), request.params, model=self._own.model, max_tokens=_MOST_TOKENS)

    def _at(self, request: CallRequest) -> str:
        return self._url

    def _read(self, data: bytes, status: int, request: CallRequest) -> CallReply:
        reply = read_reply("messages", data, status)
        if request.endpoint == "messages":
            return reply
        try:
            chat = chat_from_message(load_json(data))
        except (TypeError, KeyError, AttributeError):
            raise CallFailure(Ending.MALFORMED, "the answer is no message", status=status) from None
        output = chat["choices"][0]["message"]
        return replace(reply, raw=json.dumps(chat).encode(), output=output, endpoint="chat")

    def _accumulator(self, request: CallRequest) -> Accumulator:
        events = accumulate("messages", counts=True, prompt_tokens=prompt_tokens(request))
        return events if request.endpoint == "messages" else _AsChat(events, asks_for_counts(request.params))


class _AsChat:
    """The events of a message as chunks of a chat completion."""

    def __init__(self, events: Accumulator, counts: bool) -> None:
        self._events, self._counts, self.done = events, counts, False
        self._frame: dict[str, Any] = {"object": "chat.completion.chunk"}
        self._calls: dict[int, int] = {}  # block to tool call
        self._usage: dict[str, Any] = {}

    @property
    def finished(self) -> bool:
        return self._events.finished

    def add(self, event: bytes) -> Chunk | None:
        chunk = self._events.add(event)
        self.done = self._events.done
        if chunk is None:
            return None
        parts = self._parts(load_json(event))
        if not parts:
            return None
        raw = json.dumps({**self._frame, **parts}).encode()
        return replace(chunk, raw=raw, endpoint="chat")

    def reply(self, status: int) -> CallReply:
        return replace(self._events.reply(status), endpoint="chat")

    def _parts(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        match event["type"]:
            case "message_start":
                message = event["message"]
                self._frame |= {"id": message.get("id"), "created": 0, "model": message.get("model")}
                self._usage |= message.get("usage") or {}
                return _choice({"role": "assistant", "content": ""})
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                block, number = event["content_block"], len(self._calls)
                self._calls[event["index"]] = number
                function = {"name": block["name"], "arguments": ""}
                return _call(number, {"id": block["id"], "type": "function", "function": function})
            case "content_block_delta":
                return self._delta(event)
            case "message_delta":
                self._usage |= {name: count for name, count in (event.get("usage") or {}).items() if count is not None}
                stopped = event["delta"].get("stop_reason")
                return _choice({}, FINISH.get(stopped, "stop")) if stopped else None
            case "message_stop" if self._counts:
                return {"choices": [], "usage": chat_usage(self._usage)}
        return None

    def _delta(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        delta = event["delta"]
        if delta.get("type") == "text_delta":
            return _choice({"content": delta["text"]})
        if delta.get("type") == "input_json_delta" and delta["partial_json"]:
            return _call(self._calls[event["index"]], {"function": {"arguments": delta["partial_json"]}})
        return None


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _call(number: int, call: dict[str, Any]) -> dict[str, Any]:
    return _choice({"tool_calls": [{"index": number, **call}]})


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
    document |= _tool_choice(params)
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


def _tool_choice(params: Mapping[str, Any]) -> dict[str, Any]:
    asked = params.get("tool_choice")
    choice: dict[str, Any] | None = None
    if isinstance(asked, str):
        choice = _CHOICES.get(asked)
    elif isinstance(asked, Mapping):
        choice = {"type": "tool", "name": (asked.get("function") or {}).get("name")}
    if params.get("parallel_tool_calls") is False and params.get("tools"):
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {} if choice is None else {"tool_choice": choice}
