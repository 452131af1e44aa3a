"""The other processes of a service whose routers are spread over several, as the rest of the service sees them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Set
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Protocol

from bot_orch.service.metrics import Metrics
from bot_orch.service.problems import Problem

__all__ = [
    "ANY",
    "MOVED_HEADER",
    "PASSED",
    "ROUTER_HEADER",
    "WHOLE_PATH",
    "Elsewhere",
    "Exchange",
    "Neighbours",
    "PeerAnswer",
    "alone",
    "moved",
    "process_name",
]

ROUTER_HEADER = b"x-bot-orch-router"
"""Names the router of a request that another process has passed on; such a request is never passed on again."""
ANY = "*"
"""In place of a router: whichever knows the decision, task or ticket that a request is about."""
MOVED_HEADER = "x-bot-orch-moved"
"""On an answer: the router is not here, and nothing was done; the routers that are here, if any of them was asked."""
WHOLE_PATH = "bot_orch.path"
"""Key of an ASGI scope: the path as the client sent it, if a router's own part of it was taken off."""
PASSED = "bot_orch.passed"
"""Key of an ASGI scope whose request another process answers, and writes to the access log."""


class Elsewhere(Exception):  # noqa: N818  no error: it says where to go on
    """A request is for a router of another process, or was answered there; ``raw`` is its body if that was read."""

    def __init__(self, router: str = "", raw: bytes | bytearray | None = None) -> None:
        super().__init__(router)
        self.router, self.raw = router, raw


@dataclass(slots=True)
class Exchange:
    """One HTTP exchange of ASGI, with the body as far as it was read."""

    scope: Any
    receive: Any
    send: Any
    _: KW_ONLY
    raw: bytes | bytearray | None = None


class PeerAnswer(NamedTuple):
    """What another process says."""

    status: int
    body: bytes


class Neighbours(Protocol):
    """The other processes."""

    @property
    def counts(self) -> Metrics:
        """What this process has passed on."""
        ...

    async def pass_on(self, router: str, exchange: Exchange) -> None:
        """Let the process that serves a router answer; 503 if there is none for too long."""
        ...

    async def offer(self, exchange: Exchange, routers: Set[str]) -> bool:
        """Let the process answer that knows what a request is about; False if none does, and nothing was done.

        ``routers`` are those that may know it; while nobody serves one of them, nobody can say that it does not.
        """
        ...

    async def ask(
        self, method: str, path: str, headers: Mapping[bytes, bytes], *, near: bool = False
    ) -> list[PeerAnswer]:
        """The answers of all others to a request that each of them answers for itself alone.

        ``near`` asks only those behind the same port. One that does not answer says 503.
        """
        ...

    def check(self) -> None:
        """Raise a :class:`Problem` if this process does not know who serves what."""
        ...


def alone(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a process is asked for itself alone, by another one."""
    return ROUTER_HEADER in headers


def moved(router: str, *, here: Set[str] = frozenset()) -> Problem:
    """The answer to a request that was passed on to a process that does not serve its router; it serves ``here``."""
    message = f"the router {router!r} is served by another process; try again"
    return Problem(503, "moved", message, headers={"retry-after": "1", MOVED_HEADER: ",".join(sorted(here))})


def process_name() -> str:
    """What other processes call this one: its machine and its number."""
    return f"{socket.gethostname()}:{os.getpid()}"
