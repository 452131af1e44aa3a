"""Reads the log for the dashboard when somebody looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice

from bot_orch.eventlog.events import DecisionMade
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.runtime import Runtime

__all__ = ["TimelineReader"]

_HISTORY = 200_000
_AT_ONCE = 5_000
_COUNTED_AT_ONCE = 50_000


class TimelineReader:
    """Keeps a timeline of the newest events and counts the decisions of the whole log.

    Each look reads a bounded number of rows. Under heavy traffic the timeline skips rows instead of falling behind;
    ``skipped`` counts them.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reading = asyncio.Lock()
        self._counted_seq = 0
        self._last = 0
        self.timeline = Timeline(())
        self.decisions = 0
        self.skipped = 0

    @asynccontextmanager
    async def current(self) -> AsyncIterator[Timeline]:
        """The timeline after reading on in the log; nobody else reads on meanwhile."""
        async with self._reading:
            agents, (self._last, _) = self._runtime.ledger.router.agents, self._runtime.writer.log.last()
            if agents != self.timeline.agents or self._last < self.timeline.seq:
                self.timeline = Timeline(agents, seq=max(0, self._last - _HISTORY))
            if self._last < self._counted_seq:
                self._counted_seq = self.decisions = 0
            await asyncio.to_thread(self._read)
            if self._last - self.timeline.seq > _HISTORY:
                self.skipped += self._last - _AT_ONCE - self.timeline.seq
                self.timeline.seq = self._last - _AT_ONCE
            yield self.timeline

    async def advance(self) -> Timeline:
        """The timeline, after reading on in the log by a bounded number of rows."""
        async with self.current() as timeline:
            return timeline

    @property
    def progress(self) -> str:
        """What has not been read or was left out, in words; empty if everything was read."""
        left = max(self._last - self.timeline.seq, self._last - self._counted_seq)
        if left > 0:
            return f"reading {left:,} events"
        return f"{self.skipped:,} events skipped" if self.skipped else ""

    def _read(self) -> None:
        for row in islice(self._runtime.writer.log.read(self.timeline.seq), _AT_ONCE):
            self.timeline.take(row)
        for row in islice(self._runtime.writer.log.read(self._counted_seq), _COUNTED_AT_ONCE):
            self._counted_seq = row.seq
            self.decisions += row.holds(DecisionMade)
