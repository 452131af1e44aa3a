"""An endpoint that misbehaves on request, on loopback: the other side of every test of HTTP agents.

``http://127.0.0.1:port/<fault>/v1`` is an OpenAI-compatible base URL whose answers have that fault. It speaks HTTP by
hand, because a proper server refuses to be this improper.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

__all__ = ["FAULTS", "FaultServer", "Seen"]

_SSE = "text/event-stream"
_WORDS = ("The ", "answer ", "is 4.")
_USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    document: Any

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream."""
        return bool(isinstance(self.document, dict) and self.document.get("stream"))


@dataclass(slots=True)
class _Exchange:
    seen: Seen
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    server: FaultServer = field(repr=False)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, content_type: str = "application/json", *extra: str) -> None:
        lines = (f"HTTP/1.1 {status} Status", f"Content-Type: {content_type}", *extra)
        await self.send("\r\n".join((*lines, "", "")).encode())

    async def document(self, status: int, document: Any, *extra: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        await self.head(status, "application/json", f"Content-Length: {len(body)}", *extra)
        await self.send(body)

    async def chunked(self) -> None:
        await self.head(200, _SSE, "Transfer-Encoding: chunked")

    async def event(self, data: str) -> None:
        body = f"data: {data}\n\n".encode()
        await self.send(b"%x\r\n%s\r\n" % (len(body), body))

    async def words(self, *words: str) -> None:
        for word in words:
            await self.event(_delta({"content": word}))

    async def hang(self) -> None:
        """Until the client goes away or the server stops."""
        while await self.reader.read(1024):
            pass
        self.server.gone.set()


def _delta(delta: Mapping[str, str], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c-1", "object": "chat.completion.chunk", "choices": [choice]})


def _completion() -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(_WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": _USAGE}


async def _ok(x: _Exchange) -> None:
    if not x.seen.streams:
        return await x.document(200, _completion())
    await x.chunked()
    await x.words(*_WORDS)
    await x.event(_delta({}, "stop"))
    await x.event(json.dumps({"id": "c-1", "choices": [], "usage": _USAGE}))
    await x.event("[DONE]")
    return await x.send(b"0\r\n\r\n")


def _status(status: int, *headers: str, **error: str) -> Callable[[_Exchange], Awaitable[None]]:
    async def answer(x: _Exchange) -> None:
        document = {"message": "no", "type": "fault", "code": status, **error}
        await x.document(status, {"error": document}, *headers)

    return answer


async def _redirect(x: _Exchange) -> None:
    await x.document(307, {}, f"Location: {x.server.base_url('ok')}/chat/completions")


async def _hang(x: _Exchange) -> None:
    await x.hang()


async def _hang_midstream(x: _Exchange) -> None:
    if x.seen.streams:
        await x.chunked()
        await x.words(_WORDS[0])
    else:
        await x.head(200, "application/json", "Content-Length: 1000")
        await x.send(b'{"choices"')
    await x.hang()


async def _slow_drip(x: _Exchange) -> None:
    await (x.chunked() if x.seen.streams else x.head(200, "application/json", "Content-Length: 100000"))
    while not x.reader.at_eof() and not x.writer.is_closing():
        await (x.words("drip ") if x.seen.streams else x.send(b" "))
        with suppress(TimeoutError):
            await asyncio.wait_for(x.reader.read(1), 0.02)
    x.server.gone.set()


async def _steady(x: _Exchange) -> None:
    """A stream that takes two seconds, with a piece every tenth of a second."""
    await x.chunked()
    for _ in range(20):
        await x.words("tick ")
        await asyncio.sleep(0.1)
    await x.event(_delta({}, "stop"))
    await x.event("[DONE]")
    await x.send(b"0\r\n\r\n")


async def _role(x: _Exchange) -> None:
    """What most endpoints send before the model has said anything."""
    await x.chunked()
    await x.event(_delta({"role": "assistant", "content": ""}))


async def _role_then_hang(x: _Exchange) -> None:
    await _role(x)
    await x.hang()


async def _role_then_close(x: _Exchange) -> None:
    await _role(x)
    x.writer.close()


async def _role_then_error(x: _Exchange) -> None:
    await _role(x)
    await x.event(json.dumps({"error": {"message": "late", "code": 500}}))


async def _role_then_too_long(x: _Exchange) -> None:
    await _role(x)
    await x.event(json.dumps({"error": {"message": "the prompt is too long", "code": 400}}))


async def _empty_drip(x: _Exchange) -> None:
    """Signs of life, but never a part of an answer."""
    await x.chunked()
    while not x.reader.at_eof() and not x.writer.is_closing():
        await x.event(_delta({"role": "assistant", "content": ""}))
        with suppress(TimeoutError):
            await asyncio.wait_for(x.reader.read(1), 0.02)
    x.server.gone.set()


async def _end_mark_alone(x: _Exchange) -> None:
    await x.chunked()
    await x.event("[DONE]")
    await x.send(b"0\r\n\r\n")


async def _half_of_two(x: _Exchange) -> None:
    """The first of two choices finishes, the other does not."""
    await x.chunked()
    await x.words(_WORDS[0])
    other = {"index": 1, "delta": {"content": "Four "}, "finish_reason": None}
    await x.event(json.dumps({"id": "c-1", "object": "chat.completion.chunk", "choices": [other]}))
    await x.event(_delta({}, "stop"))
    await x.send(b"0\r\n\r\n")


async def _truncated(x: _Exchange) -> None:
    if x.seen.streams:
        await x.chunked()
        await x.words(*_WORDS[:2])
    else:
        await x.head(200, "application/json", "Content-Length: 1000")
        await x.send(b'{"choices": [')
    x.writer.close()


async def _no_end_mark(x: _Exchange) -> None:
    """A well-formed body that stops before the answer does."""
    await x.chunked()
    await x.words(*_WORDS[:2])
    await x.send(b"0\r\n\r\n")


async def _malformed(x: _Exchange) -> None:
    if not x.seen.streams:
        return await x.document(200, b'{"choices": [')
    await x.chunked()
    await x.words(_WORDS[0])
    await x.event('{"choices": [{"del')
    return await x.send(b"0\r\n\r\n")


async def _wrong_shape(x: _Exchange) -> None:
    await x.document(200, {"hello": "world"})


async def _error_inside(x: _Exchange) -> None:
    if not x.seen.streams:
        return await x.document(500, {"error": {"message": "late"}})
    await x.chunked()
    await x.words(_WORDS[0])
    return await x.event(json.dumps({"error": {"message": "late", "code": 500}}))


async def _huge(x: _Exchange) -> None:
    """Far more than any cap, without saying so beforehand."""
    await x.head(200, _SSE if x.seen.streams else "application/json", "Transfer-Encoding: chunked")
    piece = (b"data: " if x.seen.streams else b"") + b"x" * 65_536
    for _ in range(200):
        await x.send(b"%x\r\n%s\r\n" % (len(piece), piece))
    await x.send(b"0\r\n\r\n")


async def _huge_announced(x: _Exchange) -> None:
    await x.head(200, "application/json", "Content-Length: 1000000000")
    await x.hang()


async def _compressed(x: _Exchange) -> None:
    await x.document(200, b"\x1f\x8b\x08\x00 not asked for", "Content-Encoding: gzip")


async def _disconnect(x: _Exchange) -> None:
    x.writer.close()


async def _not_http(x: _Exchange) -> None:
    await x.send(b"220 mail.example.com ESMTP\r\n\r\n")
    x.writer.close()


FAULTS: Mapping[str, Callable[[_Exchange], Awaitable[None]]] = MappingProxyType(
    {
        "ok": _ok,
        "bad_request": _status(400),
        "context_length": _status(400, message="too long", code="context_length_exceeded", param="messages"),
        "content_filter": _status(403, message="The input was flagged by the moderation", code="403"),
        "unsupported": _status(400, message="Unrecognized request argument supplied: top_k"),
        "unknown_model": _status(404, message="The model `m` does not exist", code="model_not_found"),
        "too_long_elsewhere": _status(413, message="Request Entity Too Large"),
        "no_credit": _status(429, "Retry-After: 7", message="check your plan", code="insufficient_quota"),
        "denied": _status(401),
        "wrong_address": _status(404),
        "rate_limited": _status(429, "Retry-After: 7"),
        "error": _status(500),
        "unavailable": _status(503),
        "redirect": _redirect,
        "hang": _hang,
        "hang_midstream": _hang_midstream,
        "slow_drip": _slow_drip,
        "steady": _steady,
        "role_then_hang": _role_then_hang,
        "role_then_close": _role_then_close,
        "role_then_error": _role_then_error,
        "role_then_too_long": _role_then_too_long,
        "empty_drip": _empty_drip,
        "end_mark_alone": _end_mark_alone,
        "half_of_two": _half_of_two,
        "truncated": _truncated,
        "no_end_mark": _no_end_mark,
        "malformed": _malformed,
        "wrong_shape": _wrong_shape,
        "error_inside": _error_inside,
        "huge": _huge,
        "huge_announced": _huge_announced,
        "compressed": _compressed,
        "disconnect": _disconnect,
        "not_http": _not_http,
    }
)


class FaultServer:
    """``async with FaultServer() as server: server.base_url("hang")``.

    ``requests`` lists what arrived; ``arrived`` and ``gone`` are set when a request came and when a client of a
    hanging answer left. ``then`` gives a fault its successor: after one request to it, the next is answered so.
    """

    def __init__(self, then: Mapping[str, str] | None = None) -> None:
        self._then = dict(then or {})
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self.requests: list[Seen] = []
        self.connections = 0
        self.arrived, self.gone = asyncio.Event(), asyncio.Event()

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the server has not been started")
        return int(self._server.sockets[0].getsockname()[1])

    def base_url(self, fault: str, host: str = "127.0.0.1") -> str:
        """The base URL with this fault."""
        return f"http://{host}:{self.port}/{fault}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for handler in tuple(self._handlers):
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
            task.add_done_callback(self._handlers.discard)
        self.connections += 1
        try:
            while (seen := await _read_request(reader)) is not None and not writer.is_closing():
                self.requests.append(seen)
                self.arrived.set()
                await FAULTS[self._fault(seen)](_Exchange(seen, reader, writer, self))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def _fault(self, seen: Seen) -> str:
        fault = seen.path.split("/")[1]
        served = sum(1 for other in self.requests if other.path.split("/")[1] == fault)
        return self._then[fault] if served > 1 and fault in self._then else fault


async def _read_request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(first.split(" ")[1], headers, json.loads(body or b"null"))
