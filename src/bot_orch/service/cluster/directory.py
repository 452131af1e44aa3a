"""Where every router is served, as this process knows it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = ["Assignment", "Directory", "Neighbour"]


class Neighbour(NamedTuple):
    """Another process: its number, and its address (``host:port``, or the path of a socket if it is ``near``)."""

    number: int
    address: str
    near: bool = False


class Directory:
    """Who serves which router; waits for changes.

    Parameters
    ----------
    own
        The number of this process.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self.neighbours: dict[int, Neighbour] = {}
        self._owners: Mapping[str, int] = {}
        self._news = asyncio.Event()

    def set(self, owners: Mapping[str, int], neighbours: Collection[Neighbour]) -> None:
        """Take what is known by now."""
        found = {each.number: each for each in neighbours if each.number != self.own}
        if dict(owners) != dict(self._owners) or found != self.neighbours:
            self._owners, self.neighbours = dict(owners), found
            self._news.set()
            self._news = asyncio.Event()

    def owner(self, router: str) -> int | None:
        """The process that serves a router; ``None`` if that is not known."""
        return self._owners.get(router)

    def of(self, router: str) -> Neighbour | None:
        """The other process that serves a router."""
        return self.neighbours.get(self._owners.get(router, self.own))

    async def changed(self, wait_s: float) -> None:
        """Return after a change, or after some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()


class Assignment:
    """Which worker of one machine serves which router: a small file that all workers read and extend under a lock.

    A router stays with its worker through reloads and restarts.

    Parameters
    ----------
    file
        Where it is kept.
    workers
        How many there are.
    """

    def __init__(self, file: Path, workers: int) -> None:
        self._file, self._workers = file, workers

    def settle(self, routers: Collection[str]) -> dict[str, int]:
        """The worker of each of these routers; those that have none get one."""
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            flock(file, LOCK_EX)
            known = msgspec.json.decode(file.read() or b"{}", type=dict[str, int])
            settled = {name: known[name] for name in routers if name in known}
            missing = [name for name in routers if name not in known]
            for name in missing:
                numbers = list(settled.values())
                settled[name] = min(range(self._workers), key=lambda worker: (numbers.count(worker), worker))
            if missing:
                file.seek(0)
                file.truncate()
                file.write(msgspec.json.encode({**known, **settled}))
            return settled
