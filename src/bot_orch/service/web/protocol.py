"""HTTP/1.1 with limits on the request line and headers, so that unauthenticated clients cannot fill the memory.

The parser buffers a header until it is complete, without a limit, and a token can only be checked after all headers. So
bytes are counted as they arrive; at most one chunk of a socket is read beyond the limit.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem, problem_reply

__all__ = ["LimitedProtocol", "limited"]

_REST = 64  # bytes of a request line without the path
_LINGER_S = 1.0  # closing a socket with unread bytes resets the connection and loses the answer


def limited(limits: LimitsConfig) -> type[LimitedProtocol]:
    """The protocol with these limits, for ``uvicorn.Config(http=...)``."""
    return type("Limited", (LimitedProtocol,), {"limits": limits})


class LimitedProtocol(HttpToolsProtocol):
    """The httptools protocol of uvicorn, with limits on the request line, headers and trailers."""

    limits = LimitsConfig()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._refusal: Problem | None = None
        self._in_head = self._progress = False
        self._silent = self._size = self._count = 0

    def data_received(self, data: bytes) -> None:
        """Parse; refuse a client that sends more header bytes than allowed."""
        if self._refusal is not None:
            return
        self._progress = False
        super().data_received(data)
        self._silent = 0 if self._progress else self._silent + len(data)
        if self._silent > self.limits.head_bytes + self.limits.url_bytes + _REST and self._refusal is None:
            self._refusal = self._too_large()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Start counting headers of a new request."""
        self._in_head, self._size, self._count = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Refuse a path that is too long."""
        if len(self.url) + len(url) > self.limits.url_bytes:
            self._refuse(Problem(414, "url_too_long", f"the path exceeds {self.limits.url_bytes} bytes"))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse too many or too large headers and trailers."""
        self._count += 1
        self._size += len(name) + len(value) + 4
        if self._count > self.limits.headers:
            self._refuse(Problem(431, "too_many_headers", f"there are more than {self.limits.headers} headers"))
        if self._size > self.limits.head_bytes:
            self._refuse(self._too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note the end of the headers."""
        self._in_head, self._progress = False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note a chunk of the body, whose length is limited where it is read."""
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of the request."""
        self._progress = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer with the reason, if no other answer is under way, and close the connection."""
        if self._refusal is None:
            super().send_400_response(msg)
        elif self.cycle is None or self.cycle.response_complete:
            self._say(self._refusal)
        elif self._in_head:  # an earlier request is being answered; close after that
            self.cycle.keep_alive = False
        else:  # in trailers: the body cannot be completed
            self.transport.close()

    def _say(self, problem: Problem) -> None:
        reply = problem_reply(problem)
        length = (b"content-length", str(len(reply.body)).encode())
        headers = [*reply.headers, length, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + reply.body)
        self.flow.pause_reading()
        self.timeout_keep_alive_task = self.loop.call_later(_LINGER_S, self.timeout_keep_alive_handler)

    def _refuse(self, problem: Problem) -> None:
        self._refusal = problem
        raise problem  # stops the parser

    def _too_large(self) -> Problem:
        return Problem(431, "headers_too_large", f"the headers exceed {self.limits.head_bytes} bytes")
