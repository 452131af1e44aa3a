"""Chat completions and their chunks, those of agents that return plain text too; server-sent events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import msgspec

from bot_orch.agents.base import CallReply, Chunk
from bot_orch.agents.replies import load_json
from bot_orch.service.routing.rounds import AnswerFrame

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


def event_as_sent(raw: bytes) -> bytes:
    """An event of another interface as its agent sent it; its name is its ``type``."""
    return b"event: " + str(load_json(raw)["type"]).encode() + b"\n" + event(raw)


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
            self.passed = self.begun = True
            return [chunk.raw]
        if chunk.text:
            self.passed = False
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


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of the first choice of a streamed chat.

    ``kind`` is ``text``, ``refusal``, ``call`` (a tool call begins), ``arguments`` (more of it), ``finish`` or
    ``usage``; ``number`` is the index of a tool call.
    """

    kind: str
    text: str = ""
    number: int = 0
    _: KW_ONLY
    id: str = ""
    name: str = ""
    counts: Mapping[str, Any] | None = None


class ChatPieces:
    """Splits chunks into pieces."""

    def __init__(self, frame: Mapping[str, Any]) -> None:
        self._events = ChatEvents(frame, True)
        self._begun: set[int] = set()
        self.model = str(frame["model"])

    def of(self, chunk: Chunk) -> Iterator[Piece]:
        """The pieces in one chunk."""
        for raw in self._events.of(chunk):
            document = load_json(raw)
            if isinstance(model := document.get("model"), str) and model:
                self.model = model
            for choice in document.get("choices") or ():
                if not choice.get("index"):
                    yield from self._choice(choice)
            if document.get("usage"):
                yield Piece("usage", counts=document["usage"])

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Piece]:
        delta = choice.get("delta") or {}
        for kind, name in (("text", "content"), ("refusal", "refusal")):
            if isinstance(text := delta.get(name), str) and text:
                yield Piece(kind, text)
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if choice.get("finish_reason"):
            yield Piece("finish", str(choice["finish_reason"]))

    def _call(self, call: Mapping[str, Any]) -> Iterator[Piece]:
        index, function = call.get("index") or 0, call.get("function") or {}
        if index not in self._begun:
            self._begun.add(index)
            yield Piece("call", number=index, id=str(call.get("id") or ""), name=str(function.get("name") or ""))
        if function.get("arguments"):
            yield Piece("arguments", str(function["arguments"]), number=index)
