"""Views of a ticket for the API and pages: its decision, and drafts unless hidden."""

from __future__ import annotations

import msgspec

from bot_orch.core.events import DecisionMade
from bot_orch.service.queue.rules import Person
from bot_orch.service.queue.state import Draft, Given, Ticket
from bot_orch.service.routing.explanation import WhyView, why_view


class DraftView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An answer proposed by another agent."""

    agent: str
    text: str


class GivenView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A person's answer. Until ``undo_until_us`` it can be undone."""

    action: str
    text: str
    reason: str
    by: str
    undo_until_us: int


class TicketView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A task for a person. ``drafts`` is ``null`` while they are hidden (blind mode)."""

    id: str
    status: str
    kind: str
    text: str
    agent: str
    decision_id: str
    opened_us: int
    deadline_us: int
    now_us: int
    holder: str
    mine: bool
    claim: int
    lease_until_us: int | None
    blind: bool
    drafts: list[DraftView] | None
    skipped: bool
    given: GivenView | None
    reason: str
    why: WhyView | None


class QueueView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """All live tickets, the most urgent first."""

    now_us: int
    tickets: list[TicketView]


def ticket_view(ticket: Ticket, decision: DecisionMade | None, *, who: Person, now_us: int) -> TicketView:
    """The ticket as ``who`` may see it."""
    return TicketView(
        id=ticket.id,
        status=ticket.status,
        kind=ticket.kind,
        text=ticket.text,
        agent=ticket.agent,
        decision_id=ticket.decision_id,
        opened_us=ticket.opened_us,
        deadline_us=ticket.deadline_us,
        now_us=now_us,
        holder=ticket.holder,
        mine=ticket.holder == who.name,
        claim=ticket.claim,
        lease_until_us=ticket.lease_until_us if ticket.status == "claimed" else None,
        blind=ticket.blind,
        drafts=None if ticket.blind and ticket.live else [_draft_view(draft) for draft in ticket.drafts],
        skipped=who.name in ticket.skipped,
        given=None if ticket.given is None else _given_view(ticket.given),
        reason=ticket.reason,
        why=None if decision is None else why_view(decision),
    )


def _draft_view(draft: Draft) -> DraftView:
    return DraftView(agent=draft.agent, text=draft.text)


def _given_view(given: Given) -> GivenView:
    return GivenView(
        action=given.action, text=given.text, reason=given.reason, by=given.by, undo_until_us=given.until_us
    )
