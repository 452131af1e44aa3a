"""``/queue``: the queue in a browser. Every action is a plain form, so that it also works without scripts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.routing import BaseRoute

from bot_orch.service.problems import Problem, Reply, StorageError, problem_of
from bot_orch.service.queue.actions import Action, perform, queue_of, show_ticket
from bot_orch.service.queue.rules import Person, PersonReply, person
from bot_orch.service.queue.views import DraftView, TicketView, ticket_view
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.pages import CONNECTION, Safe, document, html, join, moment, page, redirect, render, reply
from bot_orch.service.web.paging import link, page_number, paged, pager
from bot_orch.service.web.terms import terms_table

_ACTIONS = {each.value: each for each in Action if each is not Action.NEXT}
_ANSWERS = ("answer", "accept", "reject")
_EXCERPT = 140
_OPEN_SHOWN = 25
_CLOSED_SHOWN = 10
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
    said = "Nothing waits for a person." if "empty" in request.query else ""
    shown = await _listing(request, _who(request))
    now_us, pages = queue_of(request.runtime).now_us(), _list_query(request)
    body = render("queue.html", notice=_notice(said), now_us=now_us, pages=pages, listing=shown, connection=CONNECTION)
    return document("Queue", body, here="/queue", script="queue.js", caller=request.caller)


async def _live(request: Request) -> Reply:
    """Data polled by the script of a page: whether its ticket changed, or the list of tickets."""
    queue, who = queue_of(request.runtime), _who(request)
    ticket_id = request.query.get("ticket")
    if ticket_id is not None:
        view = await show_ticket(queue, ticket_id, who)
        answer: dict[str, object] = {"stamp": _stamp(view)}
    else:
        answer = {"html": str(await _listing(request, who)), "now_us": queue.now_us()}
    return reply(msgspec.json.encode(answer), media="application/json")


async def _next(request: Request) -> Reply:
    queue, who = queue_of(request.runtime), _who(request)
    mine = (t for t in queue.state.live() if t.status == "claimed" and t.holder == who.name)
    held = next(mine, None)
    if held is not None:
        return redirect(f"/queue/{held.id}")
    try:
        return redirect(f"/queue/{await perform(queue, Action.NEXT, '', who=who)}")
    except Problem as problem:
        if problem.code == "queue_empty":
            return redirect("/queue?empty=1")
        raise


async def _ticket(request: Request) -> Reply:
    edit = request.query.get("edit", "")
    return await _show(request, int(edit) if edit.isdecimal() and len(edit) < 4 else None)


async def _act(request: Request) -> Reply:
    """Perform the action of a form; on an error the page keeps the input."""
    queue, who = queue_of(request.runtime), _who(request)
    what, ticket_id, form = request.params["action"], request.params["id"], request.form
    action = Action.ANSWER if what in _ANSWERS else _ACTIONS.get(what)
    if action is None:
        raise Problem(404, "unknown_path", "there is no such action")
    said = _reply(what, form) if action is Action.ANSWER else None
    try:
        await perform(queue, action, ticket_id, who=who, number=_number(form, "claim"), reply=said)
    except Problem as problem:
        return await _failed(request, problem)
    except StorageError as error:
        return await _failed(request, problem_of(error) or Problem(503, "storage_unavailable", str(error)))
    if what in ("skip", "release"):
        return redirect("/queue")
    edit = _number(form, "edit") if what == "renew" else None
    return redirect(link(f"/queue/{ticket_id}", {}, edit=edit))


async def _failed(request: Request, problem: Problem) -> Reply:
    """The ticket with the error and the user's input; without the ticket if it cannot be shown."""
    try:
        edit = _number(request.form, "draft") if request.form.get("action") == "edit" else None
        return await _show(request, edit, problem)
    except (Problem, StorageError):
        body = render("problem.html", status=problem.status, message=problem.message)
        whole = join([body, _kept_part(request.form)])
        return document("Problem", whole, here="/queue", caller=request.caller, status=problem.status)


