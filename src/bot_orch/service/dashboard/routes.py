"""``/``: the dashboard of operators. ``/decisions/{id}``: one decision in full."""

from __future__ import annotations

import asyncio
from itertools import islice

import msgspec
from starlette.routing import BaseRoute

from bot_orch.service.dashboard.charts import chart_data
from bot_orch.service.dashboard.decision import decision_page
from bot_orch.service.dashboard.parts import agents_part, alarms_part, recent_part, tiles_part
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.problems import Reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.pages import Safe, document, page, render, reply

__all__ = ["TimelineReader", "dashboard_pages"]

_HISTORY = 20_000
_AT_ONCE = 5_000


class TimelineReader:
    """Keeps a timeline and reads the log for it when the dashboard is looked at.

    Under heavy traffic it skips rows instead of falling behind; ``skipped`` counts them.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reading = asyncio.Lock()
        self.timeline = Timeline(())
        self.skipped = 0

    async def advance(self) -> Timeline:
        """The timeline, after reading on in the log by a bounded number of rows."""
        async with self._reading:
            agents, (last, _) = self._runtime.ledger.router.agents, self._runtime.writer.log.last()
            if agents != self.timeline.agents or last < self.timeline.seq:
                self.timeline = Timeline(agents, seq=max(0, last - _HISTORY))
            await asyncio.to_thread(self._read)
            if last - self.timeline.seq > _HISTORY:
                self.skipped += last - _AT_ONCE - self.timeline.seq
                self.timeline.seq = last - _AT_ONCE
        return self.timeline

    def _read(self) -> None:
        for row in islice(self._runtime.writer.log.read(self.timeline.seq), _AT_ONCE):
            self.timeline.take(row)


def dashboard_pages(site: Site) -> list[BaseRoute]:
    """The pages of operators, for tokens with the scope ``admin``."""
    runtime = site.runtime
    reader = TimelineReader(runtime)

    async def index(request: Request) -> Reply:
        parts = await _parts(runtime, reader)
        body = render("dashboard.html", **parts, now_us=runtime.writer.now_us())
        return document("Dashboard", body, here="/", script="dashboard.js", caller=request.caller)

    async def live(_: Request) -> Reply:
        parts = {name: str(part) for name, part in (await _parts(runtime, reader)).items()}
        answer = {"parts": parts, "charts": chart_data(reader.timeline)}
        return reply(msgspec.json.encode(answer), media="application/json")

    return [
        page(site, index, "/", scope="admin"),
        page(site, live, "/dashboard/live", scope="admin"),
        page(site, decision_page, "/decisions/{id}", scope="admin"),
    ]


async def _parts(runtime: Runtime, reader: TimelineReader) -> dict[str, Safe]:
    timeline = await reader.advance()
    return {
        "tiles": tiles_part(runtime, timeline, reader.skipped),
        "agents": agents_part(runtime, timeline),
        "recent": recent_part(timeline),
        "alarms": alarms_part(timeline),
    }
