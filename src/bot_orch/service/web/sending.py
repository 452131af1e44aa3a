"""Answers on their way: whole ones, and those sent in pieces until the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from bot_orch.service.problems import Reply

__all__ = ["MoreHeaders", "Pairs", "StreamedReply", "disconnected", "send_reply", "send_stream"]

Pairs = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class StreamedReply:
    """An answer sent in pieces."""

    pieces: AsyncIterator[bytes]
    media: bytes = b"text/event-stream"


async def disconnected(receive: Any) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


class MoreHeaders(NamedTuple):
    """Headers of an answer beside its own: those of the face unless the answer has them, and those of the handler."""

    usual: Pairs
    extra: Mapping[str, str]

    def added_to(self, own: Pairs) -> Pairs:
        """All headers."""
        said = {name for name, _ in own}
        more = [(name.encode("latin-1"), _printable(value)) for name, value in self.extra.items()]
        return [*own, *(pair for pair in self.usual if pair[0] not in said), *more]


def _printable(text: str) -> bytes:
    if text.isascii() and text.isprintable():
        return text.encode("ascii")
    return "".join(each if " " <= each <= "~" else "?" for each in text).encode("ascii")


async def send_reply(reply: Reply, headers: MoreHeaders, send: Any) -> None:
    """Send a whole answer."""
    pairs = [*headers.added_to(reply.headers), (b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": reply.body})


async def send_stream(stream: StreamedReply, headers: MoreHeaders, *, receive: Any, send: Any) -> None:
    """Send pieces until the end, or until the caller disconnects."""
    gone = asyncio.ensure_future(disconnected(receive))
    sender = asyncio.ensure_future(_pieces(stream, headers, send))
    try:
        await asyncio.wait((sender, gone), return_when=asyncio.FIRST_COMPLETED)
        if sender.done():
            sender.result()
    finally:
        for each in (sender, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _pieces(stream: StreamedReply, headers: MoreHeaders, send: Any) -> None:
    pairs = headers.added_to([(b"content-type", stream.media)])
    await send({"type": "http.response.start", "status": 200, "headers": pairs})
    try:
        async for piece in stream.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        close = getattr(stream.pieces, "aclose", None)
        if close is not None:
            await close()
    await send({"type": "http.response.body", "body": b""})
