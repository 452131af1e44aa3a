"""Messages of HTTP: bodies with limits on size, time and memory, queries, answers whole or in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem, Reply

Receive = Callable[[], Awaitable[Any]]
RECORD_BYTES = 1_000_000
"""Of a body that holds no images."""
_LONGEST_BODIES = 20
_SMALL = 65_536
_VALUES, _BYTES_PER_VALUE = 200_000, 20  # texts have brackets and commas too
_SLOWEST = 100_000  # bytes per second that prolong the time to arrive
Pairs = list[tuple[bytes, bytes]]
_MOST = 50
T = TypeVar("T")


class ClientGoneError(Exception):
    """The client has disconnected."""


class BodyRoom:
    """Memory for the bodies of all requests that are being read or answered.

    Parameters
    ----------
    limits
        Twenty bodies of the longest kind fit in.
    """

    def __init__(self, limits: LimitsConfig) -> None:
        self._most, self.used = _LONGEST_BODIES * limits.body_bytes, 0

    def take(self, size: int) -> None:
        """Reserve room for more bytes; raises 503 if there is none."""
        if self.used + size > self._most:
            message = "the service holds too many large bodies at the moment; try again"
            raise Problem(503, "busy", message, headers={"connection": "close"})
        self.used += size

    def give_back(self, size: int) -> None:
        """Release room."""
        self.used -= size


def check_length(headers: Mapping[bytes, bytes], most: int) -> None:
    """Refuse a body whose declared length is too large."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and (len(length) > 18 or int(length) > most):
        raise _too_large(most)


def check_values(raw: bytes | bytearray) -> None:
    """Refuse a large body with too many values for memory: an empty list takes 60 bytes."""
    if len(raw) > _SMALL and len(raw) - len(raw.translate(None, b",[{")) > _VALUES + len(raw) // _BYTES_PER_VALUE:
        raise Problem(413, "too_many_values", "the body holds too many values; send fewer")


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, limits: LimitsConfig, *, most: int, room: BodyRoom
) -> bytes | bytearray:
    """Read the whole body; refuse it as soon as it is too long or too slow.

    Its bytes are taken from ``room``; the caller gives them back.
    """
    check_length(headers, most)
    taken = 0
    try:
        async with asyncio.timeout(limits.client_timeout_s) as waiting:
            begun = asyncio.get_running_loop().time()
            message = await receive()
            body: bytes | bytearray = _part(message)
            if message.get("more_body"):
                body = bytearray(body)
            while True:
                if len(body) > most:
                    raise _too_large(most)
                room.take(len(body) - taken)
                taken = len(body)
                if not message.get("more_body"):
                    return body
                waiting.reschedule(begun + limits.client_timeout_s + taken / _SLOWEST)
                message = await receive()
                body += _part(message)
    except TimeoutError:
        room.give_back(taken)
        said = "the body did not arrive in time; send it faster"
        raise Problem(408, "slow_body", said, headers={"connection": "close"}) from None
    except BaseException:
        room.give_back(taken)
        raise


def _part(message: Mapping[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise ClientGoneError
    part: bytes = message.get("body", b"")
    return part


def _too_large(most: int) -> Problem:
    message = f"the body exceeds {most} bytes; send less"
    return Problem(413, "too_large", message, headers={"connection": "close"})


@dataclass(slots=True)
class StreamedReply:
    """An answer sent in pieces."""

    pieces: AsyncIterator[bytes]
    media: bytes = b"text/event-stream"


async def _disconnected(receive: Any) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(receive: Any, work: Awaitable[T]) -> T:
    """Await ``work`` in this task; it is cancelled when the client leaves, and ``ClientGoneError`` is raised."""
    task, over = asyncio.current_task(), False

    def leave(ended: asyncio.Future[None]) -> None:
        if not ended.cancelled():
            ended.exception()  # whatever it is, nothing more can be sent
            if task is not None and not over:
                task.cancel()

    gone = asyncio.ensure_future(_disconnected(receive))
    gone.add_done_callback(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if task is not None and gone.done() and task.uncancel() == 0:
            raise ClientGoneError from None
        raise
    finally:
        over = True
        gone.cancel()


class MoreHeaders(NamedTuple):
    """Additional headers of an answer: the interface's, unless the answer sets them, and the handler's."""

    usual: Pairs
    extra: Mapping[str, str]

    def added_to(self, own: Pairs) -> Pairs:
        """All headers, combined with the answer's own."""
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
    """Send pieces until the end; ``ClientGoneError`` if the caller disconnects."""
    await unless_gone(receive, _pieces(stream, headers, send))


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


def read_query(written: bytes) -> dict[str, str]:
    """The query parameters by name; the last one wins.

    Examples
    --------
    >>> read_query(b"by=tag&from=2026-11-01")
    {'by': 'tag', 'from': '2026-11-01'}
    """
    try:
        return dict(parse_qsl(written.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST))
    except ValueError:
        raise Problem(400, "bad_query", f"the query holds more than {_MOST} parameters; send fewer") from None
