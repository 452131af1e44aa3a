"""Rows on their way to the log, and lookups that see them beside those that are there."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from bot_orch.eventlog.log import Log, Row
from bot_orch.eventlog.lookups import NOTHING, Found, Wanted, look_up
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.groups import EMPTY, Group, Known, Look, RecentWrites

__all__ = ["StagedLog"]

T = TypeVar("T")


class StagedLog:
    """A log with groups of rows that wait for their commit.

    Parameters
    ----------
    log
        Where rows go. Lookups in a log on a server run in a thread and have a deadline; those in a file are quick.
    grouped
        Whether rows are committed in groups; otherwise each has a group of its own.
    """

    def __init__(self, log: Log, *, grouped: bool = True) -> None:
        self.log, self._grouped = log, grouped
        # on a server: nobody may wait for it on the event loop
        self._server: PostgresLog | None = log if isinstance(log, PostgresLog) else None
        # another replica may hold the lock, and then the server be silent
        timing = None if self._server is None else self._server.timing
        self.patience_s: float | None = None if timing is None else timing.query_s + timing.hold_s
        self._line: deque[Group] = deque()
        self._flying: Group | None = None
        self._refs: Counter[str] = Counter()
        self._recent = RecentWrites()
        self._readers = ThreadPoolExecutor(1, "lookup")

    async def turn(
        self, *, keys: Iterable[str | None] = (), refs: Iterable[str] = (), owned: Iterable[str] = ()
    ) -> Look:
        """Return when this process may decide, with what the log says of these keys and refs.

        The turn, and what was seen, last until the caller awaits something else. Rows about ``refs`` are all committed.
        ``owned`` are refs whose last writer is asked for; a log with one writer does not know.
        """
        wanted = Wanted(tuple(key for key in keys if key is not None), tuple(refs), tuple(owned))
        if wanted == NOTHING:
            return EMPTY
        async with self._patience():
            while True:
                await self._settle(wanted.refs)
                if self._server is None:
                    return self._seen(wanted, look_up(self.log, wanted))
                with self._recent.lookup() as since:
                    found = await self._in_reader(partial(look_up, self.log, wanted))
                    if not self._recent.touched(wanted.refs, since):
                        return self._seen(wanted, found)

    async def read(self, job: Callable[[Log], T]) -> T:
        """What a job finds in the log: in a thread and within the deadline, if the log is on a server."""
        if self._server is None:
            return job(self.log)
        async with self._patience():
            return await self._in_reader(partial(job, self.log))

    async def about(self, ref: str) -> list[Row]:
        """Committed rows about ``ref``, in order."""
        return await self.read(lambda log: log.about(ref))

    def staged_as(self, key: str) -> Known | None:
        """The event that used ``key`` and is not committed yet."""
        for group in (*self._line, self._flying):
            if group is not None and key in group.keys:
                return Known(group.keys[key], group)
        return None

    async def settled(self, ref: str) -> list[Row]:
        """Every row about ``ref``, once all of them are committed; nothing is staged between that and the return."""
        return (await self.turn(refs=(ref,))).about(ref)

    async def barrier(self) -> None:
        """Return once everything staged so far is committed."""
        group = self._line[-1] if self._line else self._flying
        if group is not None:
            await group.durable()

    def _seen(self, wanted: Wanted, found: Found) -> Look:
        """What was found, and what is staged; the caller must not await between this and using it."""
        for ref in wanted.refs:
            self._refs.pop(ref, None)
        keys: dict[str, Known | None] = {}
        for key in wanted.keys:
            row = found.keys.get(key)
            known = self.staged_as(key) or self._recent.find(key)
            keys[key] = known or (None if row is None else Known(row, None))
        return Look(keys, found.refs, found.owners)

    async def _settle(self, refs: Sequence[str]) -> None:
        """Return once nothing about ``refs`` waits for a commit."""
        while any(self._refs[ref] > 0 for ref in refs):
            await self.barrier()

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        """Refuse a request that has waited too long for the log."""
        try:
            async with asyncio.timeout(self.patience_s):
                yield
        except TimeoutError:
            waited = f"storage: the log did not answer within {self.patience_s:g} seconds"
            raise StorageError(f"{waited}; try again later, or ask another replica") from None

    def _open(self) -> Group:
        if not (self._line and self._grouped) or self._line[-1].snapshot is not None:
            self._line.append(self._group())
        return self._line[-1]

    def _group(self) -> Group:
        group = Group()
        if self.patience_s is not None:
            group.patience_s = self.patience_s
        return group

    async def _in_reader(self, job: Callable[[], T]) -> T:
        closed = StorageError(
            "storage: the log was closed while it was asked; try again"
        )  # a router may move meanwhile
        try:
            found = asyncio.get_running_loop().run_in_executor(self._readers, job)
        except RuntimeError:  # its threads have ended
            raise closed from None
        try:
            return await found
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if found.cancelled() and (task is None or not task.cancelling()):  # by the end of its threads
                raise closed from None
            raise
