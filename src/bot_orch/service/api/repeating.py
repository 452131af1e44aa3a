"""Handlers whose answers, streamed ones included, are stored under the caller's ``Idempotency-Key``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from bot_orch.service.api.decisions import KeySpace, idempotency_key
from bot_orch.service.problems import Reply
from bot_orch.service.repeats import KeptAnswer, Repeats
from bot_orch.service.runtime import digest_of
from bot_orch.service.web.endpoint import Handler, Request
from bot_orch.service.web.messages import StreamedReply

#: Header of an answer that was given before.
REPLAYED = "idempotent-replayed"

_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed", b"event: response.incomplete")


async def answer_once(request: Request, space: KeySpace, handler: Handler) -> Reply | StreamedReply:
    """Call the handler, or return the stored answer of the same idempotency key."""
    key = idempotency_key(request, space)
    if key is None:
        return await handler(request)
    repeats = request.runtime.repeats
    digest = await asyncio.to_thread(digest_of, request.raw)  # without the interpreter's lock
    kept = await repeats.claim(key, digest)
    if kept is not None:
        request.headers_out |= {**kept.headers, REPLAYED: "true"}
        return Reply(200, kept.body, [(b"content-type", kept.media)])
    return await _keeping(request, repeats, key, handler=handler)


async def _keeping(request: Request, repeats: Repeats, key: str, *, handler: Handler) -> Reply | StreamedReply:
    """Call the handler and store its answer under the key claimed by this request."""
    try:
        before = set(request.headers_out)
        answer = await handler(request)
    except BaseException:
        repeats.drop(key)
        raise
    headers = {name: value for name, value in request.headers_out.items() if name not in before}
    if isinstance(answer, StreamedReply):
        return StreamedReply(_Recording(answer, repeats, key, headers=headers), answer.media)
    media = dict(answer.headers).get(b"content-type", b"application/json")
    repeats.keep(key, KeptAnswer(answer.body, media, headers))
    return answer


class _Recording:
    """Records the chunks of a stream and stores them after the last one; any other ending frees the key."""

    def __init__(self, stream: StreamedReply, repeats: Repeats, key: str, *, headers: dict[str, str]) -> None:
        self._stream, self._headers = stream, headers
        self._repeats, self._key = repeats, key
        self._sent: list[bytes] = []
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await anext(self._stream.pieces)
        except StopAsyncIteration:
            body = b"".join(self._sent)
            if self._open and body.rstrip().rpartition(b"\n\n")[2].startswith(_ENDS):  # else it ended with an error
                self._open = False
                self._repeats.keep(self._key, KeptAnswer(body, self._stream.media, self._headers))
            self._free()
            raise
        self._sent.append(piece)
        return piece

    async def aclose(self) -> None:
        self._free()
        close = getattr(self._stream.pieces, "aclose", None)
        if close is not None:
            await close()

    def __del__(self) -> None:  # never iterated: the caller left before the first piece
        with suppress(Exception):
            self._free()

    def _free(self) -> None:
        if self._open:
            self._open = False
            self._repeats.drop(self._key)
