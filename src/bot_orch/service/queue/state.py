"""State of the queue of people: a fold over its notes in the log. It never reads a clock.

::

    open --claimed--> claimed --answered--> answered --sealed--> done
      ^                  |  ^                   |
      +--released, lapsed, skipped              +--undone--> claimed
    open, claimed, answered --expired | withdrawn--> closed          withdrawn --adopted--> open
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Any

from bot_orch.core.events import Noted
from bot_orch.log.log import Row

AUDIT = "audit-"
"""Prefix of the request that a ticket for an audit belongs to; the rest is the decision's id."""

REF = "queue"
"""The ``ref`` of all rows of the queue, so that they are found without reading the rest of the log."""

LIVE = ("open", "claimed", "answered")
_KEPT = 500


class Topic(StrEnum):
    """Topics of the queue's notes in the log."""

    OPENED = "queue.opened"
    CLAIMED = "queue.claimed"
    RENEWED = "queue.renewed"
    RELEASED = "queue.released"
    LAPSED = "queue.lapsed"
    SKIPPED = "queue.skipped"
    DRAFTED = "queue.drafted"
    ANSWERED = "queue.answered"
    UNDONE = "queue.undone"
    SEALED = "queue.sealed"
    EXPIRED = "queue.expired"
    WITHDRAWN = "queue.withdrawn"
    ADOPTED = "queue.adopted"

    @property
    def short(self) -> str:
        """The name without the prefix, such as ``opened``."""
        return self.name.lower()

    @classmethod
    def of(cls, note: Noted) -> Topic | None:
        """The topic of a note; ``None`` for notes of other parts of the service."""
        return _TOPICS.get(note.topic)


_TOPICS: dict[str, Topic] = {topic.value: topic for topic in Topic}


class WithdrawReason(StrEnum):
    """Why a ticket was withdrawn."""

    CANCELLED = "cancelled"
    """The call that waited for it was cancelled."""
    RESTART = "restart"
    """No call has waited for it since the last start."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer proposed by another agent."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """A person's answer; final after ``until_us``."""

    action: str
    text: str
    reason: str
    _: KW_ONLY
    draft: int | None
    by: str
    at_us: int
    until_us: int


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
    blind: bool = False
    status: str = "open"
    holder: str = ""
    lease_until_us: int = 0
    claim: int = 0
    drafts: list[Draft] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    given: Given | None = None
    reason: str = ""
    closed_us: int = 0

    @property
    def live(self) -> bool:
        """Whether a call is waiting for it."""
        return self.status in LIVE

    def due_us(self) -> int | None:
        """When its lease expires or its answer becomes final; ``None`` if neither applies."""
        if self.status == "claimed":
            return self.lease_until_us
        return self.given.until_us if self.status == "answered" and self.given is not None else None


