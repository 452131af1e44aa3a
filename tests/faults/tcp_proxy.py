"""A TCP proxy that misbehaves on request: it stands between a process and PostgreSQL in tests.

Faults are switched while connections are open. A direction of a connection that has lost bytes stays dead when the
fault heals, as behind a real proxy that has forgotten it: the client has to notice by itself and connect again.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, Self

__all__ = ["HEALTHY", "LinkFault", "TcpProxy"]

Direction = Literal["up", "down"]
_BOTH: tuple[Direction, ...] = ("up", "down")
_CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class LinkFault:
    """What happens to connections.

    Parameters
    ----------
    kind
        ``none``; ``drop`` (both sides are reset, and so is who connects); ``delay``; ``swallow`` (bytes are
        acknowledged and not delivered, now and later); ``half-open`` (the server's side is closed, the client is not
        told); ``orphan`` (the client is reset, the server is not told while the fault lasts).
    directions
        Of ``delay`` and ``swallow``: ``up`` to the server, ``down`` to the client.
    delay_s
        Of ``delay``, for every piece in each direction.
    """

    kind: Literal["none", "drop", "delay", "swallow", "half-open", "orphan"] = "none"
    _: KW_ONLY
    directions: tuple[Direction, ...] = _BOTH
    delay_s: float = 0.0


HEALTHY = LinkFault()


def _reset(writer: asyncio.StreamWriter | None) -> None:
    """Close with RST: the peer sees a broken connection, not an orderly end."""
    if writer is None or writer.transport.is_closing():
        return
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass(eq=False)
class _Link:
    """One connection of a client, and that to the server."""

    number: int
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    dead: set[Direction] = field(default_factory=set)
    orphaned: bool = False
    fault: LinkFault = HEALTHY

    def heed(self, fault: LinkFault) -> None:
        """A fault begins or ends."""
        self.fault = fault
        match self.fault.kind:
            case "drop":
                _reset(self.client)
                _reset(self.server)
            case "half-open":
                self.dead |= {"up", "down"}
                _reset(self.server)
            case "orphan":
                self.orphaned = True
                _reset(self.client)
            case _:
                if self.orphaned:  # the server learns it now
                    _reset(self.server)

    def passes(self, direction: Direction) -> bool:
        """Whether bytes are delivered; those that are not make the direction dead for good."""
        if self.fault.kind == "swallow" and direction in self.fault.directions:
            self.dead.add(direction)
        return direction not in self.dead

    def delay_s(self, direction: Direction) -> float:
        return self.fault.delay_s if self.fault.kind == "delay" and direction in self.fault.directions else 0.0


class TcpProxy:
    """``async with TcpProxy("/run/.s.PGSQL.5432") as proxy: proxy.port``.

    Parameters
    ----------
    upstream
        The path of a Unix socket, or (host, port).
    """

    def __init__(self, upstream: str | tuple[str, int]) -> None:
        self._upstream = upstream
        self._fault = HEALTHY
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.connections = 0

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._server is None:
            raise RuntimeError("the proxy has not been started")
        return int(self._server.sockets[0].getsockname()[1])

    def set(self, fault: LinkFault = HEALTHY) -> None:
        """Begin a fault, for open connections and new ones, in place of the last; without one, heal."""
        self._fault = fault
        for link in tuple(self._links):
            link.heed(fault)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for link in tuple(self._links):
            _reset(link.client)
            _reset(link.server)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        link = _Link(self.connections, writer)
        self.connections += 1
        self._links.add(link)
        link.heed(self._fault)
        try:
            await self._connected(link, reader)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(link)
            _reset(link.client)
            _reset(link.server)

    async def _connected(self, link: _Link, reader: asyncio.StreamReader) -> None:
        if "up" in link.dead or link.fault.kind == "orphan":  # nobody is behind it
            await self._pump(link, "up", reader, None)
            return
        if isinstance(self._upstream, str):
            answers, link.server = await asyncio.open_unix_connection(self._upstream)
        else:
            answers, link.server = await asyncio.open_connection(*self._upstream)
        up = asyncio.create_task(self._pump(link, "up", reader, link.server))
        down = asyncio.create_task(self._pump(link, "down", answers, link.client))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            if down.done() and "down" in link.dead:  # the client is not told
                await up
            if up.done() and link.orphaned:  # the server is not told
                await down
        finally:
            for each in (up, down):
                each.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _pump(
        self, link: _Link, direction: Direction, source: asyncio.StreamReader, sink: asyncio.StreamWriter | None
    ) -> None:
        """Carry bytes one way, in order, until the source ends."""
        loop, line, filled = asyncio.get_running_loop(), deque[tuple[float, bytes]](), asyncio.Event()

        async def deliver() -> None:
            while True:
                await filled.wait()
                while line:
                    due, data = line[0]
                    if (wait_s := due - loop.time()) > 0:
                        await asyncio.sleep(wait_s)
                    if sink is not None and link.passes(direction):
                        sink.write(data)
                        await sink.drain()
                    line.popleft()
                filled.clear()

        delivering = asyncio.create_task(deliver())
        with suppress(OSError):
            try:
                while data := await source.read(_CHUNK):
                    line.append((loop.time() + link.delay_s(direction), data))
                    filled.set()
                while line:
                    await asyncio.sleep(0.001)
            finally:
                delivering.cancel()
                await asyncio.gather(delivering, return_exceptions=True)
