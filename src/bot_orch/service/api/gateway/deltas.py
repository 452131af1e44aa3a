"""Pieces of a streamed chat, for interfaces with other event formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import load_json
from bot_orch.service.api.gateway.frames import ChatEvents

__all__ = ["ChatPieces", "Piece"]


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
