"""One way in for every request: admit the caller, read and decode the body, run the handler, answer, count.

Programs and people come the same way; what they see differently is a :class:`Face`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from bot_orch.service.problems import Problem, Reply, problem_of, problem_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.auth import Caller
from bot_orch.service.web.limits import ClientGoneError, read_body

__all__ = ["Endpoint", "Face", "Handler", "JsonFace", "Request", "Stream"]

_log = logging.getLogger("bot_orch.http")
_Pairs = list[tuple[bytes, bytes]]
_SECURITY: _Pairs = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


@dataclass(slots=True)
class Request:
    """What a handler gets. ``headers_out`` are sent with the answer, also with an error.

    ``query`` is for people: programs say everything in the body.
    """

    runtime: Runtime
    caller: Caller
    headers: Mapping[bytes, bytes]
    params: Mapping[str, str]
    raw: bytes
    body: Any
    path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    headers_out: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of a form; none if there was none."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(slots=True)
class Stream:
    """An answer sent piece by piece."""

    pieces: AsyncIterator[bytes]
    media: bytes = b"text/event-stream"


Handler = Callable[[Request], Awaitable[Reply | Stream]]


class Face(Protocol):
    """What differs between programs and people: how a body is written, and how an answer looks."""

    @property
    def people(self) -> bool:
        """Whether it is for browsers: a token may come in a cookie, and then forms only from pages of ours."""
        ...

    def takes_body(self, method: str) -> bool:
        """Whether there is a body to read."""
        ...

    def decode(self, raw: bytes) -> Any:
        """The body as the handler wants it."""
        ...

    def query(self, written: bytes) -> Mapping[str, str]:
        """The part of the address behind the question mark."""
        ...

    def headers(self) -> _Pairs:
        """What goes with every answer that does not say otherwise itself."""
        ...

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """The answer to a problem."""
        ...


class JsonFace:
    """For programs.

    Parameters
    ----------
    body
        The type of the body; ``None`` if there is none.
    """

    people = False

    def __init__(self, body: Any = None) -> None:
        self._decoder = None if body is None else msgspec.json.Decoder(body)

    def takes_body(self, method: str) -> bool:
        """See :class:`Face`."""
        return self._decoder is not None

    def decode(self, raw: bytes) -> Any:
        """See :class:`Face`."""
        return None if self._decoder is None else self._decoder.decode(raw)

    def query(self, written: bytes) -> Mapping[str, str]:
        """See :class:`Face`."""
        return {}

    def headers(self) -> _Pairs:
        """See :class:`Face`."""
        return _SECURITY

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """See :class:`Face`."""
        return problem_reply(problem)


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
    face
        For programs or for people.
    turn
        Whether the handler may decide or write something down, so that it has to wait for its turn.
    watch
        Whether to cancel the handler when the caller hangs up.
    """

    def __init__(
        self,
        runtime: Runtime,
        handler: Handler,
        route: str,
        scope: str | None,
        face: Face,
        *,
        turn: bool = False,
        watch: bool = False,
    ) -> None:
        self._runtime, self._handler, self._route, self._scope = runtime, handler, route, scope
        self._face, self._turn, self._watch = face, turn, watch

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
                await _send_stream(answer, self._face.headers(), request.headers_out, receive, send)
            else:
                status = answer.status
                await _send(answer, self._face.headers(), request.headers_out, send)
        except ClientGoneError:
            pass
        except Exception as error:  # the last line of defence: nothing leaves without an answer
            reply = self._face.problem(self._problem(error), scope["method"], scope["path"])
            status = reply.status
            await _send(reply, self._face.headers(), {} if request is None else request.headers_out, send)
        finally:
            self._runtime.metrics.request(self._route, status, time.perf_counter() - started)

    async def _read(self, scope: Any, receive: Any) -> Request:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        gate, face, method = self._runtime.gate, self._face, scope["method"]
        caller = (gate.admit_person if face.people else gate.admit)(headers, self._scope, method)
        raw, body = b"", None
        if face.takes_body(method):
            raw = await read_body(headers, receive, self._runtime.config.limits)
            body = face.decode(raw)
        query, params = face.query(scope.get("query_string", b"")), scope.get("path_params", {})
        return Request(self._runtime, caller, headers, params, raw, body, scope["path"], query)

    async def _handle(self, request: Request) -> Reply | Stream:
        if self._turn:
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


def _headers(own: _Pairs, usual: _Pairs, extra: Mapping[str, str]) -> _Pairs:
    said = {name for name, _ in own}
    more = [(name.encode("latin-1"), _printable(value)) for name, value in extra.items()]
    return [*own, *(pair for pair in usual if pair[0] not in said), *more]


def _printable(text: str) -> bytes:
    return "".join(each if " " <= each <= "~" else "?" for each in text).encode("ascii")


async def _send(reply: Reply, usual: _Pairs, extra: Mapping[str, str], send: Any) -> None:
    headers = [*_headers(reply.headers, usual, extra), (b"content-length", str(len(reply.body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _send_stream(stream: Stream, usual: _Pairs, extra: Mapping[str, str], receive: Any, send: Any) -> None:
    """Pass pieces on until the end, or until the caller hangs up."""
    gone = asyncio.ensure_future(_disconnected(receive))
    sender = asyncio.ensure_future(_pieces(stream, usual, extra, send))
    try:
        await asyncio.wait((sender, gone), return_when=asyncio.FIRST_COMPLETED)
        if sender.done():
            sender.result()
    finally:
        for each in (sender, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _pieces(stream: Stream, usual: _Pairs, extra: Mapping[str, str], send: Any) -> None:
    headers = _headers([(b"content-type", stream.media)], usual, extra)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    try:
        async for piece in stream.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    finally:
        close = getattr(stream.pieces, "aclose", None)
        if close is not None:
            await close()
    await send({"type": "http.response.body", "body": b""})
