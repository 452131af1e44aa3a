"""``/v1/completions``, the legacy interface: a prompt becomes a chat with one user message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import asks_for_counts, load_json
from bot_orch.service.api.gateway.answering import answer
from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.api.gateway.frames import ChatEvents, event
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.web.endpoint import Request, StreamedReply

__all__ = ["CompletionsDialect", "complete_text"]

_SAME = (
    *("max_tokens", "temperature", "top_p", "n", "stop", "seed", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "user", "stream_options"),
)
_ONLY = ("suffix", "echo", "best_of", "logprobs")  # without a counterpart in a chat
_encode = msgspec.json.Encoder().encode


class CompletionsDialect:
    """Legacy completions."""

    endpoint = "completions"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        model, prompt = read_model(body), body.get("prompt")
        only = next((name for name in _ONLY if body.get(name)), "")
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
            prompt = prompt[0]
        if isinstance(prompt, list) and prompt:
            only = only or "several prompts"
        elif not isinstance(prompt, str):
            raise Problem(400, "missing_prompt", "prompt: must be a text", param="prompt")
        return ChatRequest(
            self.endpoint,
            model,
            ({"role": "user", "content": prompt if isinstance(prompt, str) else ""},),
            params={name: body[name] for name in _SAME if body.get(name) is not None},
            hints=read_hints(body),
            stream=body.get("stream") is True,
            document=native(body),
            only=only,
            user=text_of(body.get("user")),
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> Mapping[str, Any]:
        """See :class:`Dialect`."""
        choices = [_choice(each, (each.get("message") or {}).get("content")) for each in chat.get("choices") or ()]
        return {**chat, "object": "text_completion", "choices": choices}

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> _CompletionsWriter:
        """See :class:`Dialect`."""
        return _CompletionsWriter(frame, asked)


class _CompletionsWriter:
    def __init__(self, frame: Mapping[str, Any], asked: ChatRequest) -> None:
        self._events = ChatEvents(frame, asks_for_counts(asked.params))

    def of(self, chunk: Chunk) -> bytes:
        if chunk.endpoint == "completions":
            return b"" if chunk.raw is None else event(chunk.raw)
        return b"".join(map(self._piece, self._events.of(chunk)))

    def end(self) -> bytes:
        return event(b"[DONE]")

    def failed(self, problem: Problem) -> bytes:
        return event(_encode(problem.document()))

    def _piece(self, raw: bytes) -> bytes:
        chunk = load_json(raw)
        choices = [_choice(each, (each.get("delta") or {}).get("content")) for each in chunk.get("choices") or ()]
        if not any(each["text"] or each["finish_reason"] for each in choices) and not chunk.get("usage"):
            return b""
        return event(_encode({**chunk, "object": "text_completion", "choices": choices}))


def _choice(choice: Mapping[str, Any], text: Any) -> dict[str, Any]:
    index, finish = choice.get("index") or 0, choice.get("finish_reason")
    return {"index": index, "text": text if isinstance(text, str) else "", "logprobs": None, "finish_reason": finish}


_COMPLETIONS = CompletionsDialect()


async def complete_text(request: Request) -> Reply | StreamedReply:
    """``POST /v1/completions``."""
    return await answer(_COMPLETIONS, request)
