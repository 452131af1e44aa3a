"""OpenAI's interfaces: chat completions and those without a chat are passed on, legacy completions are translated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from bot_orch.agents.base import Chunk
from bot_orch.agents.replies import asks_for_counts, load_json
from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.api.gateway.frames import ChatEvents, event
from bot_orch.service.problems import Problem

_OURS = frozenset({"model", "messages", "stream", "bot_orch"})
_SAME = (
    *("max_tokens", "temperature", "top_p", "n", "stop", "seed", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "user", "stream_options"),
)
_ONLY = ("suffix", "echo", "best_of", "logprobs")  # without a counterpart in a chat
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
        user = params.get("user")
        return ChatRequest(
            self.endpoint,
            model,
            tuple(messages),
            params=params,
            hints=read_hints(body),
            stream=body.get("stream") is True,
            user=user if isinstance(user, str) else "",
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


class _CompletionsWriter(_ChatWriter):
    def of(self, chunk: Chunk) -> bytes:
        if chunk.endpoint == "completions":
            return b"" if chunk.raw is None else event(chunk.raw)
        return b"".join(map(self._piece, self._events.of(chunk)))

    def _piece(self, raw: bytes) -> bytes:
        chunk = load_json(raw)
        choices = [_choice(each, (each.get("delta") or {}).get("content")) for each in chunk.get("choices") or ()]
        if not any(each["text"] or each["finish_reason"] for each in choices) and not chunk.get("usage"):
            return b""
        return event(_encode({**chunk, "object": "text_completion", "choices": choices}))


def _choice(choice: Mapping[str, Any], text: Any) -> dict[str, Any]:
    index, finish = choice.get("index") or 0, choice.get("finish_reason")
    return {"index": index, "text": text if isinstance(text, str) else "", "logprobs": None, "finish_reason": finish}


class PassedDialect:
    """Embeddings, moderations, images and speech: passed unchanged to one agent that declares the interface."""

    def __init__(self, endpoint: str, field: str = "input") -> None:
        self.endpoint, self._field = endpoint, field

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        refuse_stream(self.endpoint, body)
        given = body.get(self._field)
        if not isinstance(given, str | list) or not given:
            message = f"{self._field}: must be a text or a list of texts"
            raise Problem(400, f"missing_{self._field}", message, param=self._field)
        texts = [given] if isinstance(given, str) else [each for each in given if isinstance(each, str)]
        tokens = [each for each in given if not isinstance(each, str)] if isinstance(given, list) else []
        count = sum(len(each) if isinstance(each, list) else 1 for each in tokens)
        return ChatRequest(
            self.endpoint,
            read_model(body),
            ({"role": "user", "content": [*texts, "    " * count]},),  # four characters stand for a token
            params={"max_tokens": 1},
            hints=read_hints(body),
            document=native(body),
            user=text_of(body.get("user")),
        )

    def whole(self, chat: Mapping[str, Any], asked: ChatRequest) -> NoReturn:
        """See :class:`Dialect`: a chat has no counterpart."""
        raise Problem(502, "malformed", f"the agent has answered without {self.endpoint}")

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> NoReturn:
        """See :class:`Dialect`: these are not streamed."""
        raise NotImplementedError


def refuse_stream(endpoint: str, body: Mapping[str, Any]) -> None:
    """Refuse a request for a stream to an interface that is passed on whole."""
    if body.get("stream") in (True, "true", "True", "1"):
        raise Problem(400, "not_streamed", f"stream: {endpoint} are not streamed; leave it out", param="stream")
