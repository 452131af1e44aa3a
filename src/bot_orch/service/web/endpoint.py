"""The path of every request: authorise, read and decode the body, run the handler, answer, count.

API and pages share it; what differs between them (JSON or forms and HTML) is a :class:`Face`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import msgspec
from starlette.routing import BaseRoute, Route

from bot_orch.service.cluster.forwarding import PASSED, ElsewhereError, Exchange, alone, moved
from bot_orch.service.cluster.front import carries
from bot_orch.service.config import LimitsConfig
from bot_orch.service.operations.tracing import CURRENT, RoundTrace
from bot_orch.service.operations.usage import TAGS, with_tags
from bot_orch.service.problems import Problem, Reply, problem_of, problem_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.access import CALLER, REQUEST
from bot_orch.service.web.auth import Caller, Gate, Visit, single
from bot_orch.service.web.connections import connection_of
from bot_orch.service.web.messages import (
    RECORD_BYTES,
    BodyRoom,
    ClientGoneError,
    MoreHeaders,
    Pairs,
    StreamedReply,
    check_values,
    read_body,
    read_query,
    send_reply,
    send_stream,
    unless_gone,
)

_log = logging.getLogger("bot_orch.http")
_KEY = b"idempotency-key"
_HEALTH = ("/health/live", "/health/ready")
_SECURITY: Pairs = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


@dataclass(slots=True)
class Site:
    """What all endpoints share: the runtime that serves now, the tokens, room for bodies."""

    runtime: Runtime
    gate: Gate
    room: BodyRoom = field(default_factory=lambda: BodyRoom(LimitsConfig()))


@dataclass(slots=True)
class Request:
    """A request, as handlers take it. ``headers_out`` are sent with the answer, also with an error; ``noted`` is for
    the access log; ``started`` is when its last bytes arrived.

    ``params`` come from the path, ``query`` from the query string. One that is ``carried`` came to a process that does
    not own the router.
    """

    site: Site
    runtime: Runtime
    caller: Caller
    headers: Mapping[bytes, bytes]
    _: KW_ONLY
    params: Mapping[str, str]
    raw: bytes | bytearray
    body: Any
    carried: bool = False
    path: str = ""
    method: str = ""
    target: str = ""
    address: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    headers_out: dict[str, str] = field(default_factory=dict)
    noted: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.perf_counter)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the caller's token and of the request."""
        return with_tags(self.caller.tags, self.headers.get(TAGS))

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of a form; empty for other bodies."""
        return self.body if isinstance(self.body, dict) else {}


Handler = Callable[[Request], Awaitable[Reply | StreamedReply]]


class Face(Protocol):
    """Differences between the API and pages: decoding of bodies and format of errors."""

    @property
    def people(self) -> bool:
        """Whether it serves browsers: the token may be in a cookie, and POST must be same-origin."""
        ...

    def takes_body(self, method: str) -> bool:
        """Whether requests of this method have a body."""
        ...

    async def decode(self, raw: bytes | bytearray) -> Any:
        """Decode the body for the handler."""
        ...

    def query(self, written: bytes) -> Mapping[str, str]:
        """The query string, decoded."""
        ...

    def headers(self) -> Pairs:
        """Default headers of every answer."""
        ...

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """The answer to an error."""
        ...


class JsonFace:
    """Face of the API: JSON in, JSON out.

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

    async def decode(self, raw: bytes | bytearray) -> Any:
        """See :class:`Face`."""
        if self._decoder is None:
            return None
        check_values(raw)
        if len(raw) <= RECORD_BYTES:
            return self._decoder.decode(raw)
        await asyncio.sleep(0)  # each of these takes some milliseconds of other requests
        body = self._decoder.decode(raw)
        await asyncio.sleep(0)
        return body

    def query(self, written: bytes) -> Mapping[str, str]:
        """See :class:`Face`."""
        return read_query(written) if written else {}

    def headers(self) -> Pairs:
        """See :class:`Face`."""
        return _SECURITY

    def problem(self, problem: Problem, method: str, path: str) -> Reply:
        """See :class:`Face`."""
        return problem_reply(problem)


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route.

    Parameters
    ----------
    method, path, handler
        What is asked for, and the function that answers.
    scope
        Scope that a token needs; ``None`` if it needs no token.
    summary
        For the OpenAPI document; pages are not in it.
    body, answer
        Types of the request body and of the answer; ``None`` for no body, and for text instead of JSON.
    statuses
        Additional statuses, beyond those that all routes share.
    watch
        Whether to cancel the handler when the caller disconnects.
    query
        Names of parameters behind the path, for the OpenAPI document; all are optional.
    large
        Whether bodies may hold images: 20 MB, not a megabyte.
    face
        Makes the face for a type of body: API or page.
    everywhere
        Whether every process of a service answers it, for itself and the others, even if it does not own the router.
    carried
        Whether a process answers it although another one owns the router.
    """

    method: str
    path: str
    handler: Handler
    _: KW_ONLY
    scope: str | None
    summary: str = ""
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = (200,)
    watch: bool = False
    large: bool = False
    face: Callable[[Any], Face] = JsonFace
    query: tuple[str, ...] = ()
    everywhere: bool = False
    carried: bool = False

    def route(self, site: Site) -> BaseRoute:
        """The route for the application."""
        return Route(self.path, Endpoint(site, self), methods=[self.method])


class Endpoint:
    """A route's handler as an ASGI application; a request with a body may decide or log something.

    Parameters
    ----------
    site
        The service and its tokens.
    spec
        The route.
    """

    def __init__(self, site: Site, spec: RouteSpec) -> None:
        self._site = site
        self._handler, self._route, self._scope = spec.handler, spec.path, spec.scope
        self._face, self._watch, self._large = spec.face(spec.body), spec.watch, spec.large
        self._decides, self._carried = spec.body is not None and spec.scope == "decide", spec.carried
        self._local = spec.everywhere or spec.scope is None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        started = time.perf_counter()
        request: Request | None = None
        serving: Runtime | None = None
        here = self._site.runtime
        trace = self._trace(scope) if here.traces is not None else None
        status, passed, exchange = 499, False, Exchange(scope, receive, send)
        try:
            try:
                request = scope[REQUEST] = await self._read(exchange)
            except ElsewhereError:
                passed = scope[PASSED] = True
                if here.forwarder is not None:
                    await here.forwarder.pass_on(exchange)
                return
            serving = request.runtime
            serving.serving += 1
            work = self._handler(request)
            answer = await (unless_gone(receive, work) if self._watch else work)
            if isinstance(answer, StreamedReply):
                status = 200
                await send_stream(answer, self._headers(request), receive=receive, send=send)
            else:
                status = answer.status
                await send_reply(answer, self._headers(request), send)
        except ClientGoneError:
            pass
        except asyncio.CancelledError:
            if not self._site.runtime.stopping:
                raise
            status = 503  # the grace is over, and the client does not read its answer: uvicorn closes the connection
        except Exception as error:  # the last line of defence: every request gets an answer
            reply = self._face.problem(self._problem(error), scope["method"], _target(scope))
            status = reply.status
            await send_reply(reply, self._headers(request), send)
        finally:
            if serving is not None:
                serving.serving -= 1
            self._site.room.give_back(len(exchange.raw))
            if trace is not None:
                given = (None, {}) if request is None else (request.body, request.headers_out)
                trace.end(status, body=given[0], told=given[1])
            if not passed:
                here.metrics.request(self._route, status, time.perf_counter() - started)

    async def _read(self, exchange: Exchange) -> Request:
        scope = exchange.scope
        headers, method = single(scope["headers"]), scope["method"]
        gate, face, visit = self._site.gate, self._face, Visit((scope.get("client") or ("",))[0], self._route)
        await gate.look_up(headers, visit)
        if face.people:
            caller = gate.admit_person(headers, self._scope, visit, posts=method == "POST")
        else:
            caller = gate.admit(headers, self._scope, visit)
        scope[CALLER] = caller.name
        runtime = self._site.runtime
        limits = runtime.config.limits
        most = limits.body_bytes if self._large else min(limits.body_bytes, RECORD_BYTES)
        await self._loaded(runtime)
        allowed = runtime.admit(caller.name, caller.limits) if self._decides and not runtime.away else {}
        body = None
        if face.takes_body(method):
            exchange.raw = await read_body(headers, exchange.receive, limits, most=most, room=self._site.room)
            body = await face.decode(exchange.raw)
        query, params = face.query(scope.get("query_string", b"")), scope.get("path_params", {})
        carried = runtime.away and not self._local
        if carried and not self._carries(runtime, headers):
            raise moved() if alone(headers) else ElsewhereError
        return Request(
            self._site,
            runtime,
            caller,
            headers,
            params=params,
            raw=exchange.raw,
            body=body,
            carried=carried,
            path=scope["path"],
            method=method,
            target=_target(scope),
            address=visit.address,
            query=query,
            headers_out=allowed,
            started=connection.arrived if (connection := connection_of(scope)) else time.perf_counter(),
        )

    async def _loaded(self, runtime: Runtime) -> None:
        """Wait for the router's log to be folded; raise a problem if it takes too long."""
        if self._route not in _HEALTH and not runtime.away:
            await runtime.loaded_soon()
            runtime.check_loaded()

    def _carries(self, runtime: Runtime, headers: Mapping[bytes, bytes]) -> bool:
        """Whether this process answers for the owner; requests with an idempotency key go there."""
        owners = None if runtime.forwarder is None else runtime.forwarder.owners
        able = self._carried and not alone(headers) and _KEY not in headers
        return able and owners is not None and carries(runtime.config)

    def _trace(self, scope: Any) -> RoundTrace | None:
        """The trace of a round, available to everything awaited or started within."""
        traces = self._site.runtime.traces
        trace = traces.begin(self._route, dict(scope["headers"])) if traces and self._decides and self._watch else None
        CURRENT.set(trace)
        return trace

    def _headers(self, request: Request | None) -> MoreHeaders:
        return MoreHeaders(self._face.headers(), {} if request is None else request.headers_out)

    def _problem(self, error: Exception) -> Problem:
        problem = problem_of(error)
        if problem is None:
            _log.error("defect", exc_info=error, extra={"fields": {"route": self._route}})
            return Problem(500, "internal", "the service failed; the log has details")
        return problem


def _target(scope: Any) -> str:
    """The path with its query, so that a page can redirect back to it."""
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{scope['path']}?{query}" if query else str(scope["path"])
