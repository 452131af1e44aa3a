"""``/``: the operator's dashboard. ``/decisions``: all decisions. ``/decisions/{id}``: details of one decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from starlette.routing import BaseRoute

from bot_orch.service.dashboard.agents import AgentRow, agent_rows, agents_head, agents_part, agents_table
from bot_orch.service.dashboard.buckets import BucketView
from bot_orch.service.dashboard.charts import CHARTS, chart_data, chart_rows, csv_text
from bot_orch.service.dashboard.decision import decision_page
from bot_orch.service.dashboard.decisions import DecisionPage, decisions_page
from bot_orch.service.dashboard.judges import judges_part, judges_table
from bot_orch.service.dashboard.parts import alarms_part, decisions_part, kind_counts, kinds_part, tiles_part
from bot_orch.service.dashboard.ranges import TimeRange, parse_range, range_part
from bot_orch.service.dashboard.reader import TimelineReader
from bot_orch.service.dashboard.savings import SavingsCard
from bot_orch.service.dashboard.timeline import Timeline
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Handler, Request, Site
from bot_orch.service.web.pages import CONNECTION, Safe, document, html, link, page, render, reply, step
from bot_orch.types import RewardRange

_RECENT_SHOWN = 12
_PER_PAGE = 50
_KNOWN_FIELDS = ("last", "from", "to", "kind", "sort", "agents")
_TABLES = ("kinds", "judges", "agents")


@dataclass(frozen=True, slots=True)
class _Look:
    """The data shown by one request."""

    parts: dict[str, Safe]
    charts: dict[str, Any]
    agents: list[AgentRow]
    _: KW_ONLY
    kinds: list[tuple[str, int]]
    timeline: Timeline


def dashboard_pages(site: Site) -> list[BaseRoute]:
    """The operator's pages, for tokens with the scope ``admin``."""
    pages = _Dashboard(site.runtime)

    def answering(handler: Callable[[_Dashboard, Request], Awaitable[Reply]]) -> Handler:
        async def answer(request: Request) -> Reply:
            nonlocal pages
            if pages.runtime is not request.runtime:  # this process took the router over
                pages = _Dashboard(request.runtime)
            return await handler(pages, request)

        return answer

    shown = {
        "/": answering(_Dashboard.index),
        "/dashboard": answering(_Dashboard.index),
        "/dashboard/live": answering(_Dashboard.live),
        "/dashboard/{chart}.csv": answering(_Dashboard.download),
        "/decisions": answering(_Dashboard.decisions),
        "/decisions/{id}": decision_page,
    }
    return [page(site, handler, path, scope="admin") for path, handler in shown.items()]


