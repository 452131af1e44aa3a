"""Views of tickets for the API and the pages."""

from __future__ import annotations

import msgspec

from bot_orch.service.queue.service import QueueService
from bot_orch.service.queue.tickets import Person, Ticket, find
from bot_orch.service.routing.explanation import WhyView, why_view


class GivenView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A person's answer."""

    action: str
    text: str
    reason: str
    by: str


class TicketView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task for a person."""

    id: str
    status: str
    kind: str
    text: str
    agent: str
    decision_id: str
    opened_us: int
    deadline_us: int
    closed_us: int
    now_us: int
    holder: str
    mine: bool
    claim: int
    lease_until_us: int | None
    given: GivenView | None
    reason: str
    why: WhyView | None


class QueueView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """All live tickets, the most urgent first."""

    now_us: int
    tickets: list[TicketView]


async def show_ticket(queue: QueueService, ticket_id: str, who: Person) -> TicketView:
    """One ticket as ``who`` may see it."""
    now_us = await queue.look()
    return await _view(queue, find(queue.state, ticket_id), who, now_us)


async def show_tickets(queue: QueueService, who: Person, *, closed: bool = False, most: int = -1) -> QueueView:
    """Live tickets, the most urgent first, or closed ones, the newest first."""
    now_us = await queue.look()
    chosen = queue.state.closed() if closed else queue.state.live()
    shown = [await _view(queue, each, who, now_us) for each in (chosen if most < 0 else chosen[:most])]
    return QueueView(now_us=now_us, tickets=shown)


async def _view(queue: QueueService, ticket: Ticket, who: Person, now_us: int) -> TicketView:
    decision, given = await queue.decision(ticket.decision_id), ticket.given
    return TicketView(
        id=ticket.id,
        status=ticket.status,
        kind=ticket.kind,
        text=ticket.text,
        agent=ticket.agent,
        decision_id=ticket.decision_id,
        opened_us=ticket.opened_us,
        deadline_us=ticket.deadline_us,
        closed_us=ticket.closed_us,
        now_us=now_us,
        holder=ticket.holder,
        mine=ticket.holder == who.name,
        claim=ticket.claim,
        lease_until_us=ticket.lease_until_us if ticket.status == "claimed" else None,
        given=None if given is None else msgspec.convert(given, GivenView, from_attributes=True),
        reason=ticket.reason,
        why=None if decision is None else why_view(decision),
    )
