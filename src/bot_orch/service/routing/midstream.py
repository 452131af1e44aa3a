"""When a stream breaks off: another agent continues the answer, or begins it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from bot_orch.agents.base import CallFailure, CallReply, CallRequest, Chunk
from bot_orch.agents.capabilities import Capabilities, Prefill
from bot_orch.agents.endings import Ending
from bot_orch.agents.replies import load_json

MidstreamMode = Literal["error", "restart", "continue"]
RESTART_MARKER = "\n\n[The answer was interrupted. It begins again.]\n\n"
"""Text between a broken answer and the one that replaces it."""

_REJECTIONS = frozenset({Ending.UPSTREAM_4XX, Ending.UNSUITED, Ending.REFUSED_REQUEST})
_PARAMS: Mapping[str, Mapping[str, Any]] = {
    "continue_final_message": {"continue_final_message": True, "add_generation_prompt": False}
}


@dataclass(slots=True)
class PartialAnswer:
    """The part of a streamed answer that the client has, and the request with which another agent takes over.

    An answer with a tool call, with several choices, or passed on as events of another interface than chat cannot be
    taken over: its pieces would not fit together.

    Parameters
    ----------
    mode
        ``router.midstream``.
    begun, fixed
        Whether the client has some of it, and whether nobody can take it over.
    prefilled
        Whether the current agent got the beginning of the answer.
    refused
        Agents that did not accept the beginning of an answer.
    """

    mode: MidstreamMode
    _: KW_ONLY
    begun: bool = False
    fixed: bool = False
    prefilled: bool = False
    refused: set[str] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)  # of all agents so far; after a restart, of the last one
    _id: str = ""  # of the first agent's answer, which the client has seen
    _surplus: str = ""  # white space that the client has and the prefill lacks
    _joining: bool = False

    @property
    def text(self) -> str:
        """The answer so far; after a restart, that of the last agent."""
        return "".join(self._texts)

    @property
    def can_move(self) -> bool:
        """Whether another agent may take over after a failure now."""
        return not self.begun or (self.mode != "error" and not self.fixed)

    def style(self, agent: str, capabilities: Capabilities) -> Prefill:
        """How an agent continues the answer; ``none`` if it has to begin again."""
        if not self.begun or self.mode != "continue" or agent in self.refused:
            return "none"
        return capabilities.prefill

    def continuing(self, capabilities: Mapping[str, Capabilities]) -> tuple[str, ...]:
        """Agents that can continue the answer; none before there is one."""
        if not self.text.strip():
            return ()
        return tuple(name for name, each in capabilities.items() if self.style(name, each) != "none")

    def request(self, call: CallRequest, style: Prefill) -> CallRequest:
        """The request to the agent that takes over; the original one before an answer has begun."""
        self._joining, self.prefilled, self._surplus = self.begun, False, ""
        if not self.begun:
            return call
        call = replace(call, endpoint="chat", document=None)
        text = self.text
        if style == "none" or not (written := text.rstrip()):
            return call
        self.prefilled, self._surplus = True, text[len(written) :]
        message = {"role": "assistant", "content": written} | ({"prefix": True} if style == "prefix" else {})
        return replace(call, messages=(*call.chat(), message), params={**call.params, **_PARAMS.get(style, {})})

    def opening(self, agent: str) -> Chunk:
        """The chunk before those of the agent that takes over; it says which, and marks a restart."""
        restarts = not self.prefilled
        note = {"agent": agent, "midstream": "restart" if restarts else "continue", "received": len(self.text)}
        if restarts:
            self._texts = []
        choice = {"index": 0, "delta": {"content": RESTART_MARKER if restarts else ""}, "finish_reason": None}
        document = {"id": self._id, "object": "chat.completion.chunk", "created": 0, "model": agent}
        return Chunk(raw=json.dumps({**document, "choices": [choice], "bot_orch": note}).encode(), more=True)

    def add(self, chunk: Chunk) -> Chunk | None:
        """Record a chunk for the client; the chunk as it continues the answer, or None to drop it."""
        self.begun = True
        if self.mode == "error":
            return chunk
        if self._joining:
            joined = self._joined(chunk)
            if joined is None:
                return None
            chunk = joined
        elif chunk.raw is not None and not self._id:
            self._id = _id_of(chunk.raw)
        self.fixed = self.fixed or chunk.indivisible or (chunk.raw is not None and chunk.endpoint != "chat")
        self._texts.append(chunk.text)
        return chunk

    def whole(self, reply: CallReply) -> CallReply:
        """The reply of the agent that finished the answer, with the text and the id that the client has."""
        if not self._joining:
            return reply
        extra = {**reply.extra, "completion_id": self._id} if self._id else reply.extra
        return replace(reply, text=self.text, extra=extra)

    def failed(self, agent: str, failure: CallFailure) -> bool:
        """Record a failure; whether the agent only refused the beginning of an answer that is not its own."""
        if not self.prefilled or failure.ending not in _REJECTIONS:
            return False
        self.refused.add(agent)
        return True

    def _joined(self, chunk: Chunk) -> Chunk | None:
        if not chunk.begins:  # a second role
            return None
        text = chunk.text
        while self._surplus and text[:1].isspace():
            text, self._surplus = text[1:], self._surplus[1:]
        if text:
            self._surplus = ""
        if chunk.raw is None:
            return replace(chunk, text=text)
        document = load_json(chunk.raw)
        if self._id:
            document["id"] = self._id
        for choice in document.get("choices") or ():
            delta = choice.get("delta") or {}
            delta.pop("role", None)
            if text != chunk.text:
                delta["content"] = text
        return replace(chunk, text=text, raw=json.dumps(document).encode())


def _id_of(raw: bytes) -> str:
    document = load_json(raw)
    named = document.get("id") if isinstance(document, dict) else None
    return named if isinstance(named, str) else ""
