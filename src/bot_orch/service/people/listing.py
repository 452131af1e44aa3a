"""The lists of tickets: those that wait and those that are closed, in pages."""

from __future__ import annotations

from bot_orch.service.people.parts import clock, origin, status_line
from bot_orch.service.queue.actions import queue_of
from bot_orch.service.queue.rules import Person
from bot_orch.service.queue.views import TicketView, ticket_view
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.pages import Safe, html, join, moment, render
from bot_orch.service.web.paging import link, page_number, paged, pager

__all__ = ["list_query", "listing"]

_EXCERPT = 140
_OPEN_SHOWN = 25
_CLOSED_SHOWN = 10
_EMPTY = Safe('<p class="empty">Nothing waits for a person. This page updates by itself.</p>')
_NONE_CLOSED = Safe('<p class="muted">Nothing yet.</p>')


def list_query(request: Request) -> str:
    """The pages that the request asks for, as a query string for the next request."""
    return link("", _pages(request))


async def listing(request: Request, who: Person) -> Safe:
    """Tickets that wait, those of ``who`` first, and closed ones; the counts are those of all pages."""
    desk = queue_of(request.runtime)
    now_us = await desk.look()
    seen = [each for each in desk.state.live() if who.sees(each)]
    live = sorted(seen, key=lambda each: not (each.status == "claimed" and each.holder == who.name))
    waiting = paged(live, page_number(request.query, "page"), _OPEN_SHOWN)
    over = [each for each in desk.state.closed() if who.sees(each)]
    closed = paged(over, page_number(request.query, "closed"), _CLOSED_SHOWN)
    rows = [ticket_view(each, await desk.why(each), who=who, now_us=now_us) for each in waiting.entries]
    ended = [
        _closed_row(ticket_view(each, None, who=who, now_us=now_us), each.closed_us, now_us) for each in closed.entries
    ]
    query = _pages(request)
    return render(
        "queue_list.html",
        count=waiting.total,
        waiting=html('<ol class="tickets">{rows}</ol>', rows=join(map(_waiting_row, rows))) if rows else _EMPTY,
        more=pager(waiting, "/queue", query, name="page", label="Pages of open tickets", words=("Earlier", "Later")),
        closed_count=closed.total,
        closed=html('<ol class="tickets closed">{rows}</ol>', rows=join(ended)) if ended else _NONE_CLOSED,
        older=pager(closed, "/queue", query, name="closed", label="Pages of closed tickets"),
    )


def _pages(request: Request) -> dict[str, str]:
    return {name: str(page_number(request.query, name)) for name in ("page", "closed") if name in request.query}


_WAITING = (
    '<li><a class="ticket {tone}" href="/queue/{id}"><span class="excerpt" dir="auto">{text}</span>'
    '<span class="facts"><span class="tag">{kind}</span><span>{status}</span>'
    "<span>{origin}</span></span>{clock}</a></li>"
)
_CLOSED = (
    '<li><a class="ticket" href="/queue/{id}"><span class="excerpt" dir="auto">{text}</span>'
    '<span class="facts"><span>{status}</span><time>{at} UTC</time></span></a></li>'
)


def _waiting_row(view: TicketView) -> Safe:
    tone = "mine" if view.mine and view.status == "claimed" else view.status
    return html(
        _WAITING,
        tone=tone,
        id=view.id,
        text=_excerpt(view.text),
        kind=view.kind or "task",
        status=status_line(view),
        origin=origin(view),
        clock=clock("due in", view.deadline_us, view.now_us),
    )


def _closed_row(view: TicketView, closed_us: int, now_us: int) -> Safe:
    at = moment(closed_us, now_us)
    return html(_CLOSED, id=view.id, text=_excerpt(view.text), status=status_line(view), at=at)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"
