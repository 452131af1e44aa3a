"""Reads the log for the dashboard when somebody looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice

from bot_orch.core.events import DecisionMade
from bot_orch.recent import Newest
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.runtime import Runtime

_HISTORY = 200_000
_AT_ONCE = 5_000
_COUNTED_AT_ONCE = 50_000
_KINDS_KEPT = 3


class TimelineReader:
    """Maintains a timeline of the newest events and counts all decisions of the log.

    Kinds of tasks that were last viewed have timelines of their own.

    Each look reads a bounded number of rows. Under heavy traffic the timeline skips rows instead of falling behind;
    ``skipped`` counts them.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reading = asyncio.Lock()
        self._counted_seq = 0
        self._last = 0
        self._kinds = Newest[str, Timeline](_KINDS_KEPT)
        self.timeline = Timeline(())
        self.decisions = 0
        self.skipped = 0

    @asynccontextmanager
    async def current(self, kind: str = "") -> AsyncIterator[Timeline]:
        """Read new events of the log into the timeline (of one kind of tasks) and return it; one reader at a time."""
        async with self._reading:
            self._last, _ = await self._runtime.writer.read(lambda log: log.last())
            agents = self._runtime.ledger.router.agents
            if agents != self.timeline.agents or self._last < self.timeline.seq:
                self.timeline = self._begin()
                self._kinds.clear()
            if self._last < self._counted_seq:
                self._counted_seq = self.decisions = 0
            found = self._of_kind(kind) if kind else self.timeline
            await asyncio.to_thread(self._read, found)  # its queries have their own deadlines
            self._skip(found)
            yield found

    def _of_kind(self, kind: str) -> Timeline:
        """The timeline of a kind; the least recently viewed timelines are dropped."""
        self._kinds[kind] = found = self._kinds.get(kind) or self._begin(kind)
        return found

    def _begin(self, kind: str = "") -> Timeline:
        begin = max(0, self._last - _HISTORY)
        return Timeline(self._runtime.ledger.router.agents, kind, seq=begin)

    def _skip(self, found: Timeline) -> None:
        """Skip rows if there are too many to catch up with."""
        for timeline in {id(each): each for each in (self.timeline, found)}.values():
            if self._last - timeline.seq > _HISTORY:
                self.skipped += self._last - _AT_ONCE - timeline.seq if timeline is self.timeline else 0
                timeline.seq = self._last - _AT_ONCE

    async def advance(self) -> Timeline:
        """The timeline, after reading on in the log by a bounded number of rows."""
        async with self.current() as timeline:
            return timeline

    @property
    def progress(self) -> str:
        """A message about events that are unread or were skipped; empty if everything was read."""
        return self.progress_of(self.timeline)

    def progress_of(self, timeline: Timeline) -> str:
        """The same for the timeline of a kind."""
        left = max(self._last - timeline.seq, self._last - self._counted_seq)
        if left > 0:
            return f"reading {left:,} events"
        return f"{self.skipped:,} events skipped" if self.skipped else ""

    def _read(self, found: Timeline) -> None:
        self._take(self.timeline)
        if found is not self.timeline:
            self._take(found)
        for row in islice(self._runtime.writer.log.read(self._counted_seq), _COUNTED_AT_ONCE):
            self._counted_seq = row.seq
            self.decisions += row.holds(DecisionMade)

    def _take(self, timeline: Timeline) -> None:
        for row in islice(self._runtime.writer.log.read(timeline.seq), _AT_ONCE):
            timeline.take(row)
