"""A ticket as people and programs are shown it: why it is here, what others would answer unless that is hidden."""

from __future__ import annotations

import msgspec

from bot_orch.eventlog.events import DecisionMade
from bot_orch.service.queue.rules import Person
from bot_orch.service.queue.state import Ticket

__all__ = ["AgentTerms", "DraftView", "GivenView", "QueueView", "TicketView", "WhyView", "ticket_view", "why_view"]


class _View(msgspec.Struct, frozen=True, gc=False):
    pass


class AgentTerms(_View, frozen=True):
    """One agent in the decision that led here."""

    agent: str
    propensity: float
    estimate: float
    exploration: float
    distance: float
    alignment: float
    cost: float
    score: float
    excluded: str = ""


class WhyView(_View, frozen=True):
    """Why a person was asked. ``by`` is ``policy``, or the rule that decided."""

    by: str
    policy: str
    propensity: float
    lambda_: float = msgspec.field(name="lambda")
    agents: list[AgentTerms] = []


class DraftView(_View, frozen=True):
    """What another agent would answer."""

    agent: str
    text: str


class GivenView(_View, frozen=True):
    """What a person decided. Until ``undo_until_us`` it can be taken back."""

    action: str
    text: str
    reason: str
    by: str
    undo_until_us: int


class TicketView(_View, frozen=True):
    """One task before people. ``drafts`` is ``null`` while they are hidden (blind mode)."""

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


class QueueView(_View, frozen=True):
    """Everything that waits, the most urgent first."""

    now_us: int
    tickets: list[TicketView]


def ticket_view(ticket: Ticket, decision: DecisionMade | None, who: Person, now_us: int) -> TicketView:
    """The ticket as ``who`` may see it."""
    given, hidden = ticket.given, ticket.blind and ticket.live
    return TicketView(
        ticket.id,
        ticket.status,
        ticket.kind,
        ticket.text,
        ticket.agent,
        ticket.decision_id,
        ticket.opened_us,
        ticket.deadline_us,
        now_us,
        ticket.holder,
        ticket.holder == who.name,
        ticket.claim,
        ticket.lease_until_us if ticket.status == "claimed" else None,
        ticket.blind,
        None if hidden else [DraftView(draft.agent, draft.text) for draft in ticket.drafts],
        who.name in ticket.skipped,
        None if given is None else GivenView(given.action, given.text, given.reason, given.by, given.until_us),
        ticket.reason,
        None if decision is None else why_view(decision),
    )


def why_view(decision: DecisionMade) -> WhyView:
    """The terms of a decision, the most probable agent first."""
    excluded = decision.excluded or {}
    agents = [
        AgentTerms(name, p, e, x, w, a, c, e + x - a - c, excluded.get(name, ""))
        for name, p, e, x, w, a, c in decision.decision().rows()
    ]
    chosen = next(each for each in agents if each.agent == decision.agent)
    return WhyView(
        decision.by,
        decision.policy,
        chosen.propensity,
        decision.lambda_,
        sorted(agents, key=lambda each: -each.propensity),
    )