class QueueState:
    """All live tickets, and the last few hundred closed ones.

    Examples
    --------
    >>> state = QueueState()
    >>> state.apply(5, Noted("queue.opened", "t", {"deadline_us": 9, "text": "2 + 2?"}))
    >>> state.apply(6, Noted("queue.claimed", "t", {"by": "ada", "until_us": 8}))
    >>> state.tickets["t"].holder, state.next_due_us()
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

    def next_due_us(self) -> int | None:
        """When the next lease expires or answer becomes final."""
        return min((due for t in self.tickets.values() if (due := t.due_us()) is not None), default=None)

    def apply(self, time_us: int, event: Noted) -> None:
        """Apply one note; notes of other parts of the service are ignored."""
        topic, data = Topic.of(event), event.data
        if topic is None:
            return
        if topic is Topic.OPENED:
            self.tickets[event.ref] = _opened(event.ref, time_us, data)
            return
        ticket = self.tickets.get(event.ref)
        if ticket is not None and _counts(ticket, topic, data):
            _CHANGES[topic][1](ticket, time_us, data)
            if not ticket.live:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        closed = self.closed()
        for ticket in closed[_KEPT:]:
            del self.tickets[ticket.id]


def fold_queue(rows: Iterable[Row]) -> QueueState:
    """Fold rows of the log into the state of the queue."""
    state = QueueState()
    for row in rows:
        event = row.event()
        if isinstance(event, Noted):
            state.apply(row.time_us, event)
    return state


def _counts(ticket: Ticket, topic: Topic, data: dict[str, Any]) -> bool:
    """Whether a note still applies: of two conflicting notes only the first in the log does."""
    return ticket.status in _CHANGES[topic][0] and data.get("claim", ticket.claim) == ticket.claim


def _opened(ticket_id: str, time_us: int, data: dict[str, Any]) -> Ticket:
    return Ticket(
        ticket_id,
        data.get("decision_id", ""),
        data.get("task_id", ""),
        agent=data.get("agent", ""),
        kind=data.get("kind", ""),
        text=data.get("text", ""),
        opened_us=time_us,
        deadline_us=data["deadline_us"],
        blind=data.get("blind", False),
        drafts=[Draft(each["agent"], each["text"]) for each in data.get("drafts", ())],
    )


def _claimed(ticket: Ticket, _: int, data: dict[str, Any]) -> None:
    ticket.status, ticket.holder = "claimed", data["by"]
    ticket.lease_until_us = data["until_us"]
    ticket.claim += 1


def _renewed(ticket: Ticket, _: int, data: dict[str, Any]) -> None:
    ticket.lease_until_us = data["until_us"]


def _returned(ticket: Ticket, _: int, __: dict[str, Any]) -> None:
    ticket.status, ticket.holder, ticket.lease_until_us = "open", "", 0


def _skipped(ticket: Ticket, time_us: int, data: dict[str, Any]) -> None:
    if data["by"] not in ticket.skipped:
        ticket.skipped.append(data["by"])
    _returned(ticket, time_us, data)


def _drafted(ticket: Ticket, _: int, data: dict[str, Any]) -> None:
    ticket.drafts.append(Draft(data["agent"], data["text"]))


def _answered(ticket: Ticket, time_us: int, data: dict[str, Any]) -> None:
    ticket.status = "answered"
    ticket.given = Given(
        data["action"],
        data.get("text", ""),
        data.get("reason", ""),
        draft=data.get("draft"),
        by=data["by"],
        at_us=time_us,
        until_us=data["until_us"],
    )


def _undone(ticket: Ticket, _: int, data: dict[str, Any]) -> None:
    ticket.status, ticket.given = "claimed", None
    ticket.lease_until_us = data["until_us"]


def _sealed(ticket: Ticket, time_us: int, _: dict[str, Any]) -> None:
    ticket.status, ticket.closed_us = "done", time_us


def _expired(ticket: Ticket, time_us: int, _: dict[str, Any]) -> None:
    ticket.status, ticket.reason, ticket.closed_us = "expired", "unanswered", time_us


def _withdrawn(ticket: Ticket, time_us: int, data: dict[str, Any]) -> None:
    ticket.status, ticket.reason, ticket.closed_us = "withdrawn", data["reason"], time_us


def _adopted(ticket: Ticket, time_us: int, data: dict[str, Any]) -> None:
    """The same task was resumed after a restart: drafts stay, and the holder if the lease has not run out."""
    ticket.decision_id, ticket.deadline_us = data["decision_id"], data["deadline_us"]
    ticket.reason, ticket.closed_us = "", 0
    if ticket.given is not None:
        ticket.status = "answered"
    elif ticket.holder and ticket.lease_until_us > time_us:
        ticket.status = "claimed"
    else:
        _returned(ticket, time_us, data)


_Change = Callable[[Ticket, int, dict[str, Any]], None]
_CHANGES: dict[Topic, tuple[tuple[str, ...], _Change]] = {  # allowed states, and the change
    Topic.CLAIMED: (("open",), _claimed),
    Topic.RENEWED: (("claimed",), _renewed),
    Topic.RELEASED: (("claimed",), _returned),
    Topic.LAPSED: (("claimed",), _returned),
    Topic.SKIPPED: (("claimed",), _skipped),
    Topic.DRAFTED: (("open", "claimed"), _drafted),
    Topic.ANSWERED: (("claimed",), _answered),
    Topic.UNDONE: (("answered",), _undone),
    Topic.SEALED: (("answered",), _sealed),
    Topic.EXPIRED: (LIVE, _expired),
    Topic.WITHDRAWN: (LIVE, _withdrawn),
    Topic.ADOPTED: ((*LIVE, "withdrawn"), _adopted),
}
