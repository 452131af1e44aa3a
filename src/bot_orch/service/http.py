"""One way in for every request: admit the caller, read and decode the body, run the handler, answer, count."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bot_orch.service.auth import Caller
from bot_orch.service.limits import ClientGoneError, read_body
from bot_orch.service.problems import Problem, Reply, problem_of, problem_reply
from bot_orch.service.runtime import Runtime

__all__ = ["Endpoint", "Handler", "Request", "Stream"]

_log = logging.getLogger("bot_orch.http")
_SECURITY = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


@dataclass(slots=True)
class Request:
    """What a handler gets. ``headers_out`` are sent with the answer, also with an error."""

    runtime: Runtime
    caller: Caller
    headers: Mapping[bytes, bytes]
    params: Mapping[str, str]
    raw: bytes
    body: Any
    headers_out: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)


@dataclass(slots=True)
class Stream:
    """An answer sent piece by piece."""

    pieces: AsyncIterator[bytes]
    media: bytes = b"text/event-stream"


Handler = Callable[[Request], Awaitable[Reply | Stream]]


class Endpoint:
    """A handler as an ASGI application.

    Parameters
    ----------
    runtime
        The service.
    handler
        What to do.
    route
        Its path, for metrics.
    scope
        What the caller's token must allow; ``None`` for nothing.
    body
        The type of the body; ``None`` if there is none.
    watch
        Whether to cancel the handler when the caller hangs up.
    """

    def __init__(
        self,
        runtime: Runtime,
        handler: Handler,
        route: str,
        scope: str | None,
        body: Any = None,
        *,
        watch: bool = False,
    ) -> None:
        self._runtime, self._handler, self._route, self._scope = runtime, handler, route, scope
        self._decoder = None if body is None else msgspec.json.Decoder(body)
        self._watch = watch

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        started = time.perf_counter()
        request: Request | None = None
        status = 499
        try:
            request = await self._read(scope, receive)
            answer = await (self._watched(request, receive) if self._watch else self._handle(request))
            if isinstance(answer, Stream):
                status = 200
                await _send_stream(answer, request.headers_out, receive, send)
            else:
                status = answer.status
                await _send(answer, request.headers_out, send)
        except ClientGoneError:
            pass
        except Exception as error:  # the last line of defence: nothing leaves without an answer
            reply = problem_reply(self._problem(error))
            status = reply.status
            await _send(reply, {} if request is None else request.headers_out, send)
        finally:
            self._runtime.metrics.request(self._route, status, time.perf_counter() - started)

    async def _read(self, scope: Any, receive: Any) -> Request:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        caller = self._runtime.gate.admit(headers, self._scope)
        raw, body = b"", None
        if self._decoder is not None:
            raw = await read_body(headers, receive, self._runtime.config.limits)
            body = self._decoder.decode(raw)
        return Request(self._runtime, caller, headers, scope.get("path_params", {}), raw, body)

    async def _handle(self, request: Request) -> Reply | Stream:
        if self._decoder is not None:  # it may decide or write something down
            await self._runtime.writer.turn()
        return await self._handler(request)

    async def _watched(self, request: Request, receive: Any) -> Reply | Stream:
        """Run the handler; cancel it when the caller hangs up."""
        work = asyncio.ensure_future(self._handle(request))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientGoneError
            return await work
        finally:
            for each in (work, gone):
                each.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await each

    def _problem(self, error: Exception) -> Problem:
        problem = problem_of(error)
        if problem is None:
            _log.error("defect", exc_info=error, extra={"fields": {"route": self._route}})
            return Problem(500, "internal", "the service failed; the log has details")
        return problem


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _headers(own: list[tuple[bytes, bytes]], extra: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    more = [(name.encode("latin-1"), _printable(value)) for name, value in extra.items()]
    return [*own, *_SECURITY, *more]


def _printable(text: str) -> bytes:
    return "".join(each if " " <= each <= "~" else "?" for each in text).encode("ascii")


async def _send(reply: Reply, extra: Mapping[str, str], send: Any) -> None:
    headers = [*_headers(reply.headers, extra), (b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _send_stream(stream: Stream, extra: Mapping[str, str], receive: Any, send: Any) -> None:
    """Pass pieces on until the end, or until the caller hangs up."""
    gone = asyncio.ensure_future(_disconnected(receive))
    sender = asyncio.ensure_future(_pieces(stream, extra, send))
    try:
        await asyncio.wait((sender, gone), return_when=asyncio.FIRST_COMPLETED)
        if sender.done():
            sender.result()
    finally:
        for each in (sender, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _pieces(stream: Stream, extra: Mapping[str, str], send: Any) -> None:
    headers = _headers([(b"content-type", stream.media)], extra)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    try:
        async for piece in stream.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        close = getattr(stream.pieces, "aclose", None)
        if close is not None:
            await close()
    await send({"type": "http.response.body", "body": b""})
