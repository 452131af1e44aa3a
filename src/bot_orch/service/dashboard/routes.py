"""``/``: what the service is doing and why, live. ``/decisions/{id}``: one decision in full."""

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
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.pages import Safe, common_routes, document, page, render, reply

__all__ = ["Follower", "routes"]

_HISTORY = 20_000
_AT_ONCE = 5_000


class Follower:
    """Reads the log behind the writer, when somebody looks, and keeps the timeline.

    Under heavy traffic it leaves rows out rather than fall behind; ``skipped`` says how many.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reading = asyncio.Lock()
        self.timeline = Timeline(())
        self.skipped = 0

    async def advance(self) -> Timeline:
        """The timeline up to now, or nearly."""
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


def routes(runtime: Runtime) -> list[BaseRoute]:
    """The pages of operators, for tokens with the scope ``admin``, and what all pages share."""
    follower = Follower(runtime)

    async def index(request: Request) -> Reply:
        parts = await _parts(runtime, follower)
        body = render("dashboard.html", **parts, now_us=runtime.writer.now_us())
        return document("Dashboard", body, here="/", script="dashboard.js", caller=request.caller)

    async def live(_: Request) -> Reply:
        parts = {name: str(part) for name, part in (await _parts(runtime, follower)).items()}
        answer = {"parts": parts, "charts": chart_data(follower.timeline)}
        return reply(msgspec.json.encode(answer), media="application/json")

    return [
        page(runtime, index, "/", "admin"),
        page(runtime, live, "/dashboard/live", "admin"),
        page(runtime, decision_page, "/decisions/{id}", "admin"),
        *common_routes(runtime),
    ]


async def _parts(runtime: Runtime, follower: Follower) -> dict[str, Safe]:
    timeline = await follower.advance()
    return {
        "tiles": tiles_part(runtime, timeline, follower.skipped),
        "agents": agents_part(runtime, timeline),
        "recent": recent_part(timeline),
        "alarms": alarms_part(timeline),
    }