def _who(request: Request) -> Person:
    return person(request.caller.name, request.caller.scopes)


def _reply(what: str, fields: Mapping[str, str]) -> PersonReply:
    action = fields.get("action", "answer") if what == "answer" else what
    text = fields.get("text", "").replace("\r\n", "\n")
    return PersonReply(action, text, fields.get("reason", ""), draft=_number(fields, "draft"))


def _number(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _stamp(view: TicketView) -> str:
    """A string that changes whenever the page should be reloaded."""
    drafts = "-" if view.drafts is None else len(view.drafts)
    return f"{view.status}.{view.claim}.{drafts}.{view.lease_until_us or 0}"


async def _show(request: Request, edit: int | None, problem: Problem | None = None) -> Reply:
    view = await show_ticket(queue_of(request.runtime), request.params["id"], _who(request))
    body = render(
        "ticket.html",
        id=view.id,
        given="yes" if view.status in ("answered", "done") and view.mine else "",
        final="yes" if view.status == "done" and view.mine else "",
        stamp=_stamp(view),
        now_us=view.now_us,
        kind=view.kind or "task",
        heading="Yours to answer" if view.mine and view.status == "claimed" else _status_line(view),
        clocks=_clocks(view),
        connection=CONNECTION,
        notice=_notice("" if problem is None else problem.message, bad=True),
        text=view.text,
        drafts=_drafts_part(view),
        actions=_actions(view, edit, request.form),
        kept=Safe("") if view.mine and view.status == "claimed" else _kept_part(request.form),
        why=_why_part(view),
    )
    status = 200 if problem is None else problem.status
    return document("Ticket", body, here="/queue", script="queue.js", caller=request.caller, status=status)


def _clocks(view: TicketView) -> Safe:
    if view.status not in ("open", "claimed", "answered"):
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
    '<section class="card act"><h2>{title}</h2><div class="text" dir="auto">{text}</div>{undo}'
    '<form method="post" action="/queue/next"><button class="primary" data-key="n">Claim next <kbd>n</kbd></button>'
    "</form></section>"
)
_UNDO = '<form method="post" action="/queue/{id}/undo"><button data-key="u">Undo <kbd>u</kbd></button> {clock}</form>'


def _actions(view: TicketView, edit: int | None, form: Mapping[str, str]) -> Safe:
    if view.status == "open":
        return html(_CLAIM, id=view.id)
    if view.given is not None:
        can_undo = view.status == "answered" and view.mine
        undo = _clock("final in", view.given.undo_until_us, view.now_us)
        title = "Rejected" if view.given.action == "reject" else "Answer"
        return html(
            _SENT,
            title=title,
            text=view.given.reason if view.given.action == "reject" else view.given.text,
            undo=html(_UNDO, id=view.id, clock=undo) if can_undo else Safe(""),
        )
    if view.status != "claimed" or not view.mine:
        return Safe("")
    draft = view.drafts[edit] if view.drafts is not None and edit is not None and edit < len(view.drafts) else None
    return render(
        "ticket_actions.html",
        id=view.id,
        claim=view.claim,
        title="Your answer" if draft is None else f"Edit the draft of {draft.agent}",
        action="answer" if draft is None else "edit",
        draft="" if draft is None else edit,
        focus=Safe("") if draft is None else Safe(" autofocus"),
        text=form.get("text", "" if draft is None else draft.text),
        reason=form.get("reason", ""),
    )


def _list_query(request: Request) -> str:
    """The page parameters of the request, as a query string for the next request."""
    return link("", _pages(request))


