"""Tickets of the queue of people: a fold over the notes that record them, and what a person may do. No clock is read.

::

    open --claimed--> claimed --answered--> answered
      ^                  |
      +-- released, lapsed
    open, claimed --expired | withdrawn--> closed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

from bot_orch.core.events import Noted
from bot_orch.log.log import Row
from bot_orch.service.problems import Problem

REF = "queue"
"""The ``ref`` of all rows of the queue, so that they are found without reading the rest of the log."""
LEASE_S = 300.0
"""How long a claim lasts, unless it is renewed."""
_LIVE = ("open", "claimed")
_KEPT = 500


class Topic(StrEnum):
    """Topics of the queue's notes in the log."""

    OPENED = "queue.opened"
    CLAIMED = "queue.claimed"
    RELEASED = "queue.released"
    LAPSED = "queue.lapsed"
    ANSWERED = "queue.answered"
    EXPIRED = "queue.expired"
    WITHDRAWN = "queue.withdrawn"


@dataclass(frozen=True, slots=True)
class Given:
    """What a person said: an answer, or why the task is declined."""

    action: str
    text: str
    reason: str
    by: str


@dataclass(slots=True)
class Ticket:
    """A task for a person. ``claim`` counts claims: an answer names the claim it is made under."""

    id: str
    decision_id: str
    task_id: str
    _: KW_ONLY
    agent: str
    kind: str
    text: str
    opened_us: int
    deadline_us: int
    status: str = "open"
    holder: str = ""
    lease_until_us: int = 0
    claim: int = 0
    given: Given | None = None
    reason: str = ""
    closed_us: int = 0

    @property
    def live(self) -> bool:
        """Whether a call is waiting for it."""
        return self.status in _LIVE


class QueueState:
    """All live tickets, and the last few hundred closed ones.

    Examples
    --------
    >>> state = QueueState()
    >>> state.apply(5, Noted("queue.opened", "t", {"deadline_us": 9, "text": "2 + 2?"}))
    >>> state.apply(6, Noted("queue.claimed", "t", {"by": "ada", "until_us": 8}))
    >>> state.tickets["t"].holder, state.next_lapse_us()
    ('ada', 8)
    """

    def __init__(self) -> None:
        self.tickets: dict[str, Ticket] = {}

    def live(self) -> list[Ticket]:
        """Live tickets, the most urgent first."""
        return sorted((t for t in self.tickets.values() if t.live), key=lambda t: (t.deadline_us, t.id))

    def closed(self) -> list[Ticket]:
        """Closed tickets, the newest first."""
        return sorted((t for t in self.tickets.values() if not t.live), key=lambda t: -t.closed_us)

    def next_lapse_us(self) -> int | None:
        """When the next lease ends."""
        return min((t.lease_until_us for t in self.tickets.values() if t.status == "claimed"), default=None)

    def apply(self, time_us: int, event: Noted) -> None:
        """Apply one note. Of two that exclude each other the first in the log counts; others' notes are ignored."""
        data = event.data
        if event.topic == Topic.OPENED:
            texts = {name: data.get(name, "") for name in ("decision_id", "task_id", "agent", "kind", "text")}
            self.tickets[event.ref] = Ticket(event.ref, **texts, opened_us=time_us, deadline_us=data["deadline_us"])
            return
        ticket = self.tickets.get(event.ref)
        if ticket is None or ticket.status not in _LIVE or data.get("claim", ticket.claim) != ticket.claim:
            return
        match event.topic:
            case Topic.CLAIMED if ticket.status == "open" or ticket.holder == data["by"]:
                ticket.claim += ticket.status == "open"
                ticket.status, ticket.holder, ticket.lease_until_us = "claimed", data["by"], data["until_us"]
            case Topic.RELEASED | Topic.LAPSED if ticket.status == "claimed":
                ticket.status, ticket.holder, ticket.lease_until_us = "open", "", 0
            case Topic.ANSWERED if ticket.status == "claimed":
                ticket.given = Given(data["action"], data.get("text", ""), data.get("reason", ""), data["by"])
                ticket.status = "answered"
            case Topic.EXPIRED:
                ticket.status = "expired"
            case Topic.WITHDRAWN:
                ticket.status, ticket.reason = "withdrawn", data["reason"]
        if not ticket.live:
            ticket.closed_us = time_us
            for old in self.closed()[_KEPT:]:
                del self.tickets[old.id]