class _Dashboard:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._reader, self._savings = TimelineReader(runtime), SavingsCard(runtime)

    async def index(self, request: Request) -> Reply:
        """``GET /``."""
        shown, query = self._range(request), _query(request)
        parts = (await self._look(request, shown)).parts
        body = render(
            "dashboard.html",
            **parts,
            ranges=range_part(shown, query),
            head=agents_head(query),
            connection=CONNECTION,
            live=link("/dashboard/live", query),
            query=link("", query),
            all_decisions=link("/decisions", {"kind": query.get("kind", "")}),
        )
        return document("Dashboard", body, here="/", script="dashboard.js", caller=request.caller)

    async def live(self, request: Request) -> Reply:
        """``GET /dashboard/live``: data polled by the script."""
        look = await self._look(request, self._range(request))
        answer = {"parts": {name: str(part) for name, part in look.parts.items()}, "charts": look.charts}
        return reply(msgspec.json.encode(answer), media="application/json")

    async def download(self, request: Request) -> Reply:
        """``GET /dashboard/{chart}.csv``."""
        name = request.params["chart"]
        if name not in (*CHARTS, *_TABLES):
            known = ", ".join((*CHARTS, *_TABLES))
            raise Problem(404, "unknown_path", f"there is no such chart; there are: {known}")
        look = await self._look(request, self._range(request))
        text = csv_text(chart_rows(name, look.charts) if name in CHARTS else self._table(name, look))
        disposition = f'attachment; filename="bot-orch-{name}.csv"'
        return reply(text.encode(), media="text/csv; charset=utf-8", headers={"content-disposition": disposition})

    def _table(self, name: str, look: _Look) -> Sequence[Sequence[object]]:
        if name == "kinds":
            return [("kind", "decisions"), *look.kinds]
        if name == "judges":
            return judges_table(self.runtime, look.timeline.judgements if look.timeline.partial else None)
        return agents_table(look.agents)

    async def decisions(self, request: Request) -> Reply:
        """``GET /decisions``: a page of decisions before or after a number of the log."""
        log, now_us = self.runtime.writer.log, self.runtime.writer.now_us()
        before, after, kind = _seq(request, "before"), _seq(request, "after"), request.query.get("kind", "")
        look = partial(decisions_page, log, _PER_PAGE, before=before, after=after, kind=kind)
        found = await asyncio.to_thread(look)
        timeline = await self._reader.advance()
        body = render(
            "decisions.html",
            total=f"{self._reader.decisions:,}",
            rows=decisions_part(found.entries, timeline.agents, now_us),
            pager=_pager(found, kind),
            kind=html(' · of the kind <b>{kind}</b>, <a href="/decisions">all</a>', kind=kind) if kind else "",
        )
        return document("Decisions", body, here="/decisions", caller=request.caller)

    async def _look(self, request: Request, shown: TimeRange) -> _Look:
        now_us, query, reader = self.runtime.writer.now_us(), _query(request), self._reader
        async with reader.current(query.get("kind", "")) as timeline:
            every = reader.timeline.series.view(shown.from_us, shown.to_us)
            kinds = kind_counts(every.kinds())
            rewards = self.runtime.ledger.router.reward.range
            view, charts = await asyncio.to_thread(_charts, timeline, shown, rewards)  # too long for the event loop
            agents = agent_rows(self.runtime, timeline, view)
            newest = islice(reversed(timeline.recent), _RECENT_SHOWN)
            parts = {
                "tiles": tiles_part(self.runtime, reader, view, timeline=timeline),
                "kinds": kinds_part(kinds, query),
                "agents": agents_part(agents, request.query.get("sort", ""), rewards),
                "recent": decisions_part(newest, timeline.agents, now_us),
                "alarms": alarms_part(self.runtime, timeline, agents, now_us),
                "savings": await self._savings.part(),
                "judges": judges_part(self.runtime, timeline.judgements if timeline.partial else None),
            }
            return _Look(parts, charts, agents, kinds=kinds, timeline=timeline)

    def _range(self, request: Request) -> TimeRange:
        return parse_range(request.query, self.runtime.writer.now_us())


def _charts(timeline: Timeline, shown: TimeRange, rewards: RewardRange) -> tuple[BucketView, dict[str, Any]]:
    view = timeline.series.view(shown.from_us, shown.to_us)
    return view, chart_data(timeline, view, highest=rewards.high)


def _query(request: Request) -> dict[str, str]:
    return {name: request.query[name] for name in _KNOWN_FIELDS if request.query.get(name)}


def _seq(request: Request, name: str) -> int | None:
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else None


def _pager(shown: DecisionPage, kind: str) -> Safe:
    if shown.newer is None and shown.older is None:
        return Safe("")
    newest, newer, older = (
        None if seq is None else link("/decisions", {"kind": kind}, **field)
        for seq, field in (
            (shown.newer, {}),
            (shown.newer, {"after": shown.newer}),
            (shown.older, {"before": shown.older}),
        )
    )
    return html(
        '<nav class="pager" aria-label="Pages of decisions">{newest}{newer}{older}</nav>',
        newest=step("Newest", newest, "first"),
        newer=step("Newer", newer, "prev"),
        older=step("Older", older, "next"),
    )
