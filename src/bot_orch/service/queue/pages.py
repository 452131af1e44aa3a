"""``/queue``: the queue in a browser. Every action is a plain form, so that it also works without scripts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.routing import BaseRoute

from bot_orch.service.problems import Problem, Reply, StorageError, problem_of
from bot_orch.service.queue.service import queue_of
from bot_orch.service.queue.tickets import Given, Person, answer, claim, claim_next, person, release
from bot_orch.service.queue.views import TicketView, show_ticket, show_tickets
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.pages import CONNECTION, Safe, document, html, join, moment, page, redirect, render, reply
from bot_orch.service.web.terms import terms_table

_EXCERPT = 140
_OPEN_SHOWN, _CLOSED_SHOWN = 50, 10
_EMPTY = Safe('<p class="empty">Nothing waits for a person. This page updates by itself.</p>')
_NONE_CLOSED = Safe('<p class="muted">Nothing yet.</p>')
_RULES = {
    "pin": "A rule sends tasks of this kind to a person.",
    "kill switch": "An operator sends every task to this agent.",
    "sticky": "The session stays with whoever took it last.",
}


def queue_pages(site: Site) -> list[BaseRoute]:
    """The pages, for tokens with the scope ``queue``."""
    return [
        page(site, _index, "/queue", scope="queue"),
        page(site, _live, "/queue/live", scope="queue"),
        page(site, _next, "/queue/next", scope="queue", method="POST"),
        page(site, _ticket, "/queue/{id}", scope="queue"),
        page(site, _act, "/queue/{id}/{action}", scope="queue", method="POST"),
    ]


async def _index(request: Request) -> Reply:
    shown, now_us = await _listing(request), queue_of(request.runtime).now_us()
    said = "Nothing waits for a person." if "empty" in request.query else ""
    body = render("queue.html", notice=_notice(said), now_us=now_us, listing=shown, connection=CONNECTION)
    return document("Queue", body, here="/queue", script="queue.js", caller=request.caller)


async def _live(request: Request) -> Reply:
    """Data polled by the script of a page: whether its ticket changed, or the list of tickets."""
    ticket_id = request.query.get("ticket")
    if ticket_id is not None:
        view = await show_ticket(queue_of(request.runtime), ticket_id, _who(request))
        shown: dict[str, object] = {"stamp": _stamp(view)}
    else:
        shown = {"html": str(await _listing(request)), "now_us": queue_of(request.runtime).now_us()}
    return reply(msgspec.json.encode(shown), media="application/json")


async def _next(request: Request) -> Reply:
    """Go to the ticket that this person holds, or claim the most urgent one."""
    queue, who = queue_of(request.runtime), _who(request)
    now_us = queue.now_us()
    held = (each for each in queue.state.live() if each.status == "claimed" and each.holder == who.name)
    ticket = next(held, None)
    try:
        ticket = ticket or await queue.act(claim_next(queue.state, who, now_us))
    except Problem as problem:
        if problem.code == "queue_empty":
            return redirect("/queue?empty=1")
        raise
    return redirect(f"/queue/{ticket.id}")


async def _ticket(request: Request) -> Reply:
    return await _show(request)


async def _act(request: Request) -> Reply:
    """Perform the action of a form; on an error the page keeps the input."""
    queue, who, form = queue_of(request.runtime), _who(request), request.form
    what, ticket_id, now_us = request.params["action"], request.params["id"], queue.now_us()
    number = int(form["claim"]) if form.get("claim", "").isdecimal() and len(form["claim"]) < 10 else None
    try:
        if what == "claim":
            note = claim(queue.state, ticket_id, who, now_us, number)
        elif what == "release":
            note = release(queue.state, ticket_id, who, now_us, number)
        elif what in ("answer", "reject"):
            given = Given(what, form.get("text", "").replace("\r\n", "\n"), form.get("reason", ""), who.name)
            note = answer(queue.state, ticket_id, given, now_us, number)
        else:
            raise Problem(404, "unknown_path", "there is no such action")
        await queue.act(note)
    except Problem as problem:
        return await _failed(request, problem)
    except StorageError as error:
        return await _failed(request, problem_of(error) or Problem(503, "storage_unavailable", str(error)))
    return redirect("/queue" if what == "release" else f"/queue/{ticket_id}")


async def _failed(request: Request, problem: Problem) -> Reply:
    """The ticket with the error and the user's input; without the ticket if it cannot be shown."""
    try:
        return await _show(request, problem)
    except (Problem, StorageError):
        body = render("problem.html", status=problem.status, message=problem.message)
        whole = join([body, _kept_part(request.form)])
        return document("Problem", whole, here="/queue", caller=request.caller, status=problem.status)


def _who(request: Request) -> Person:
    return person(request.caller.name, request.caller.scopes)


def _stamp(view: TicketView) -> str:
    """A string that changes whenever the page should be reloaded."""
    return f"{view.status}.{view.claim}.{view.lease_until_us or 0}"


async def _show(request: Request, problem: Problem | None = None) -> Reply:
    view = await show_ticket(queue_of(request.runtime), request.params["id"], _who(request))
    held = view.mine and view.status == "claimed"
    body = render(
        "ticket.html",
        id=view.id,
        final="yes" if view.status == "answered" and view.mine else "",
        stamp=_stamp(view),
        now_us=view.now_us,
        kind=view.kind or "task",
        heading="Yours to answer" if held else _status_line(view),
        clocks=_clocks(view),
        connection=CONNECTION,
        notice=_notice("" if problem is None else problem.message, bad=True),
        text=view.text,
        actions=_actions(view, request.form),
        kept=Safe("") if held else _kept_part(request.form),
        why=_why_part(view),
    )
    status = 200 if problem is None else problem.status
    return document("Ticket", body, here="/queue", script="queue.js", caller=request.caller, status=status)


