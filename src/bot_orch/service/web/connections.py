"""All connections of a server: how many there may be, and which one makes room for a new one."""

from __future__ import annotations

import logging
import resource
from typing import Protocol

__all__ = ["Connections", "most_connections"]

_log = logging.getLogger("bot_orch.http")
_SPARE = 200  # files beside connections: the log, agents, the standard library


class Sheddable(Protocol):
    """A connection that can be closed for another one."""

    def shed(self) -> None:
        """Close at once."""
        ...


class Connections:
    """Counts connections. When there are too many, the one that has waited longest for a request is closed.

    Parameters
    ----------
    most
        How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[Sheddable] = set()
        self._waiting: dict[Sheddable, None] = {}  # the longest wait first

    def enter(self, connection: Sheddable) -> bool:
        """Take a new connection in; False if all others are at work."""
        if len(self._all) >= self._most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.shed()
        self._all.add(connection)
        self.waits(connection)
        return True

    def leave(self, connection: Sheddable) -> None:
        """Forget a connection."""
        self._all.discard(connection)
        self._waiting.pop(connection, None)

    def waits(self, connection: Sheddable) -> None:
        """Note that a connection waits for a request from now on."""
        if connection in self._all:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def works(self, connection: Sheddable) -> None:
        """Note that a connection has a request."""
        self._waiting.pop(connection, None)

    def __len__(self) -> int:
        return len(self._all)


def most_connections(wanted: int) -> int:
    """As many as wanted, or as the system's limit on open files allows, which is raised if it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else max(soft, min(needed, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(soft - _SPARE, soft // 2, 1)
    _log.warning("fewer connections than configured", extra={"fields": {"connections": allowed, "open_files": soft}})
    return allowed
