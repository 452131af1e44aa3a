"""``/queue``: the queue in a browser. Every action is a plain form, so that it also works without scripts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.routing import BaseRoute

from bot_orch.service.people.listing import list_query, listing
from bot_orch.service.people.parts import clock, drafts_part, kept_part, notice, status_line, why_part
from bot_orch.service.problems import Problem, Reply, StorageError, problem_of
from bot_orch.service.queue.actions import Action, perform, queue_of, show_ticket
from bot_orch.service.queue.rules import Person, PersonReply, person
from bot_orch.service.queue.views import TicketView
from bot_orch.service.web.endpoint import Request, Site
from bot_orch.service.web.pages import CONNECTION, Safe, document, html, join, page, redirect, render, reply
from bot_orch.service.web.paging import link

__all__ = ["queue_pages"]

_ACTIONS = {each.value: each for each in Action if each is not Action.NEXT}
_ANSWERS = ("answer", "accept", "reject")


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
    shown = await listing(request, _who(request))
    now_us, pages = queue_of(request.runtime).now_us(), list_query(request)
    body = render("queue.html", notice=notice(said), now_us=now_us, pages=pages, listing=shown, connection=CONNECTION)
    return document("Queue", body, here="/queue", script="queue.js", caller=request.caller)


async def _live(request: Request) -> Reply:
    """What the script of a page polls: whether its ticket has changed, or the list of tickets."""
    desk, who = queue_of(request.runtime), _who(request)
    ticket_id = request.query.get("ticket")
    if ticket_id is not None:
        view = await show_ticket(desk, request.inside(ticket_id), who)
        answer: dict[str, object] = {"stamp": _stamp(view)}
    else:
        answer = {"html": str(await listing(request, who)), "now_us": desk.now_us()}
    return reply(msgspec.json.encode(answer), media="application/json")


async def _next(request: Request) -> Reply:
    desk, who = queue_of(request.runtime), _who(request)
    mine = (t for t in desk.state.live() if t.status == "claimed" and t.holder == who.name and who.sees(t))
    held = next(mine, None)
    if held is not None:
        return redirect(f"/queue/{who.outside(held.id)}")
    try:
        return redirect(f"/queue/{who.outside(await perform(desk, Action.NEXT, '', who=who))}")
    except Problem as problem:
        if problem.code == "queue_empty":
            return redirect("/queue?empty=1")
        raise


async def _ticket(request: Request) -> Reply:
    edit = request.query.get("edit", "")
    return await _show(request, int(edit) if edit.isdecimal() and len(edit) < 4 else None)


async def _act(request: Request) -> Reply:
    """Do what a form asks for; whatever the error is, the page that shows it keeps what was typed."""
    desk, who = queue_of(request.runtime), _who(request)
    what, ticket_id, form = request.params["action"], request.params["id"], request.form
    action = Action.ANSWER if what in _ANSWERS else _ACTIONS.get(what)
    if action is None:
        raise Problem(404, "unknown_path", "there is no such action")
    said = _reply(what, form) if action is Action.ANSWER else None
    try:
        await perform(desk, action, who.inside(ticket_id), who=who, number=_number(form, "claim"), reply=said)
    except Problem as problem:
        return await _failed(request, problem)
    except StorageError as error:
        return await _failed(request, problem_of(error) or Problem(503, "storage_unavailable", str(error)))
    if what in ("skip", "release"):
        return redirect("/queue")
    edit = _number(form, "edit") if what == "renew" else None
    return redirect(link(f"/queue/{ticket_id}", {}, edit=edit))


async def _failed(request: Request, problem: Problem) -> Reply:
    """The ticket with the error and all that was typed; without the ticket, if the service cannot show that."""
    try:
        edit = _number(request.form, "draft") if request.form.get("action") == "edit" else None
        return await _show(request, edit, problem)
    except (Problem, StorageError):
        body = render("problem.html", status=problem.status, message=problem.message)
        whole = join([body, kept_part(request.form)])
        return document("Problem", whole, here="/queue", caller=request.caller, status=problem.status)


def _who(request: Request) -> Person:
    return person(request.caller.name, request.caller.scopes, request.caller.tenant)


def _reply(what: str, fields: Mapping[str, str]) -> PersonReply:
    action = fields.get("action", "answer") if what == "answer" else what
    text = fields.get("text", "").replace("\r\n", "\n")
    return PersonReply(action, text, fields.get("reason", ""), draft=_number(fields, "draft"))


def _number(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _stamp(view: TicketView) -> str:
    """Changes whenever the page should be loaded again."""
    drafts = "-" if view.drafts is None else len(view.drafts)
    return f"{view.status}.{view.claim}.{drafts}.{view.lease_until_us or 0}"


async def _show(request: Request, edit: int | None, problem: Problem | None = None) -> Reply:
    view = await show_ticket(queue_of(request.runtime), request.inside(request.params["id"]), _who(request))
    body = render(
        "ticket.html",
        id=view.id,
        given="yes" if view.status in ("answered", "done") and view.mine else "",
        final="yes" if view.status == "done" and view.mine else "",
        stamp=_stamp(view),
        now_us=view.now_us,
        kind=view.kind or "task",
        heading="Yours to answer" if view.mine and view.status == "claimed" else status_line(view),
        clocks=_clocks(view),
        connection=CONNECTION,
        notice=notice("" if problem is None else problem.message, bad=True),
        text=view.text,
        drafts=drafts_part(view),
        actions=_actions(view, edit, request.form),
        kept=Safe("") if view.mine and view.status == "claimed" else kept_part(request.form),
        why=why_part(view),
    )
    status = 200 if problem is None else problem.status
    return document("Ticket", body, here="/queue", script="queue.js", caller=request.caller, status=status)


def _clocks(view: TicketView) -> Safe:
    if view.status not in ("open", "claimed", "answered"):
        return Safe("")
    lease = Safe("")
    if view.lease_until_us is not None:
        lease = clock("yours for" if view.mine else "held for", view.lease_until_us, view.now_us)
    return join([lease, clock("due in", view.deadline_us, view.now_us)])


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
        undo = clock("final in", view.given.undo_until_us, view.now_us)
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
