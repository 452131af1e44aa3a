"""Forwards whole requests to the process that owns the router: everything but chats that this process carries.

The request is read and checked here; its answer is streamed. The client's own headers go along, its token among them,
and are checked again where they arrive. A request with the header ``x-bot-orch-passed-on`` is never passed on again, so
there are no loops. A process that does not serve the router says so before it does anything, and the request is sent to
the current owner.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
from yarl import URL

from bot_orch.service.metrics import Metrics
from bot_orch.service.problems import Problem

if TYPE_CHECKING:
    from bot_orch.service.cluster.front import Owners

_log = logging.getLogger("bot_orch.cluster")
_OF_ONE_HOP = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect", b"proxy-connection"}
)
_OF_BODY = b"content-length"  # of a request: the client of the next hop writes it
_WITH_ASK = frozenset({b"authorization", b"x-api-key", b"cookie", b"host", b"origin"})
_CONNECT_S, _ASK_S, _LOOK_S = 2.0, 5.0, 0.1
_IDLE_S = 10.0  # shorter than the server keeps a connection

PASSED_ON_HEADER = b"x-bot-orch-passed-on"
"""On a request that another process has passed on, or asks this process alone; it is never passed on again."""
MOVED_HEADER = "x-bot-orch-moved"
"""On an answer: the router is not here, and nothing was done."""
PASSED = "bot_orch.passed"
"""Key of an ASGI scope whose request another process answers, and writes to the access log."""


Serve = Callable[[Any, Any, Any], Awaitable[None]]


class ElsewhereError(Exception):
    """Raised for a request that the owner of the router has to answer."""


@dataclass(slots=True)
class Exchange:
    """One ASGI HTTP exchange, with its body."""

    scope: Any
    receive: Any
    send: Any
    _: KW_ONLY
    raw: bytes | bytearray = b""


class PeerAnswer(NamedTuple):
    """The answer of another process."""

    status: int
    body: bytes


class Member(NamedTuple):
    """Another process of the cluster.

    Parameters
    ----------
    number, address
        Its number, and ``host:port``, or the path of a socket if it is ``near``.
    rounds
        Where it takes chats of fronts (:mod:`bot_orch.service.cluster.owner`): ``host:port secret``, or a path.
    """

    number: int
    address: str
    near: bool = False
    rounds: str = ""


class Directory:
    """The processes of a service, and which of them owns the router; waits for changes.

    Parameters
    ----------
    own
        The number of this process.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self.members: dict[int, Member] = {}
        self.owner: int | None = None
        self._news = asyncio.Event()

    def set(self, owner: int | None, members: Collection[Member]) -> None:
        """Replace the known owner, if there is one, and members."""
        found = {each.number: each for each in members if each.number != self.own}
        if owner != self.owner or found != self.members:
            self.owner, self.members = owner, found
            self._news.set()
            self._news = asyncio.Event()

    @property
    def owner_elsewhere(self) -> Member | None:
        """The other process that owns the router; ``None`` if this process owns it, or none is known."""
        return None if self.owner is None else self.members.get(self.owner)

    async def changed(self, wait_s: float) -> None:
        """Wait for a change, for at most ``wait_s`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()


class Forwarder:
    """Forwards requests to other processes, and queries them.

    Parameters
    ----------
    directory
        Who owns the router.
    wait_s
        How long a request waits while the router moves.
    """

    def __init__(self, directory: Directory, *, wait_s: float) -> None:
        self.directory, self._wait_s, self.counts = directory, wait_s, Metrics()
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self.serve: Serve | None = None  # the application of this process
        self.owners: Owners | None = None  # for chats that this process carries
        self.problem: str | None = None  # why this process knows nothing about the others

    async def pass_on(self, exchange: Exchange) -> None:
        """Forward a request to the owner of the router; 503 if there is none for too long."""
        loop, mine = asyncio.get_running_loop(), self.directory
        until = loop.time() + self._wait_s
        while True:
            found = mine.owner_elsewhere
            if found is not None:
                if await self._send(found, exchange):
                    self.count("passed_on")
                    return
            elif mine.owner == mine.own and self.serve is not None:
                exchange.scope.pop(PASSED, None)
                await self.serve(exchange.scope, _replayed(exchange), exchange.send)
                return
            left_s = until - loop.time()
            if left_s <= 0:
                self.count("nobody")
                raise no_owner()
            await mine.changed(min(left_s, _LOOK_S))

    async def ask(
        self, method: str, path: str, headers: Mapping[bytes, bytes], *, near: bool = False
    ) -> list[PeerAnswer]:
        """Send a request to all other processes and collect their answers.

        ``near`` asks only those behind the same port. One that does not answer says 503.
        """
        asked = [each for each in self.directory.members.values() if each.near or not near]
        return await asyncio.gather(*(self.ask_one(each, method, path, headers) for each in asked))

    def check(self) -> None:
        """Raise a :class:`Problem` if this process does not know the others yet."""
        if self.problem is not None:
            raise Problem(503, "not_ready", self.problem, headers={"retry-after": "1"})

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        if self.owners is not None:
            await self.owners.close()

    async def ask_one(self, other: Member, method: str, path: str, headers: Mapping[bytes, bytes]) -> PeerAnswer:
        """Send a request to one other process."""
        kept = {name: value for name, value in headers.items() if name in _WITH_ASK}
        sent = {**_names(kept.items()), PASSED_ON_HEADER.decode(): "1"}
        try:
            async with asyncio.timeout(_ASK_S):
                session, base = self._session(other)
                async with session.request(method, base + path, headers=sent, allow_redirects=False) as answer:
                    return PeerAnswer(answer.status, await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.warning("a process does not answer", extra={"fields": _of(other, error)})
            return PeerAnswer(503, b"")

    async def _send(self, other: Member, exchange: Exchange) -> bool:
        """Forward a request and return its answer; False if nothing was done there."""
        task = asyncio.ensure_future(self._attempt(other, exchange))
        watch = [task, asyncio.ensure_future(self._lost(other)), asyncio.ensure_future(_gone(exchange.receive))]
        try:
            await asyncio.wait(watch, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if watch[1].done():
                raise broken()
            return True  # no recipient
        except _NothingDoneError:
            return False
        finally:
            for each in watch:
                each.cancel()
            for each in watch:
                with suppress(asyncio.CancelledError, Exception):
                    await each

    async def _attempt(self, other: Member, exchange: Exchange) -> bool:
        scope, started = exchange.scope, False
        session, base = self._session(other)
        query = b"?" + scope["query_string"] if scope.get("query_string") else b""
        pairs = [(name, value) for name, value in scope["headers"] if name not in _OF_ONE_HOP and name != _OF_BODY]
        headers = [*_names(pairs, several=True), (PASSED_ON_HEADER.decode(), "1")]
        body = bytes(exchange.raw) if exchange.raw else None
        target = base + (scope["raw_path"] + query).decode("latin-1")
        try:
            async with session.request(
                scope["method"], URL(target, encoded=True), data=body, headers=headers, allow_redirects=False
            ) as answer:
                if MOVED_HEADER in answer.headers:
                    return False
                started = True
                await _relay(answer, exchange.send)
                return True
        except aiohttp.ClientConnectorError as error:
            raise _NothingDoneError from error
        except (aiohttp.ClientError, OSError) as error:
            if started:  # the client sees an answer that ends too early
                _log.warning("an answer broke off", extra={"fields": _of(other, error)})
                return True
            raise broken() from error

    async def _lost(self, other: Member) -> None:
        """Return when another process has left the cluster."""
        while other.number in self.directory.members:
            await self.directory.changed(3600.0)

    def _session(self, other: Member) -> tuple[aiohttp.ClientSession, str]:
        """The client session for another process, and its base URL."""
        if other.address not in self._sessions:
            connector: aiohttp.BaseConnector
            if other.near:
                connector = aiohttp.UnixConnector(other.address, limit=0, keepalive_timeout=_IDLE_S)
            else:
                connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S, use_dns_cache=True)
            self._sessions[other.address] = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._sessions[other.address], "http://worker" if other.near else f"http://{other.address}"

    def count(self, how: str) -> None:
        """Count a request by how it was handled."""
        self.counts.count("bot_orch_passed_on_total", process=str(self.directory.own), how=how)


def broken() -> Problem:
    """The answer to a request whose owner went away."""
    message = (
        "the process that serves the router went away; it may have done what was asked: repeat it with the same "
        "idempotency key"
    )
    return Problem(503, "owner_lost", message, headers={"retry-after": "1"})


def no_owner() -> Problem:
    """The answer to a request for a router that has had no owner for too long."""
    message = "no process serves the router at the moment; try again"
    return Problem(503, "no_owner", message, headers={"retry-after": "1"})


def alone(headers: Mapping[bytes, bytes]) -> bool:
    """Whether another process asks for this process's own answer only."""
    return PASSED_ON_HEADER in headers


def moved() -> Problem:
    """The answer to a forwarded request if the router is not served here."""
    message = "the router is served by another process; try again"
    return Problem(503, "moved", message, headers={"retry-after": "1", MOVED_HEADER: "1"})


def process_name() -> str:
    """The name of this process in the cluster: host name and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


class _NothingDoneError(Exception):
    """The request did not reach the other process."""


async def _relay(answer: aiohttp.ClientResponse, send: Any) -> None:
    pairs = [(name.lower(), value) for name, value in answer.raw_headers if name.lower() not in _OF_ONE_HOP]
    await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
    async for piece in answer.content.iter_any():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _replayed(exchange: Exchange) -> Callable[[], Awaitable[Any]]:
    kept = [bytes(exchange.raw)]

    async def receive() -> Any:
        if kept:
            return {"type": "http.request", "body": kept.pop(), "more_body": False}
        return await exchange.receive()

    return receive


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _names(pairs: Any, *, several: bool = False) -> Any:
    found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
    return found if several else dict(found)


def _of(other: Member, error: Exception) -> dict[str, Any]:
    return {"process": other.number, "error": type(error).__name__, "detail": str(error)}