async def _listing(request: Request, who: Person) -> Safe:
    """Open tickets, those of ``who`` first, and closed ones; counts cover all pages."""
    queue = queue_of(request.runtime)
    now_us = await queue.look()
    seen = list(queue.state.live())
    live = sorted(seen, key=lambda each: not (each.status == "claimed" and each.holder == who.name))
    waiting = paged(live, page_number(request.query, "page"), _OPEN_SHOWN)
    over = list(queue.state.closed())
    closed = paged(over, page_number(request.query, "closed"), _CLOSED_SHOWN)
    rows = [ticket_view(each, await queue.why(each), who=who, now_us=now_us) for each in waiting.entries]
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
        status=_status_line(view),
        origin=_origin(view),
        clock=_clock("due in", view.deadline_us, view.now_us),
    )


def _closed_row(view: TicketView, closed_us: int, now_us: int) -> Safe:
    at = moment(closed_us, now_us)
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
    left_s = max(0, (until_us - now_us) // 1_000_000)
    return html(
        '<span class="clock" data-until="{until}"><span>{label}</span> <b>{left}</b></span>',
        until=until_us,
        label=label,
        left=_minutes(left_s),
    )


def _minutes(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _origin(view: TicketView) -> str:
    """A short description of the ticket's origin and number of drafts."""
    words = []
    if view.why is not None:
        alone = view.why.propensity >= 1.0
        drawn = "only agent left" if alone else f"drawn with p = {view.why.propensity:.2f}"
        words.append(drawn if view.why.by == "policy" else f"rule: {view.why.by}")
    if view.drafts is None:
        words.append("blind")
    elif view.drafts:
        words.append("1 draft" if len(view.drafts) == 1 else f"{len(view.drafts)} drafts")
    return " · ".join(words)


def _status_line(view: TicketView) -> str:
    """The status in words."""
    given = view.given
    match view.status:
        case "open":
            return "Skipped by you" if view.skipped else "Waiting"
        case "claimed":
            return "Yours" if view.mine else f"Held by {view.holder}"
        case "answered" | "done" if given is not None:
            done = {"accept": "Draft accepted", "edit": "Draft edited", "answer": "Answered", "reject": "Rejected"}
            return f"{done.get(given.action, given.action)} by {'you' if view.mine else given.by}"
        case "expired":
            return "Nobody answered in time"
    return f"Withdrawn ({view.reason})" if view.reason else view.status


_DRAFT = (
    '<li class="draft"><div class="row between"><b>{agent}</b>{buttons}</div>'
    '<div class="text" dir="auto">{text}</div></li>'
)
_TAKE = (
    '<div class="row"><form method="post" action="/queue/{id}/accept">'
    '<input type="hidden" name="claim" value="{claim}">'
    '<input type="hidden" name="draft" value="{index}"><button data-key="{key}">Accept <kbd>{key}</kbd></button></form>'
    '<a class="button" href="/queue/{id}?edit={index}"{edit_key}>Edit{edit_hint}</a></div>'
)


def _drafts_part(view: TicketView) -> Safe:
    """Drafts of other agents, unless they are hidden."""
    if view.drafts is None:
        return Safe(
            '<section class="card"><h2>Drafts</h2><p class="muted">Hidden (blind mode): '
            "the answer must be your own. They are shown once it is closed.</p></section>"
        )
    if not view.drafts:
        return Safe("")
    rows = join(_draft(view, index, draft) for index, draft in enumerate(view.drafts))
    return html('<section class="card"><h2>Drafts</h2><ol class="drafts">{rows}</ol></section>', rows=rows)


def _draft(view: TicketView, index: int, draft: DraftView) -> Safe:
    buttons = Safe("")
    if view.mine and view.status == "claimed":
        first = index == 0
        buttons = html(
            _TAKE,
            id=view.id,
            claim=view.claim,
            index=index,
            key=index + 1,
            edit_key=Safe(' data-key="e"') if first else Safe(""),
            edit_hint=Safe(" <kbd>e</kbd>") if first else Safe(""),
        )
    return html(_DRAFT, agent=draft.agent or "draft", buttons=buttons, text=draft.text)


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
