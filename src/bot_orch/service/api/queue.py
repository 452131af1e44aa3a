"""``/v1/queue``: the queue of people, for programs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bot_orch.service.api.bodies import RequestBody
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.queue.actions import (
    Action,
    find_ticket,
    perform,
    queue_of,
    queue_problem,
    show_ticket,
    show_tickets,
)
from bot_orch.service.queue.rules import Person, PersonReply, QueueError, person
from bot_orch.service.queue.views import QueueView, TicketView
from bot_orch.service.web.endpoint import Handler, Request, RouteSpec

Text = Annotated[str, Meta(max_length=200_000)]
Index = Annotated[int, Meta(ge=0, le=1000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class ClaimBody(RequestBody, frozen=True, kw_only=True):
    """``claim`` is the number of the claim held; given, another claim by the same person does not count."""

    claim: Count | None = None


class AnswerBody(RequestBody, frozen=True, kw_only=True):
    """What to answer: accept or edit a draft, answer in one's own words, reject with a reason."""

    action: Literal["accept", "edit", "answer", "reject"] = "answer"
    text: Text = ""
    reason: Text = ""
    draft: Index | None = None
    claim: Count | None = None


class DraftBody(RequestBody, frozen=True, kw_only=True):
    """An answer proposed by another agent."""

    agent: Annotated[str, Meta(min_length=1, max_length=256)]
    text: Text


class Nothing(RequestBody, frozen=True, kw_only=True):
    """An empty object."""


async def listing(request: Request) -> Reply:
    """``GET /v1/queue``."""
    now_us, tickets = await show_tickets(queue_of(request.runtime), _who(request))
    return json_reply(QueueView(now_us=now_us, tickets=tickets))


async def show(request: Request) -> Reply:
    """``GET /v1/queue/{id}``."""
    return json_reply(await show_ticket(queue_of(request.runtime), request.params["id"], _who(request)))


def acting(action: Action) -> Handler:
    """``POST /v1/queue/{id}/...``: the handler of an action; the most urgent ticket has no id."""

    async def act(request: Request) -> Reply:
        queue, who, body = queue_of(request.runtime), _who(request), request.body
        reply, number = None, getattr(body, "claim", None)
        if isinstance(body, AnswerBody):
            reply = PersonReply(body.action, body.text, body.reason, draft=body.draft)
        named = request.params.get("id", "")
        ticket_id = await perform(queue, action, named, who=who, number=number, reply=reply)
        return json_reply(await show_ticket(queue, ticket_id, who))

    return act


async def draft(request: Request) -> Reply:
    """``POST /v1/queue/{id}/drafts``."""
    queue, body = queue_of(request.runtime), request.body
    ticket = find_ticket(queue, request.params["id"])
    try:
        await queue.add_draft(ticket.id, body.agent, body.text)
    except QueueError as error:
        raise queue_problem(error) from error
    return json_reply(await show_ticket(queue, ticket.id, _who(request)))


def _who(request: Request) -> Person:
    return person(request.caller.name, request.caller.scopes)


_ONE = "/v1/queue/{id}"


def _acts(path: str, handler: Handler, summary: str, *, body: type[RequestBody] = Nothing) -> RouteSpec:
    """A route that acts on a ticket."""
    statuses = (200, 404, 409, 503)
    return RouteSpec(
        "POST", path, handler, scope="queue", summary=summary, body=body, answer=TicketView, statuses=statuses
    )


QUEUE_ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec("GET", "/v1/queue", listing, scope="queue", summary="What waits for a person", answer=QueueView),
    _acts("/v1/queue/claim", acting(Action.NEXT), "Take the most urgent"),
    RouteSpec("GET", _ONE, show, scope="queue", summary="One ticket", answer=TicketView, statuses=(200, 404)),
    _acts(f"{_ONE}/claim", acting(Action.CLAIM), "Take it"),
    _acts(f"{_ONE}/renew", acting(Action.RENEW), "Hold it longer", body=ClaimBody),
    _acts(f"{_ONE}/release", acting(Action.RELEASE), "Give it back", body=ClaimBody),
    _acts(f"{_ONE}/skip", acting(Action.SKIP), "Leave it to others", body=ClaimBody),
    _acts(f"{_ONE}/answer", acting(Action.ANSWER), "Answer or reject it", body=AnswerBody),
    _acts(f"{_ONE}/undo", acting(Action.UNDO), "Take the answer back"),
    _acts(f"{_ONE}/drafts", draft, "Add a draft", body=DraftBody),
)
