"""Connection limits, so that clients without a token cannot exhaust memory or connections.

A :class:`Connection` stands between the transport and the HTTP protocol of uvicorn. It sees bytes and time, not HTTP:
the application reports when a request begins, what of its body was read and when its answer is complete. So it bounds

- bytes before a request begins (uvicorn keeps a head until it is complete), behind it (trailers), and requests ahead;
- the time that a client has for a head and for reading an answer, and the time between requests;
- the number of connections: the one that has waited longest for a request makes room for a new one;
- what is read at once: other connections have their turn in between.

Bodies are bounded where they are read (:mod:`bot_orch.service.web.messages`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem, problem_reply

_KEY = "bot_orch.connection"
HEAD_BYTES = 32_768
_READ_BYTES = 4_096  # at once; requests sent ahead are parsed before uvicorn stops reading
_BUFFERED_BYTES = 65_536 + _READ_BYTES  # of a body, before uvicorn stops reading
_FRAMING = 8  # bytes of chunked encoding around one byte of a body, at most
_LINE_BYTES = len(b"  HTTP/1.1\r\n\r\n")  # of a head, without method, path and headers
_SPACES = 256  # that a client may write in a head beyond what is needed
_HEADERS = 100
_LINGER_S = 1.0  # closing a socket with unread bytes resets the connection and loses the answer
_SPARE_FILES = 200  # besides connections: the log, agents, the standard library
_CLIENTS = ("Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket")
_log = logging.getLogger("bot_orch.http")


def connection_of(scope: Any) -> Connection | None:
    """The connection of an ASGI scope; ``None`` if the application is called without a server."""
    found: Connection | None = scope.get("state", {}).get(_KEY)
    return found


class Connections:
    """All connections of a server: creates and counts them, and closes those that are too slow.

    Parameters
    ----------
    limits
        Limits on connections and heads.
    protocol
        The protocol of uvicorn that parses requests.
    """

    def __init__(self, limits: LimitsConfig, protocol: Callable[..., Any]) -> None:
        self.limits, self._protocol = limits, protocol
        self.buffer = bytearray(_READ_BYTES)  # of all: what is read is parsed at once
        self._most = most_connections(limits.connections)
        logging.getLogger("uvicorn.error").addFilter(_is_ours)
        self._all: set[Connection] = set()
        self._waiting: dict[Connection, None] = {}  # for a request; the longest wait first
        self._sweep_s = min(1.0, limits.client_timeout_s / 4, max(limits.idle_s, 0.1) / 4)
        self._sweeping: asyncio.TimerHandle | None = None

    def __call__(self, *, app_state: dict[str, Any], **options: Any) -> Connection:
        """Create a connection; uvicorn's protocol factory."""
        connection = Connection(self)
        connection.http = self._protocol(app_state={**app_state, _KEY: connection}, **options)
        return connection

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, connection: Connection) -> bool:
        """Register a new connection; False if all others are busy."""
        if len(self._all) >= self._most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.end()
        self._all.add(connection)
        self.waits(connection)
        if self._sweeping is None:
            self._sweep()
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: Connection) -> None:
        """Note that a connection waits for a request from now on."""
        if connection in self._all:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def works(self, connection: Connection) -> None:
        """Note that a connection has a request."""
        self._waiting.pop(connection, None)

    def _sweep(self) -> None:
        """Close connections that have timed out, and reschedule while there are any."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [each for each in self._all if min(each.due, each.write_due) < now]:
            connection.late(unread=connection.write_due < now)
        self._sweeping = loop.call_later(self._sweep_s, self._sweep) if self._all else None


class Connection(asyncio.BufferedProtocol):
    """One connection. ``due`` and ``write_due`` are the deadlines for sending a request and for reading an answer.

    Parameters
    ----------
    connections
        All of the server.
    """

    http: Any

    def __init__(self, connections: Connections) -> None:
        self._connections, self._limits = connections, connections.limits
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self.due = self.write_due = math.inf
        self.arrived = 0.0  # when the last bytes were read
        self._admitted = self._closing = False
        self._serving = 0  # requests under way: one, and for a moment the next
        self._idle = True  # no byte has come since the last answer
        self._bytes = self._lines = 0  # passed on since then
        self._known = 0  # bytes of requests that have begun, with their bodies
        self._ahead = bytearray()  # of requests that have not: uvicorn would parse and keep any number of them
        self._next: asyncio.Handle | None = None  # turn for those
        self._body_open, self._owed = False, 0  # whether a body goes on, and bytes to come behind its answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, or refuse it if all others are busy."""
        self._transport = transport
        self._admitted = self._connections.enter(self)
        if not self._admitted:
            self._refuse(Problem(503, "too_many_connections", "too many connections are open; try again"))
            return
        self.http.connection_made(transport)
        self.due = self._loop.time() + self._limits.client_timeout_s

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.leave(self)
        self.due = self.write_due = math.inf
        if self._admitted:
            self.http.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        """The shared read buffer."""
        return self._connections.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse received data, unless it must wait or exceeds the limits."""
        if self._closing:
            return
        data = bytes(self._connections.buffer[:nbytes])
        self.arrived = time.perf_counter()
        ahead = self._bytes - self._known
        if self._ahead or (self._serving and ahead >= _READ_BYTES):
            self._ahead += data
            self._transport.pause_reading()
        elif self._idle and ahead > _SPACES:  # uvicorn has parsed more requests, or a part of one
            self._ahead += data
            self._transport.pause_reading()
            self._go_on_soon()
        else:
            self._parse(data)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self.http.eof_received() if self._admitted else None

    def pause_writing(self) -> None:
        """Start the write deadline, as the client reads too slowly."""
        self.write_due = self._loop.time() + self._limits.client_timeout_s
        self.http.pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self.write_due = math.inf
        self.http.resume_writing()

    def request_began(self, scope: Any) -> None:
        """Begin a request; refuses one with too large a head."""
        self._serving += 1
        self._idle, self._owed, self._lines, self.due = False, 0, 0, math.inf
        self._connections.works(self)
        headers, size = scope["headers"], len(scope["raw_path"]) + len(scope["query_string"])
        body = 0
        for name, value in headers:
            size += len(name) + len(value) + 4
            if name == b"content-length":
                body = self._owed = int(value)
            elif name == b"transfer-encoding":
                body = _FRAMING * _BUFFERED_BYTES
        self._body_open = body > 0
        self._known += size + body + len(scope["method"]) + _LINE_BYTES
        if size > HEAD_BYTES or len(headers) > _HEADERS:
            raise self._too_large()

    async def receive(self, receive: Any) -> Any:
        """Receive a part of the body, and note how much it was."""
        message = await receive()
        if self._body_open:
            size = len(message.get("body", b""))
            self._body_open = message.get("more_body", False)
            if self._owed:
                self._owed -= size
            else:
                self._known += _FRAMING * size
        return message

    def answer_complete(self) -> None:
        """Note that an answer is complete, whether or not the request's body has arrived."""
        self._serving -= 1
        if self._serving or self._closing:
            return
        self._idle, now = True, self._loop.time()
        if self._transport.is_closing():  # it waits for the client to read
            self.write_due = min(self.write_due, now + self._limits.client_timeout_s)
        elif self._body_open and not self._owed:  # chunked: the start of the next request is unknown
            self._closing, self.due = True, now + _LINGER_S
        else:
            self.due = now + self._limits.idle_s
            self._connections.waits(self)
            if self._ahead:
                self._go_on_soon()

    def late(self, *, unread: bool) -> None:
        """End a connection whose time is over."""
        if unread:
            self._transport.abort()
        elif not (self._idle or self._owed or self._closing):
            seconds = self._limits.client_timeout_s
            self._refuse(Problem(408, "slow_head", f"the head did not arrive within {seconds:g} s; send it faster"))
        else:
            self.end()

    def end(self) -> None:
        """Close the connection, dropping unread output."""
        self._closing, self.due = True, math.inf
        self._transport.abort() if self._transport.get_write_buffer_size() else self._transport.close()

    def _go_on_soon(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._go_on, self._known)

    def _go_on(self, known: int) -> None:
        """Parse pipelined data once no request is in progress and none began in the last loop iteration."""
        self._next = None
        if self._serving or self._closing or self._transport.is_closing():
            return
        if self._known == known:
            data = bytes(self._ahead[:_READ_BYTES])
            del self._ahead[:_READ_BYTES]
            self._parse(data)
        if self._ahead:
            self._go_on_soon()
        else:
            self._transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        if self._idle:
            self._idle, self._bytes, self._known, self._lines = False, 0, self._owed, 0
            self.due = min(self.due, self._loop.time() + self._limits.client_timeout_s)
        self._bytes += len(data)
        self._lines += data.count(b"\n")
        self.http.data_received(data)
        if not self._serving and self._is_too_much():  # unless a request begins with it, at once
            self._loop.call_soon(self._end_if_too_much)

    def _is_too_much(self) -> bool:
        """Whether more data was received than the known body and a head allow."""
        return self._bytes > self._known + HEAD_BYTES or (not self._owed and self._lines > _HEADERS + 2)

    def _end_if_too_much(self) -> None:
        if self._is_too_much() and not (self._serving or self._closing or self._transport.is_closing()):
            self.end() if self._owed else self._refuse(self._too_large())

    def _too_large(self) -> Problem:
        message = f"the head exceeds {HEAD_BYTES} bytes or {_HEADERS} headers; send less"
        return Problem(431, "head_too_large", message, headers={"connection": "close"})

    def _refuse(self, problem: Problem) -> None:
        """Answer, and close a moment later."""
        reply = problem_reply(problem)
        pairs = {**dict(reply.headers), b"content-length": b"%d" % len(reply.body), b"connection": b"close"}
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in pairs.items())
        status = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n".encode()
        self._transport.write(status + lines + b"\r\n" + reply.body)
        self._transport.pause_reading()
        self._closing, self.due = True, math.inf
        self._loop.call_later(_LINGER_S, self.end)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's log concerns the service; client errors are dropped, as they could fill the disk."""
    return not str(record.msg).startswith(_CLIENTS)


def most_connections(wanted: int) -> int:
    """The wanted number, limited by open files after raising that limit if possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else max(soft, min(needed, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(soft - _SPARE_FILES, soft // 2, 1)
    _log.warning("fewer connections than configured", extra={"fields": {"connections": allowed, "open_files": soft}})
    return allowed
