"""``/v1/embeddings``: served by the agents that declare the interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from bot_orch.service.api.gateway.answering import answer
from bot_orch.service.api.gateway.chat_request import ChatRequest, native, read_hints, read_model, text_of
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.web.endpoint import Request, StreamedReply

__all__ = ["EmbeddingsDialect", "embed"]


class EmbeddingsDialect:
    """Embeddings: passed unchanged to one agent that declares the interface."""

    endpoint = "embeddings"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        """See :class:`Dialect`."""
        given = body.get("input")
        if not isinstance(given, str | list) or not given:
            raise Problem(400, "missing_input", "input: must be a text or a list of texts", param="input")
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
        """See :class:`Dialect`: a chat has no embeddings."""
        raise Problem(502, "malformed", "the agent has answered without embeddings")

    def writer(self, frame: Mapping[str, Any], asked: ChatRequest) -> NoReturn:
        """See :class:`Dialect`: embeddings are not streamed."""
        raise Problem(400, "not_streamed", "stream: embeddings are not streamed", param="stream")


_EMBEDDINGS = EmbeddingsDialect()


async def embed(request: Request) -> Reply | StreamedReply:
    """``POST /v1/embeddings``."""
    return await answer(_EMBEDDINGS, request)
