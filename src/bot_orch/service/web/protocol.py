"""HTTP/1.1 with limits, so that clients without a token cannot fill the memory, hold connections or stop the service.

- Bytes of the request line, headers and trailers: the parser buffers a header until it is complete, and a token can
  only be checked after all headers. So bytes are counted as they arrive.
- Time: a client that owes a request, or does not read its answer, has some seconds.
- Number: of connections (:mod:`bot_orch.service.web.connections`) and of requests sent ahead on one of them.
- What arrives is parsed in small slices, and other connections have their turn in between.
"""

from __future__ import annotations

import time
from asyncio import Handle, Transport
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem, problem_reply
from bot_orch.service.web.access import ARRIVED
from bot_orch.service.web.connections import Connections, most_connections

__all__ = ["LimitedProtocol", "limited"]

_REST = 64  # bytes of a request line without the path
_LINGER_S = 1.0  # closing a socket with unread bytes resets the connection and loses the answer
_SLICE = 2_048
_AT_ONCE_S = 0.002
_AHEAD = 16  # requests sent before the answer to the first


def limited(limits: LimitsConfig) -> type[LimitedProtocol]:
    """The protocol with these limits, for ``uvicorn.Config(http=...)``."""
    book = Connections(most_connections(limits.connections))
    return type("Limited", (LimitedProtocol,), {"limits": limits, "book": book})


class _Flow(FlowControl):
    """Reading is not resumed while bytes that were read wait to be parsed."""

    held = False

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()


class LimitedProtocol(HttpToolsProtocol):
    """The httptools protocol of uvicorn, with limits."""

    limits = LimitsConfig()
    book = Connections(LimitsConfig().connections)
    flow: _Flow

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._refusal: Problem | None = None
        self._in_head = self._progress = False
        self._arrived = 0.0
        self._silent = self._size = self._count = 0
        self._backlog = bytearray()
        self._due: Handle | None = None  # when a request is due
        self._unread: Handle | None = None  # when the client must have read

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take the connection in, or refuse it if all others are at work."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        if self.book.enter(self):
            self._expect()
            return
        self._refusal = Problem(503, "too_many_connections", "too many connections are open; try again")
        self._write(self._refusal)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.book.leave(self)
        self._backlog = bytearray()
        self._met()
        self._drained()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def shed(self) -> None:
        """Close a connection that waits, for another one."""
        self._met()
        self.transport.abort() if self.transport.get_write_buffer_size() else self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse in slices; refuse a client that sends more header bytes than allowed."""
        if self._refusal is not None:
            return
        self._arrived = time.perf_counter()  # parsing may wait for its turn
        if self._backlog:
            self._backlog += data
            self.flow.pause_reading()
        elif len(data) <= _SLICE and len(self.pipeline) < _AHEAD:
            self._take(data)
        else:
            self._unset_keepalive_if_required()
            self._backlog += data
            self._go_on()

    def on_message_begin(self) -> None:
        """Start counting headers of a new request."""
        self._in_head, self._size, self._count = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Refuse a path that is too long."""
        if len(self.url) + len(url) > self.limits.url_bytes:
            message = f"the path exceeds {self.limits.url_bytes} bytes; send a shorter one, or raise limits.url_bytes"
            self._refuse(Problem(414, "url_too_long", message))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse too many or too large headers and trailers."""
        self._count += 1
        self._size += len(name) + len(value) + 4
        if self._count > self.limits.headers:
            message = f"there are more than {self.limits.headers} headers; send fewer, or raise limits.headers"
            self._refuse(Problem(431, "too_many_headers", message))
        if self._size > self.limits.head_bytes:
            self._refuse(self._too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note the end of the headers."""
        self._in_head, self._progress = False, True
        self._met()
        self.book.works(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note a chunk of the body, whose length is limited where it is read."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self._progress = True
        self.scope[ARRIVED] = self._arrived  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what the client has sent ahead, or wait for its next request."""
        super().on_response_complete()
        if self.transport.is_closing():
            if self.transport.get_write_buffer_size():
                self._must_read()
        elif self._backlog:
            self.loop.call_soon(self._go_on)
        elif self.timeout_keep_alive_task is not None:
            self.book.waits(self)
            if self._in_head:  # its next request has begun to arrive
                self._expect()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to: it has some time."""
        self._must_read()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has read."""
        self._drained()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a request; what the client has not read by now it will not read."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Answer with the reason, if no other answer is under way, and close the connection."""
        if self._refusal is None:
            self._refusal = Problem(400, "malformed_request", "this is not HTTP/1.1 that can be read; check the head")
        if self.cycle is None or self.cycle.response_complete:
            self._say(self._refusal)
        elif self._in_head:  # an earlier request is being answered; close after that
            self.cycle.keep_alive = False
        else:  # in trailers: the body cannot be completed
            self.transport.close()

    def _go_on(self) -> None:
        """Parse what was read, for a while."""
        until = time.perf_counter() + _AT_ONCE_S
        while self._backlog and self._refusal is None and not self.transport.is_closing():
            if len(self.pipeline) >= _AHEAD or time.perf_counter() > until:
                break
            piece = bytes(self._backlog[:_SLICE])
            del self._backlog[:_SLICE]
            self._take(piece)
        if self._refusal is not None or self.transport.is_closing():
            self._backlog = bytearray()
            return
        self.flow.held = bool(self._backlog)
        if not self._backlog:
            if not self.pipeline and (self.cycle is None or not self._is_full()):
                self.flow.resume_reading()
            return
        self.flow.pause_reading()
        if len(self.pipeline) < _AHEAD:
            self.loop.call_soon(self._go_on)

    def _is_full(self) -> bool:
        return len(self.cycle.body) > _SLICE and not self.cycle.response_complete

    def _take(self, data: bytes) -> None:
        self._progress = False
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:  # not logged: anybody could fill the disk with lines
            self.send_400_response("")
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as if it did not ask for another protocol
        self._silent = 0 if self._progress else self._silent + len(data)
        if self._refusal is not None:
            return
        if self._silent > self.limits.head_bytes + self.limits.url_bytes + _REST:
            self._refusal = self._too_large()
            self.send_400_response("")
        elif self._due is None and (self.cycle is None or self.cycle.response_complete):
            self._expect()

    def _expect(self) -> None:
        """A complete head is due in some seconds."""
        if self._due is None:
            self._due = self.loop.call_later(self.limits.head_timeout_s, self._late)

    def _met(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        self._due = None
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._in_head:
            message = f"the head did not arrive within {self.limits.head_timeout_s:g} s; send it faster"
            self._refusal = Problem(408, "slow_head", message)
            self._say(self._refusal)
        else:
            self.shed()

    def _must_read(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.write_timeout_s, self.transport.abort)

    def _drained(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _say(self, problem: Problem) -> None:
        """Answer, and close a moment later."""
        self._write(problem)
        self.flow.pause_reading()
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(_LINGER_S, self.timeout_keep_alive_handler)

    def _write(self, problem: Problem) -> None:
        reply = problem_reply(problem)
        length = (b"content-length", str(len(reply.body)).encode())
        headers = [*reply.headers, length, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + reply.body)

    def _refuse(self, problem: Problem) -> None:
        self._refusal = problem
        raise problem  # stops the parser

    def _too_large(self) -> Problem:
        message = f"the headers exceed {self.limits.head_bytes} bytes; send less, or raise limits.head_bytes"
        return Problem(431, "headers_too_large", message)
