"""Forwards whole requests for routers that another process owns: everything but chats that this process carries.

The request is read and checked here; its answer is streamed. The client's own headers go along, its token among them,
and are checked again where they arrive. A header names the router; a request that has it is never passed on again, so
there are no loops. A process that does not serve the router says so before it does anything, and the request is sent to
the current owner.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, Set
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

ROUTER_HEADER = b"x-bot-orch-router"
"""Names the router of a request that another process has passed on; such a request is never passed on again."""
ANY = "*"
"""In place of a router: the one that knows the decision, task or ticket that a request is about."""
MOVED_HEADER = "x-bot-orch-moved"
"""On an answer: the router is not here, and nothing was done; the routers that are here, if any of them was asked."""
WHOLE_PATH = "bot_orch.path"
"""Key of an ASGI scope: the path as the client sent it, if a router's own part of it was taken off."""
PASSED = "bot_orch.passed"
"""Key of an ASGI scope whose request another process answers, and writes to the access log."""


Serve = Callable[[Any, Any, Any], Awaitable[None]]


class Elsewhere(Exception):  # noqa: N818  no error: it says where to go on
    """Raised for a request to a router of another process, or answered there."""

    def __init__(self, router: str = "") -> None:
        super().__init__(router)
        self.router = router


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
    """Maps routers to the processes that own them; waits for changes.

    Parameters
    ----------
    own
        The number of this process.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self.members: dict[int, Member] = {}
        self._owners: Mapping[str, int] = {}
        self._news = asyncio.Event()

    def set(self, owners: Mapping[str, int], members: Collection[Member]) -> None:
        """Replace the known owners and members."""
        found = {each.number: each for each in members if each.number != self.own}
        if dict(owners) != dict(self._owners) or found != self.members:
            self._owners, self.members = dict(owners), found
            self._news.set()
            self._news = asyncio.Event()

    def owner(self, router: str) -> int | None:
        """The number of the process that owns a router; ``None`` if unknown."""
        return self._owners.get(router)

    def of(self, router: str) -> Member | None:
        """The other process that owns a router; ``None`` if this process owns it, or none is known."""
        return self.members.get(self._owners.get(router, self.own))

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
        Who serves what.
    wait_s
        How long a request waits for a router that moves.
    """

    def __init__(self, directory: Directory, *, wait_s: float) -> None:
        self.directory, self._wait_s, self.counts = directory, wait_s, Metrics()
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self.serve: Serve | None = None  # the application of this process
        self.owners: Owners | None = None  # for chats that this process carries
        self.problem: str | None = None  # why this process knows nothing about the others

    async def pass_on(self, router: str, exchange: Exchange) -> None:
        """Forward a request to the owner of a router; 503 if there is none for too long."""
        loop, mine = asyncio.get_running_loop(), self.directory
        until = loop.time() + self._wait_s
        while True:
            found = mine.of(router)
            if found is not None:
                if await self._send(found, router, exchange) is None:
                    self.count(router, "passed_on")
                    return
            elif mine.owner(router) == mine.own and self.serve is not None:
                await self._here(self.serve, exchange)
                return
            left_s = until - loop.time()
            if left_s <= 0:
                raise self._no_owner(router)
            await mine.changed(min(left_s, _LOOK_S))

    async def offer(self, exchange: Exchange, routers: Set[str]) -> bool:
        """Forward a request to the process that knows its subject; False, without an effect, if none does.

        ``routers`` are those that may know it; while one of them has no owner, the answer is unknown.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        while True:
            missing = set(routers)
            for each in tuple(self.directory.members.values()):
                asked = await self._send(each, ANY, exchange)
                if asked is None:
                    self.count(ANY, "passed_on")
                    return True
                missing -= asked
            if not missing:
                return False
            left_s = until - loop.time()
            if left_s <= 0:
                raise self._no_owner(min(missing))
            await self.directory.changed(min(left_s, _LOOK_S))

    async def ask(
        self, method: str, path: str, headers: Mapping[bytes, bytes], *, near: bool = False
    ) -> list[PeerAnswer]:
        """Send a request to all other processes and collect their answers.

        ``near`` asks only those behind the same port. One that does not answer says 503.
        """
        asked = [each for each in self.directory.members.values() if each.near or not near]
        return await asyncio.gather(*(self.ask_one(each, method, path, headers) for each in asked))

    def check(self) -> None:
        """Raise a :class:`Problem` if this process does not know the owners of routers."""
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
        sent = {**_names(kept.items()), ROUTER_HEADER.decode(): ANY}
        try:
            async with asyncio.timeout(_ASK_S):
                session, base = self._session(other)
                async with session.request(method, base + path, headers=sent, allow_redirects=False) as answer:
                    return PeerAnswer(answer.status, await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            _log.warning("a process does not answer", extra={"fields": _of(other, error)})
            return PeerAnswer(503, b"")

    async def _here(self, serve: Serve, exchange: Exchange) -> None:
        """Answer in this process, which serves the router by now."""
        scope = {**exchange.scope, "path": exchange.scope.get(WHOLE_PATH, exchange.scope["path"])}
        scope.pop(PASSED, None)
        await serve(scope, _replayed(exchange), exchange.send)

    async def _send(self, other: Member, router: str, exchange: Exchange) -> Set[str] | None:
        """Forward a request and return its answer.

        If nothing was done there: the routers that were asked in vain.
        """
        task = asyncio.ensure_future(self._attempt(other, router, exchange))
        watch = [task, asyncio.ensure_future(self._lost(other)), asyncio.ensure_future(_gone(exchange.receive))]
        try:
            await asyncio.wait(watch, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if watch[1].done():
                raise broken(router)
            return None  # no recipient
        except _NothingDoneError:
            return frozenset()
        finally:
            for each in watch:
                each.cancel()
            for each in watch:
                with suppress(asyncio.CancelledError, Exception):
                    await each

    async def _attempt(self, other: Member, router: str, exchange: Exchange) -> Set[str] | None:
        scope, started = exchange.scope, False
        session, base = self._session(other)
        query = b"?" + scope["query_string"] if scope.get("query_string") else b""
        pairs = [(name, value) for name, value in scope["headers"] if name not in _OF_ONE_HOP and name != _OF_BODY]
        headers = [*_names(pairs, several=True), (ROUTER_HEADER.decode(), router)]
        body = bytes(exchange.raw) if exchange.raw else None
        target = base + (scope["raw_path"] + query).decode("latin-1")
        try:
            async with session.request(
                scope["method"], URL(target, encoded=True), data=body, headers=headers, allow_redirects=False
            ) as answer:
                if MOVED_HEADER in answer.headers:
                    return frozenset(answer.headers[MOVED_HEADER].split(","))
                started = True
                await _relay(answer, exchange.send)
                return None
        except aiohttp.ClientConnectorError as error:
            raise _NothingDoneError from error
        except (aiohttp.ClientError, OSError) as error:
            if started:  # the client sees an answer that ends too early
                _log.warning("an answer broke off", extra={"fields": _of(other, error)})
                return None
            raise broken(router) from error

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

    def _no_owner(self, router: str) -> Problem:
        self.count(router, "nobody")
        return no_owner(router)

    def count(self, router: str, how: str) -> None:
        """Count a request by how it was handled."""
        own = str(self.directory.own)
        self.counts.count("bot_orch_passed_on_total", process=own, router=router, how=how)


def broken(router: str) -> Problem:
    """The answer to a request whose owner went away."""
    message = (
        f"the process that serves the router {router!r} went away; it may have done what was asked: "
        "repeat it with the same idempotency key"
    )
    return Problem(503, "owner_lost", message, headers={"retry-after": "1"})


def no_owner(router: str) -> Problem:
    """The answer to a request for a router that has had no owner for too long."""
    message = f"no process serves the router {router!r} at the moment; try again"
    return Problem(503, "no_owner", message, headers={"retry-after": "1"})


def alone(headers: Mapping[bytes, bytes]) -> bool:
    """Whether another process asks for this process's own answer only."""
    return ROUTER_HEADER in headers


def moved(router: str, *, here: Set[str] = frozenset()) -> Problem:
    """The answer to a forwarded request for a router that is not served here; this process serves ``here``."""
    message = f"the router {router!r} is served by another process; try again"
    return Problem(503, "moved", message, headers={"retry-after": "1", MOVED_HEADER: ",".join(sorted(here))})


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
