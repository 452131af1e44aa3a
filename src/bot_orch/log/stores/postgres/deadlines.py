"""Client-side deadlines: a silent server, pooler or network cannot block a thread forever.

The server's own timeouts do not help where nothing arrives: a connection that acknowledges but does not deliver looks
alive to TCP. Every wait of a connection ends after ``query_s`` of silence, and at once if the log is closed; the
connection is closed then, because the state of the server is unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from time import monotonic
from typing import Any

__all__ = ["connected", "limited"]

_POLL_S = 0.1


def connected(psycopg: Any, ended: threading.Event | None, **options: Any) -> Any:
    """A new connection; abandoned once ``ended`` is set, while a thread waits for ``connect_timeout``."""
    if ended is None:
        return limited(psycopg).connect(**options)
    made: Future[Any] = Future()

    def make() -> None:
        try:
            made.set_result(limited(psycopg).connect(**options))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=make, name="connect", daemon=True).start()
    while not ended.is_set():
        with suppress(TimeoutError):
            return made.result(_POLL_S)
    made.add_done_callback(_close)
    raise psycopg.OperationalError("given up, as the log is being closed")


def _close(made: Future[Any]) -> None:
    if made.exception() is None:
        made.result().close()


@cache
def limited(psycopg: Any) -> Any:
    """The driver's connection with a deadline for every wait; the class is made once."""

    class SilentServerError(psycopg.OperationalError):  # type: ignore[misc]
        """The server did not answer in time."""

    class LimitedConnection(psycopg.Connection):  # type: ignore[misc]
        """A connection that gives up on a silent server."""

        query_s = 5.0
        ended = threading.Event()

        def limit(self, query_s: float, ended: threading.Event | None = None) -> None:
            """Time out after ``query_s`` of silence, or when ``ended`` is set."""
            self.query_s = query_s
            if ended is not None:
                self.ended = ended

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            """See psycopg."""
            try:
                return super().wait(self._watched(gen), *arguments, **options)
            except SilentServerError:
                self.pgconn.finish()  # what the server still does is not known
                raise

        def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
            end = monotonic() + self.query_s
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        end = monotonic() + self.query_s
                    elif self.ended.is_set():
                        raise SilentServerError("given up, as the log is being closed")
                    elif monotonic() > end:
                        raise SilentServerError(f"no answer within {self.query_s:g} seconds")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return LimitedConnection
