"""``/v1/queue``: the queue of people for programs; ``bot-orch queue`` is made of it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bot_orch.eventlog.events import Noted
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.queue import rules
from bot_orch.service.queue.desk import Desk
from bot_orch.service.queue.rules import Person, QueueError
from bot_orch.service.queue.views import QueueView, TicketView, ticket_view
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.auth import Caller
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.routes import RouteSpec

__all__ = ["QUEUE_ROUTES", "desk_of", "perform", "person_of", "show_ticket"]

Text = Annotated[str, Meta(max_length=200_000)]
Index = Annotated[int, Meta(ge=0, le=1000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    pass


class ClaimBody(_Body, frozen=True):
    """``claim`` is the number of the claim held; given, another claim by the same person does not count."""

    claim: Count | None = None


class AnswerBody(_Body, frozen=True):
    """What to answer: accept or edit a draft, answer in one's own words, reject with a reason."""

    action: Literal["accept", "edit", "answer", "reject"] = "answer"
    text: Text = ""
    reason: Text = ""
    draft: Index | None = None
    claim: Count | None = None


class DraftBody(_Body, frozen=True):
    """What somebody else would answer."""

    agent: Annotated[str, Meta(min_length=1, max_length=256)]
    text: Text


class Nothing(_Body, frozen=True):
    """An empty object."""


def desk_of(runtime: Runtime) -> Desk:
    """The queue of the service."""
    if not isinstance(runtime.queue, Desk):
        raise Problem(503, "no_queue", "the service has no queue")
    return runtime.queue


def person_of(caller: Caller) -> Person:
    """Whoever acts, with the rights of their token."""
    return Person(caller.name, "admin" in caller.scopes)


async def listing(request: Request) -> Reply:
    """``GET /v1/queue``."""
    desk, who = desk_of(request.runtime), person_of(request.caller)
    now_us = await desk.look()
    tickets = [ticket_view(ticket, await desk.why(ticket), who, now_us) for ticket in desk.state.live()]
    return json_reply(QueueView(now_us, tickets))


async def show(request: Request) -> Reply:
    """``GET /v1/queue/{id}``."""
    return json_reply(await show_ticket(desk_of(request.runtime), request.params["id"], person_of(request.caller)))


async def claim_next(request: Request) -> Reply:
    """``POST /v1/queue/claim``."""
    return await _do(request, "next")


async def claim(request: Request) -> Reply:
    """``POST /v1/queue/{id}/claim``."""
    return await _do(request, "claim")


async def renew(request: Request) -> Reply:
    """``POST /v1/queue/{id}/renew``."""
    return await _do(request, "renew", number=request.body.claim)


async def release(request: Request) -> Reply:
    """``POST /v1/queue/{id}/release``."""
    return await _do(request, "release", number=request.body.claim)


async def skip(request: Request) -> Reply:
    """``POST /v1/queue/{id}/skip``."""
    return await _do(request, "skip", number=request.body.claim)


async def undo(request: Request) -> Reply:
    """``POST /v1/queue/{id}/undo``."""
    return await _do(request, "undo")


async def answer(request: Request) -> Reply:
    """``POST /v1/queue/{id}/answer``."""
    body: AnswerBody = request.body
    said = rules.Reply(body.action, body.text, body.reason, body.draft)
    return await _do(request, "answer", number=body.claim, reply=said)


async def draft(request: Request) -> Reply:
    """``POST /v1/queue/{id}/drafts``."""
    desk, who, body = desk_of(request.runtime), person_of(request.caller), request.body
    try:
        ticket = rules.find(desk.state, request.params["id"])
        await desk.add_draft(ticket.id, body.agent, body.text)
    except QueueError as error:
        raise _problem(error) from error
    return json_reply(await show_ticket(desk, ticket.id, who))


async def show_ticket(desk: Desk, ticket_id: str, who: Person) -> TicketView:
    """One ticket as ``who`` may see it."""
    now_us = await desk.look()
    try:
        ticket = rules.find(desk.state, ticket_id)
    except QueueError as error:
        raise _problem(error) from error
    return ticket_view(ticket, await desk.why(ticket), who, now_us)


async def perform(
    desk: Desk,
    what: str,
    ticket_id: str,
    who: Person,
    *,
    number: int | None = None,
    reply: rules.Reply | None = None,
) -> str:
    """Do something with a ticket and wait until it is on disk; the id of the ticket it concerned."""
    await desk.runtime.writer.turn()
    try:
        note = _note(desk, what, ticket_id, who, number, reply or rules.Reply("answer"))
    except QueueError as error:
        raise _problem(error) from error
    return (await desk.act(note)).id


def _note(desk: Desk, what: str, ticket_id: str, who: Person, number: int | None, reply: rules.Reply) -> Noted:
    state, settings, now_us = desk.state, desk.settings, desk.now_us()
    match what:
        case "next":
            return rules.claim_next(state, who, now_us, settings)
        case "claim":
            return rules.claim(state, ticket_id, who, now_us, settings)
        case "renew":
            return rules.renew(state, ticket_id, who, now_us, settings, number)
        case "release":
            return rules.release(state, ticket_id, who, now_us, number)
        case "skip":
            return rules.skip(state, ticket_id, who, now_us, number)
        case "undo":
            return rules.undo(state, ticket_id, who, now_us, settings)
        case "answer":
            return rules.answer(state, ticket_id, who, reply, now_us, settings, number)
    raise QueueError("unknown_ticket", "there is no such action")


async def _do(request: Request, what: str, *, number: int | None = None, reply: rules.Reply | None = None) -> Reply:
    desk, who = desk_of(request.runtime), person_of(request.caller)
    ticket_id = await perform(desk, what, request.params.get("id", ""), who, number=number, reply=reply)
    return json_reply(await show_ticket(desk, ticket_id, who))


def _problem(error: QueueError) -> Problem:
    return Problem(error.status, error.code, str(error))


_ONE = "/v1/queue/{id}"
_ERRORS = (200, 404, 409, 503)

QUEUE_ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec("GET", "/v1/queue", listing, "queue", "What waits for a person", None, QueueView),
    RouteSpec("POST", "/v1/queue/claim", claim_next, "queue", "Take the most urgent", Nothing, TicketView, _ERRORS),
    RouteSpec("GET", _ONE, show, "queue", "One ticket", None, TicketView, (200, 404)),
    RouteSpec("POST", f"{_ONE}/claim", claim, "queue", "Take it", Nothing, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/renew", renew, "queue", "Hold it longer", ClaimBody, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/release", release, "queue", "Give it back", ClaimBody, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/skip", skip, "queue", "Leave it to others", ClaimBody, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/answer", answer, "queue", "Answer or reject it", AnswerBody, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/undo", undo, "queue", "Take the answer back", Nothing, TicketView, _ERRORS),
    RouteSpec("POST", f"{_ONE}/drafts", draft, "queue", "Add a draft", DraftBody, TicketView, _ERRORS),
)
