"""Models behind Anthropic's Messages: chats are translated, requests to ``/v1/messages`` are passed on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.endings import Ending
from bot_orch.agents.kinds.messages_in import FINISH, chat_from_message, chat_usage, message_request
from bot_orch.agents.kinds.openai import OpenAIRunner, OpenAISettings
from bot_orch.agents.kinds.streamed import asks_for_counts
from bot_orch.agents.limits import Limits
from bot_orch.agents.native import Accumulator, accumulate, read_reply
from bot_orch.agents.replies import load_json
from bot_orch.agents.tokens import prompt_tokens
from bot_orch.errors import InvalidInputError

__all__ = ["AnthropicRunner", "AnthropicSettings"]


@dataclass(frozen=True, slots=True)
class AnthropicSettings(OpenAISettings):
    """Connection settings, like :class:`OpenAISettings`.

    Parameters
    ----------
    max_tokens
        Limit of answers to requests that set none; the interface needs one.
    version
        Of the interface.
    """

    max_tokens: int = 4096
    version: str = "2023-06-01"

    def __post_init__(self) -> None:
        OpenAISettings.__post_init__(self)
        if self.max_tokens < 1:
            raise InvalidInputError("max_tokens", f"is {self.max_tokens}", "set 1 or more")


class AnthropicRunner(OpenAIRunner):
    """Runner that calls the endpoint over persistent connections."""

    def __init__(
        self, settings: AnthropicSettings, limits: Limits | None = None, *, endpoints: Collection[str] = ()
    ) -> None:
        super().__init__(settings, limits, endpoints={*endpoints, "messages"})
        self._own = settings
        self._url = settings.url("messages")
        self._headers["anthropic-version"] = settings.version
        if settings.api_key:
            self._headers.pop("Authorization")
            self._headers["x-api-key"] = settings.api_key

    def _document(self, request: CallRequest) -> dict[str, Any]:
        if request.endpoint == "messages":
            return super()._document(request)
        return message_request(request.chat(), request.params, model=self._own.model, max_tokens=self._own.max_tokens)

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
