"""Actions of people on tickets, and the notes that record them. Pure functions: the time is an argument."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.core.events import Noted
from bot_orch.errors import BotOrchError
from bot_orch.service.queue.state import QueueState, Ticket, Topic

_BEFORE_DEADLINE_US = 250_000
_STATUS = {"unknown_ticket": 404, "invalid_answer": 422}


class QueueError(BotOrchError):
    """An action that a ticket does not allow now. ``status`` is the HTTP status of the answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, _STATUS.get(code, 409)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Length of a claim's lease and of the undo window, and whether drafts are hidden by default."""

    lease_s: float = 300.0
    undo_s: float = 8.0
    blind: bool = False


@dataclass(frozen=True, slots=True)
class Person:
    """A person who works on tickets; ``admin`` may release the claims of others."""

    name: str
    admin: bool = False


@dataclass(frozen=True, slots=True)
class PersonReply:
    """A reply to a ticket: accept or edit a draft, write an answer, or reject with a reason."""

    action: str
    text: str = ""
    reason: str = ""
    _: KW_ONLY
    draft: int | None = None


def person(name: str, scopes: Collection[str]) -> Person:
    """The holder of a token, with the rights of its scopes."""
    return Person(name, "admin" in scopes)


def find(state: QueueState, ticket_id: str) -> Ticket:
    """The ticket with this id; raises :class:`QueueError` if there is none."""
    ticket = state.tickets.get(ticket_id)
    if ticket is None:
        raise QueueError("unknown_ticket", "there is no such ticket")
    return ticket


def claim(state: QueueState, ticket_id: str, who: Person, *, now_us: int, settings: QueueSettings) -> Noted:
    """Claim a ticket; others cannot answer it until the lease ends."""
    ticket = find(state, ticket_id)
    _live(ticket)
    if ticket.status != "open":
        held = "you hold it already" if ticket.holder == who.name else "somebody else holds it"
        raise QueueError("taken", f"{held}; its lease ends by itself")
    return _note(Topic.CLAIMED, ticket, by=who.name, until_us=_lease(ticket, now_us, settings))


def claim_next(state: QueueState, who: Person, *, now_us: int, settings: QueueSettings) -> Noted:
    """Claim the most urgent ticket; tickets this person has skipped come last."""
    free = [ticket for ticket in state.live() if ticket.status == "open"]
    free.sort(key=lambda ticket: who.name in ticket.skipped)
    if not free:
        raise QueueError("queue_empty", "nothing waits for a person")
    return claim(state, free[0].id, who, now_us=now_us, settings=settings)


def renew(
    state: QueueState,
    ticket_id: str,
    who: Person,
    *,
    now_us: int,
    settings: QueueSettings,
    number: int | None = None,
) -> Noted:
    """Extend the lease of a claim."""
    ticket = _own_claim(state, ticket_id, who, now_us=now_us, number=number)
    return _note(Topic.RENEWED, ticket, by=who.name, until_us=_lease(ticket, now_us, settings))


def release(state: QueueState, ticket_id: str, who: Person, *, now_us: int, number: int | None = None) -> Noted:
    """End a claim; the ticket is open again."""
    if who.admin and find(state, ticket_id).status == "claimed":
        return _note(Topic.RELEASED, find(state, ticket_id), by=who.name)
    return _note(Topic.RELEASED, _own_claim(state, ticket_id, who, now_us=now_us, number=number), by=who.name)


def skip(state: QueueState, ticket_id: str, who: Person, *, now_us: int, number: int | None = None) -> Noted:
    """End a claim and offer the ticket to others first."""
    return _note(Topic.SKIPPED, _own_claim(state, ticket_id, who, now_us=now_us, number=number), by=who.name)


def answer(
    state: QueueState,
    ticket_id: str,
    who: Person,
    *,
    reply: PersonReply,
    now_us: int,
    settings: QueueSettings,
    number: int | None = None,
) -> Noted:
    """Answer a ticket; the undo window ends before the deadline of the task."""
    ticket = _own_claim(state, ticket_id, who, now_us=now_us, number=number)
    text = _checked(ticket, reply)
    until_us = min(now_us + round(settings.undo_s * 1e6), ticket.deadline_us - _BEFORE_DEADLINE_US)
    return _note(
        Topic.ANSWERED,
        ticket,
        action=reply.action,
        text=text,
        reason=reply.reason.strip(),
        draft=reply.draft,
        by=who.name,
        until_us=max(until_us, now_us),
    )


def undo(state: QueueState, ticket_id: str, who: Person, *, now_us: int, settings: QueueSettings) -> Noted:
    """Withdraw an answer within its undo window."""
    ticket = find(state, ticket_id)
    given = ticket.given
    if given is None or given.by != who.name:
        raise QueueError("nothing_to_undo", "there is no answer of yours to take back")
    if ticket.status != "answered" or now_us >= given.until_us:
        raise QueueError("too_late", "the answer is final")
    return _note(Topic.UNDONE, ticket, by=who.name, until_us=_lease(ticket, now_us, settings))


def due(state: QueueState, now_us: int) -> Iterator[Noted]:
    """Notes that are due: leases that ran out, answers that became final."""
    for ticket in list(state.tickets.values()):
        at_us = ticket.due_us()
        if at_us is not None and at_us <= now_us:
            if ticket.status == "claimed":
                yield _note(Topic.LAPSED, ticket, by=ticket.holder)
            else:
                yield _note(Topic.SEALED, ticket)


def _note(topic: Topic, ticket: Ticket, **data: Any) -> Noted:
    return Noted(topic, ticket.id, {"claim": ticket.claim, **data})


def _lease(ticket: Ticket, now_us: int, settings: QueueSettings) -> int:
    return max(now_us, min(now_us + round(settings.lease_s * 1e6), ticket.deadline_us))


def _live(ticket: Ticket) -> None:
    if not ticket.live:
        raise QueueError("stale", f"nobody waits for this any more ({ticket.reason or 'it was answered'})")


def _own_claim(state: QueueState, ticket_id: str, who: Person, *, now_us: int, number: int | None) -> Ticket:
    """The ticket, if this person holds the current claim on it."""
    ticket = find(state, ticket_id)
    _live(ticket)
    if ticket.status == "answered":
        raise QueueError("stale", "it was answered already")
    mine = ticket.status == "claimed" and ticket.holder == who.name and ticket.lease_until_us > now_us
    if not mine or (number is not None and number != ticket.claim):
        raise QueueError("stale", "your claim has ended; claim it again" if ticket.claim else "claim it first")
    return ticket


def _checked(ticket: Ticket, reply: PersonReply) -> str:
    """The text of the answer, after checking that the action has all it needs."""
    if reply.action == "reject":
        if not reply.reason.strip():
            raise QueueError("invalid_answer", "say why you reject it")
        return ""
    if reply.action not in ("accept", "edit", "answer"):
        raise QueueError("invalid_answer", "the action is one of accept, edit, answer, reject")
    if reply.action == "answer":
        return _some(reply.text)
    if ticket.blind:
        raise QueueError("blind", "drafts are hidden for this task; answer in your own words")
    if reply.draft is None or not 0 <= reply.draft < len(ticket.drafts):
        raise QueueError("invalid_answer", "there is no such draft")
    return ticket.drafts[reply.draft].text if reply.action == "accept" else _some(reply.text)


def _some(text: str) -> str:
    if not text.strip():
        raise QueueError("invalid_answer", "write an answer")
    return text
