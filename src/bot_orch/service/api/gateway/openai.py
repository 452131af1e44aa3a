"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import asks_for_counts
from bot_orch.service.api.gateway.chat_request import ChatRequest, read_hints, read_model
from bot_orch.service.api.gateway.frames import ChatEvents, event
from bot_orch.service.problems import Problem

_OURS = frozenset({"model", "messages", "stream", "bot_orch"})
_encode = msgspec.json.Encoder().encode


class ChatDialect:
    """Chat completions, passed through unchanged."""

    endpoint = "chat"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        model, messages = read_model(body), body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            raise Problem(400, "missing_messages", "messages: must be a list of messages", param="messages")
        params = {name: value for name, value in body.items() if name not in _OURS}
        return ChatRequest(
            self.endpoint,
            model,
            tuple(messages),
            params=params,
            hints=read_hints(body),
            stream=body.get("stream") is True,
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """See :class:`Dialect`."""
        return chat

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> _ChatWriter:
        """See :class:`Dialect`."""
        return _ChatWriter(frame, asked)


class _ChatWriter:
    def __init__(self, frame: Mapping[str, Any], asked: ChatRequest) -> None:
        self._events = ChatEvents(frame, asks_for_counts(asked.params))

    def of(self, chunk: Chunk) -> bytes:
        return b"".join(map(event, self._events.of(chunk)))

    def end(self) -> bytes:
        return event(b"[DONE]")

    def failed(self, problem: Problem) -> bytes:
        return event(_encode(problem.document()))
