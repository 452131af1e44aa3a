"""Converts chat completions to Anthropic messages, complete or as stream events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import load_json
from bot_orch.service.api.gateway.frames import ChatPieces, Piece, event, named_event
from bot_orch.service.problems import Problem

__all__ = ["MessagesWriter", "error_document", "message_document"]

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


def error_document(problem: Problem) -> dict[str, Any]:
    """A problem as Anthropic's clients read it."""
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
    told = told if isinstance(told, Mapping) else {}
    return {"input_tokens": told.get("prompt_tokens") or 0, "output_tokens": told.get("completion_tokens") or 0}


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
            return b"" if chunk.raw is None else _passed_on(chunk.raw)
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


def _passed_on(raw: bytes) -> bytes:
    return b"event: " + str(load_json(raw)["type"]).encode() + b"\n" + event(raw)
