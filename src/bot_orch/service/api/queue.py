"""``/v1/queue``: the queue of people, for programs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bot_orch.core.events import Noted
from bot_orch.service.api.bodies import RequestBody
from bot_orch.service.problems import Reply, json_reply
from bot_orch.service.queue.service import queue_of
from bot_orch.service.queue.tickets import Given, Person, answer, claim, claim_next, person, release
from bot_orch.service.queue.views import QueueView, TicketView, show_ticket, show_tickets
from bot_orch.service.web.endpoint import Handler, Request, RouteSpec

Text = Annotated[str, Meta(max_length=200_000)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class ClaimBody(RequestBody, frozen=True, kw_only=True):
    """``claim`` is the number of the claim held; given, another claim by the same person does not count."""

    claim: Count | None = None


class AnswerBody(RequestBody, frozen=True, kw_only=True):
    """What to answer, or why to reject the task."""

    action: Literal["answer", "reject"] = "answer"
    text: Text = ""
    reason: Text = ""
    claim: Count | None = None


class Nothing(RequestBody, frozen=True, kw_only=True):
    """An empty object."""


async def _list(request: Request) -> Reply:
    return json_reply(await show_tickets(queue_of(request.runtime), _who(request)))


async def _show(request: Request) -> Reply:
    return json_reply(await show_ticket(queue_of(request.runtime), request.params["id"], _who(request)))


async def _next(request: Request) -> Reply:
    queue = queue_of(request.runtime)
    return await _act(request, claim_next(queue.state, _who(request), queue.now_us()))


async def _claim(request: Request) -> Reply:
    queue, now_us = queue_of(request.runtime), queue_of(request.runtime).now_us()
    return await _act(request, claim(queue.state, request.params["id"], _who(request), now_us, request.body.claim))


async def _release(request: Request) -> Reply:
    queue, now_us = queue_of(request.runtime), queue_of(request.runtime).now_us()
    return await _act(request, release(queue.state, request.params["id"], _who(request), now_us, request.body.claim))


async def _answer(request: Request) -> Reply:
    queue, body = queue_of(request.runtime), request.body
    given = Given(body.action, body.text, body.reason, request.caller.name)
    return await _act(request, answer(queue.state, request.params["id"], given, queue.now_us(), body.claim))


async def _act(request: Request, note: Noted) -> Reply:
    queue = queue_of(request.runtime)
    return json_reply(await show_ticket(queue, (await queue.act(note)).id, _who(request)))


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
    RouteSpec("GET", "/v1/queue", _list, scope="queue", summary="What waits for a person", answer=QueueView),
    _acts("/v1/queue/claim", _next, "Take the most urgent"),
    RouteSpec("GET", _ONE, _show, scope="queue", summary="One ticket", answer=TicketView, statuses=(200, 404)),
    _acts(f"{_ONE}/claim", _claim, "Take it; with the claim held, hold it longer", body=ClaimBody),
    _acts(f"{_ONE}/release", _release, "Give it back", body=ClaimBody),
    _acts(f"{_ONE}/answer", _answer, "Answer or reject it", body=AnswerBody),
)