def fold_queue(rows: Iterable[Row]) -> QueueState:
    """Fold rows of the log into the state of the queue."""
    state = QueueState()
    for row in rows:
        event = row.event()
        if isinstance(event, Noted):
            state.apply(row.time_us, event)
    return state


@dataclass(frozen=True, slots=True)
class Person:
    """A person who works on tickets; ``admin`` may release the claims of others."""

    name: str
    admin: bool = False


def person(name: str, scopes: Collection[str]) -> Person:
    """The holder of a token, with the rights of its scopes."""
    return Person(name, "admin" in scopes)


def find(state: QueueState, ticket_id: str) -> Ticket:
    """The ticket with this id."""
    ticket = state.tickets.get(ticket_id)
    if ticket is None:
        raise Problem(404, "unknown_ticket", "there is no such ticket")
    return ticket


def claim(state: QueueState, ticket_id: str, who: Person, now_us: int, number: int | None = None) -> Noted:
    """Claim a ticket: others cannot answer it until the lease ends; ``number`` is a claim whose lease begins again."""
    ticket = _live(state, ticket_id) if number is None else _own_claim(state, ticket_id, who, now_us, number)
    if ticket.status == "claimed" and number is None:
        held = "you hold it already" if ticket.holder == who.name else "somebody else holds it"
        raise Problem(409, "taken", f"{held}; its lease ends by itself")
    until_us = max(now_us, min(now_us + round(LEASE_S * 1e6), ticket.deadline_us))
    return _note(Topic.CLAIMED, ticket, by=who.name, until_us=until_us)


def claim_next(state: QueueState, who: Person, now_us: int) -> Noted:
    """Claim the most urgent ticket that nobody holds."""
    free = next((ticket for ticket in state.live() if ticket.status == "open"), None)
    if free is None:
        raise Problem(409, "queue_empty", "nothing waits for a person")
    return claim(state, free.id, who, now_us)


def release(state: QueueState, ticket_id: str, who: Person, now_us: int, number: int | None = None) -> Noted:
    """End a claim; the ticket is open again."""
    if who.admin and find(state, ticket_id).status == "claimed":
        return _note(Topic.RELEASED, find(state, ticket_id), by=who.name)
    return _note(Topic.RELEASED, _own_claim(state, ticket_id, who, now_us, number), by=who.name)


def answer(state: QueueState, ticket_id: str, given: Given, now_us: int, number: int | None = None) -> Noted:
    """Answer a ticket, or decline it with a reason; ``number`` is the claim under which the person answers."""
    ticket = _own_claim(state, ticket_id, Person(given.by), now_us, number)
    if given.action == "reject" and not given.reason.strip():
        raise Problem(422, "invalid_answer", "say why you reject it")
    if given.action != "reject" and not given.text.strip():
        raise Problem(422, "invalid_answer", "write an answer")
    text = "" if given.action == "reject" else given.text
    return _note(Topic.ANSWERED, ticket, action=given.action, text=text, reason=given.reason.strip(), by=given.by)


def due(state: QueueState, now_us: int) -> Iterator[Noted]:
    """Notes of leases that ran out."""
    for ticket in list(state.tickets.values()):
        if ticket.status == "claimed" and ticket.lease_until_us <= now_us:
            yield _note(Topic.LAPSED, ticket, by=ticket.holder)


def _note(topic: Topic, ticket: Ticket, **data: Any) -> Noted:
    return Noted(topic, ticket.id, {"claim": ticket.claim, **data})


def _live(state: QueueState, ticket_id: str) -> Ticket:
    ticket = find(state, ticket_id)
    if not ticket.live:
        why = {"answered": "it was answered", "expired": "nobody answered in time"}.get(ticket.status, ticket.reason)
        raise Problem(409, "stale", f"nobody waits for this any more ({why})")
    return ticket


def _own_claim(state: QueueState, ticket_id: str, who: Person, now_us: int, number: int | None) -> Ticket:
    """The ticket, if this person holds the current claim on it."""
    ticket = _live(state, ticket_id)
    mine = ticket.status == "claimed" and ticket.holder == who.name and ticket.lease_until_us > now_us
    if not mine or (number is not None and number != ticket.claim):
        raise Problem(409, "stale", "your claim has ended; claim it again" if ticket.claim else "claim it first")
    return ticket
