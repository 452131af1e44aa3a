"""Chat completions and chunks for agents that return plain text; server-sent events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from bot_orch.agents.base import CallReply, Chunk
from bot_orch.agents.replies import load_json
from bot_orch.service.routing.rounds import AnswerFrame

__all__ = ["ChatEvents", "chat_frame", "event", "named_event", "whole_chat"]

_encode = msgspec.json.Encoder().encode


def event(data: bytes) -> bytes:
    r"""Data as a server-sent event.

    Examples
    --------
    >>> event(b"a\nb")
    b'data: a\ndata: b\n\n'
    """
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"


def named_event(document: Mapping[str, Any]) -> bytes:
    """A document with a ``type`` as an event of that name."""
    return b"event: " + str(document["type"]).encode() + b"\n" + event(_encode(document))


def chat_frame(frame: AnswerFrame, kind: str) -> dict[str, Any]:
    """Fields of a chat completion, or of a chunk of one, other than its choices."""
    return {"id": f"chatcmpl-{frame.decision_id}", "object": kind, "created": frame.created_s, "model": frame.agent}


def whole_chat(frame: AnswerFrame, reply: CallReply) -> dict[str, Any]:
    """An answer as a chat completion."""
    if reply.raw is not None:
        document: dict[str, Any] = load_json(reply.raw)
        return document
    message = {"role": "assistant", "content": reply.text}
    return {
        **chat_frame(frame, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": _usage(reply),
    }


@dataclass(slots=True)
class ChatEvents:
    """Converts the chunks of one answer to chat completion chunks.

    Those of an upstream are passed on, with its id, model and finish reasons. For agents that have none they are made
    here: the role once, one finish reason, token counts if asked for.
    """

    frame: Mapping[str, Any]
    counts: bool
    _: KW_ONLY
    passed: bool = False
    begun: bool = False

    def of(self, chunk: Chunk) -> list[bytes]:
        """The chat completion chunks for one chunk, as JSON."""
        if chunk.raw is not None:
            self.passed = True
            return [chunk.raw]
        made = [self._text(chunk.text)] if chunk.text else []
        if chunk.reply is not None and not self.passed:
            made += self._end(chunk.reply)
        return [_encode({**self.frame, **part}) for part in made]

    def _text(self, text: str) -> dict[str, Any]:
        role = {} if self.begun else {"role": "assistant"}
        self.begun = True
        return {"choices": [{"index": 0, "delta": {**role, "content": text}, "finish_reason": None}]}

    def _end(self, reply: CallReply) -> list[dict[str, Any]]:
        delta = {} if self.begun else {"role": "assistant", "content": ""}
        finish = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
        return [finish, {"choices": [], "usage": _usage(reply)}] if self.counts else [finish]


def _usage(reply: CallReply) -> dict[str, int]:
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
