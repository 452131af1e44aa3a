"""Actions on tickets, shared by ``/v1/queue`` and the pages: check, log, show the ticket."""

from __future__ import annotations

from enum import StrEnum

from bot_orch.core.events import Noted
from bot_orch.service.problems import Problem
from bot_orch.service.queue import rules
from bot_orch.service.queue.rules import Person, PersonReply, QueueError
from bot_orch.service.queue.service import QueueService
from bot_orch.service.queue.state import Ticket
from bot_orch.service.queue.views import TicketView, ticket_view
from bot_orch.service.runtime import Runtime


class Action(StrEnum):
    """Actions of a person."""

    NEXT = "next"
    """Claim the most urgent ticket."""
    CLAIM = "claim"
    RENEW = "renew"
    RELEASE = "release"
    SKIP = "skip"
    UNDO = "undo"
    ANSWER = "answer"


def queue_of(runtime: Runtime) -> QueueService:
    """The queue of the service; raises a problem if it has none."""
    if not isinstance(runtime.queue, QueueService):
        raise Problem(503, "no_queue", "the service has no queue")
    return runtime.queue


def find_ticket(queue: QueueService, ticket_id: str) -> Ticket:
    """The ticket with this id; raises a problem if there is none."""
    try:
        return rules.find(queue.state, ticket_id)
    except QueueError as error:
        raise queue_problem(error) from error


async def show_ticket(queue: QueueService, ticket_id: str, who: Person) -> TicketView:
    """One ticket as ``who`` may see it, by its id in the log."""
    now_us = await queue.look()
    ticket = find_ticket(queue, ticket_id)
    return ticket_view(ticket, await queue.why(ticket), who=who, now_us=now_us)


async def show_tickets(queue: QueueService, who: Person) -> tuple[int, list[TicketView]]:
    """The time, and all live tickets, the most urgent first."""
    now_us = await queue.look()
    shown = queue.state.live()
    return now_us, [ticket_view(ticket, await queue.why(ticket), who=who, now_us=now_us) for ticket in shown]


async def perform(
    queue: QueueService,
    action: Action,
    ticket_id: str,
    *,
    who: Person,
    number: int | None = None,
    reply: PersonReply | None = None,
) -> str:
    """Perform an action on a ticket and wait until it is durable; returns the id of the ticket.

    ``number`` is the person's claim number; if given, another claim of the same person does not count.
    """
    try:
        note = _note(queue, action, ticket_id, who=who, number=number, reply=reply or PersonReply("answer"))
    except QueueError as error:
        raise queue_problem(error) from error
    return (await queue.act(note)).id


def _note(
    queue: QueueService, action: Action, ticket_id: str, *, who: Person, number: int | None, reply: PersonReply
) -> Noted:
    state, settings, now_us = queue.state, queue.settings, queue.now_us()
    match action:
        case Action.NEXT:
            return rules.claim_next(state, who, now_us=now_us, settings=settings)
        case Action.CLAIM:
            return rules.claim(state, ticket_id, who, now_us=now_us, settings=settings)
        case Action.RENEW:
            return rules.renew(state, ticket_id, who, now_us=now_us, settings=settings, number=number)
        case Action.RELEASE:
            return rules.release(state, ticket_id, who, now_us=now_us, number=number)
        case Action.SKIP:
            return rules.skip(state, ticket_id, who, now_us=now_us, number=number)
        case Action.UNDO:
            return rules.undo(state, ticket_id, who, now_us=now_us, settings=settings)
        case Action.ANSWER:
            return rules.answer(state, ticket_id, who, reply=reply, now_us=now_us, settings=settings, number=number)


def queue_problem(error: QueueError) -> Problem:
    """The HTTP answer to something that cannot be done with a ticket."""
    return Problem(error.status, error.code, str(error))