def _clocks(view: TicketView) -> Safe:
    if view.status not in ("open", "claimed"):
        return Safe("")
    lease = Safe("")
    if view.lease_until_us is not None:
        lease = _clock("yours for" if view.mine else "held for", view.lease_until_us, view.now_us)
    return join([lease, _clock("due in", view.deadline_us, view.now_us)])


_CLAIM = (
    '<section class="card act"><form method="post" action="/queue/{id}/claim">'
    '<button class="primary" data-key="c">Claim <kbd>c</kbd></button></form></section>'
)
_SENT = (
    '<section class="card act"><h2>{title}</h2><div class="text" dir="auto">{text}</div>'
    '<form method="post" action="/queue/next"><button class="primary" data-key="n">Claim next <kbd>n</kbd></button>'
    "</form></section>"
)


def _actions(view: TicketView, form: Mapping[str, str]) -> Safe:
    if view.status == "open":
        return html(_CLAIM, id=view.id)
    if view.given is not None:
        rejected = view.given.action == "reject"
        text = view.given.reason if rejected else view.given.text
        return html(_SENT, title="Rejected" if rejected else "Answer", text=text)
    if view.status != "claimed" or not view.mine:
        return Safe("")
    typed = {name: form.get(name, "") for name in ("text", "reason")}
    return render("ticket_actions.html", id=view.id, claim=view.claim, **typed)


async def _listing(request: Request) -> Safe:
    """Open tickets, those of the caller first, and the newest closed ones."""
    queue, who = queue_of(request.runtime), _who(request)
    live = (await show_tickets(queue, who)).tickets
    live.sort(key=lambda each: not (each.status == "claimed" and each.mine))
    closed = (await show_tickets(queue, who, closed=True, most=_CLOSED_SHOWN)).tickets
    rows, ended = join(map(_waiting_row, live[:_OPEN_SHOWN])), join(map(_closed_row, closed))
    return render(
        "queue_list.html",
        count=len(live),
        waiting=html('<ol class="tickets">{rows}</ol>', rows=rows) if live else _EMPTY,
        closed=html('<ol class="tickets closed">{rows}</ol>', rows=ended) if closed else _NONE_CLOSED,
    )


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
    return html(
        _WAITING,
        tone="mine" if view.mine and view.status == "claimed" else view.status,
        id=view.id,
        text=_excerpt(view.text),
        kind=view.kind or "task",
        status=_status_line(view),
        origin=_origin(view),
        clock=_clock("due in", view.deadline_us, view.now_us),
    )


def _closed_row(view: TicketView) -> Safe:
    at = moment(view.closed_us, view.now_us)
    return html(_CLOSED, id=view.id, text=_excerpt(view.text), status=_status_line(view), at=at)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"


def _notice(message: str, *, bad: bool = False) -> Safe:
    """A message at the top of the page; empty without one."""
    tone = "bad" if bad else "good"
    said = html('<p class="notice {tone}" role="status">{message}</p>', tone=tone, message=message)
    return said if message else Safe("")


def _clock(label: str, until_us: int, now_us: int) -> Safe:
    """A countdown; the script updates it."""
    minutes, seconds = divmod(max(0, (until_us - now_us) // 1_000_000), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    shown = '<span class="clock" data-until="{until}"><span>{label}</span> <b>{left}</b></span>'
    return html(shown, until=until_us, label=label, left=left)


def _origin(view: TicketView) -> str:
    """How the task came to a person."""
    if view.why is None:
        return ""
    if view.why.by != "policy":
        return f"rule: {view.why.by}"
    return "only agent left" if view.why.propensity >= 1.0 else f"drawn with p = {view.why.propensity:.2f}"


def _status_line(view: TicketView) -> str:
    """The status in words."""
    if view.status == "claimed":
        return "Yours" if view.mine else f"Held by {view.holder}"
    if view.given is not None:
        by = "you" if view.mine else view.given.by
        return f"{'Rejected' if view.given.action == 'reject' else 'Answered'} by {by}"
    if view.status == "withdrawn":
        return f"Withdrawn ({view.reason})"
    return "Waiting" if view.status == "open" else "Nobody answered in time"


_KEPT = (
    '<section class="card kept"><h2>What you typed</h2><p class="muted">It was not sent. Copy what you need.</p>'
    "{texts}</section>"
)
_KEPT_TEXT = '<textarea readonly rows="4" aria-label="{label}">{text}</textarea>'


def _kept_part(form: Mapping[str, str]) -> Safe:
    """The input of a refused form whose ticket no longer has a form."""
    typed = [(label, form.get(name, "")) for name, label in (("text", "Your answer"), ("reason", "Your reason"))]
    texts = join(html(_KEPT_TEXT, label=label, text=text) for label, text in typed if text.strip())
    return html(_KEPT, texts=texts) if texts else Safe("")


_WHY = '<section class="card why"><h2>Why a person</h2><p>{sentence}</p>{table}<p class="muted">{footer}</p></section>'


def _why_part(view: TicketView) -> Safe:
    """Why the policy or a rule chose a person: a sentence and the terms of the decision."""
    why = view.why
    if why is None:
        return Safe("")
    rule = "This was the only agent left: the others were excluded." if why.propensity >= 1.0 else ""
    sentence = _RULES.get(why.by) or rule or f"The policy drew this agent with probability {why.propensity:.2f}."
    footer = "score = estimate + exploration − λ·W − cost; W is the distance to what the task wants."
    return html(_WHY, sentence=sentence, table=terms_table(why, view.agent), footer=footer)
