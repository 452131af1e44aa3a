"""What the queue of people holds: a fold over its own notes in the log. It never asks for the time.

::

    open --claimed--> claimed --answered--> answered --sealed--> done
      ^                  |  ^                   |
      +--released, lapsed, skipped              +--undone--> claimed
    open, claimed, answered --expired | withdrawn--> closed          withdrawn --adopted--> open
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bot_orch.eventlog.events import Noted
from bot_orch.eventlog.log import Row

__all__ = ["LIVE", "REF", "Draft", "Given", "QueueState", "Ticket", "fold_queue"]

REF = "queue"
"""What every row of the queue is about, so that they are found without reading the rest of the log."""

LIVE = ("open", "claimed", "answered")
_TOPIC = "queue."
_KEPT = 500


@dataclass(frozen=True, slots=True)
class Draft:
    """What another agent would answer."""

    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Given:
    """What a person decided; final once ``until_us`` has passed."""

    action: str
    text: str
    reason: str
    draft: int | None
    by: str
    at_us: int
    until_us: int


@dataclass(slots=True)
class Ticket:
    """One task before people. ``claim`` counts claims: whoever answers names the one they hold."""

    id: str
    decision_id: str
    task_id: str
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
        """Whether somebody waits for it."""
        return self.status in LIVE

    def due_us(self) -> int | None:
        """When something happens to it by itself: its lease runs out, or its answer becomes final."""
        if self.status == "claimed":
            return self.lease_until_us
        return self.given.until_us if self.status == "answered" and self.given is not None else None


class QueueState:
    """All tickets that are live, and the last few hundred that are not.

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
        """Tickets somebody waits for, the most urgent first."""
        return sorted((t for t in self.tickets.values() if t.live), key=lambda t: (t.deadline_us, t.id))

    def closed(self) -> list[Ticket]:
        """Tickets that are over, the newest first."""
        return sorted((t for t in self.tickets.values() if not t.live), key=lambda t: -t.closed_us)

    def next_due_us(self) -> int | None:
        """When something happens by itself next."""
        return min((due for t in self.tickets.values() if (due := t.due_us()) is not None), default=None)

    def apply(self, time_us: int, event: Noted) -> None:
        """Take one note; notes of other parts of the service are not for us."""
        if not event.topic.startswith(_TOPIC):
            return
        what, data = event.topic.removeprefix(_TOPIC), event.data
        if what == "opened":
            self.tickets[event.ref] = _opened(event.ref, time_us, data)
            return
        ticket = self.tickets.get(event.ref)
        if ticket is not None and _counts(ticket, what, data):
            _CHANGES[what][1](ticket, time_us, data)
            if not ticket.live:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        closed = self.closed()
        for ticket in closed[_KEPT:]:
            del self.tickets[ticket.id]


def fold_queue(rows: Iterable[Row]) -> QueueState:
    """The queue after these rows."""
    state = QueueState()
    for row in rows:
        event = row.event()
        if isinstance(event, Noted):
            state.apply(row.time_us, event)
    return state


def _counts(ticket: Ticket, what: str, data: dict[str, Any]) -> bool:
    """Whether a note still applies: of two that exclude each other the first in the log does."""
    return ticket.status in _CHANGES[what][0] and data.get("claim", ticket.claim) == ticket.claim


def _opened(ticket_id: str, time_us: int, data: dict[str, Any]) -> Ticket:
    return Ticket(
        ticket_id,
        data.get("decision_id", ""),
        data.get("task_id", ""),
        data.get("agent", ""),
        data.get("kind", ""),
        data.get("text", ""),
        time_us,
        data["deadline_us"],
        data.get("blind", False),
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
        data.get("draft"),
        data["by"],
        time_us,
        data["until_us"],
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
    """The same task came back, after a restart: its draft answers and, if the lease still runs, its holder stay."""
    ticket.decision_id, ticket.deadline_us = data["decision_id"], data["deadline_us"]
    ticket.reason, ticket.closed_us = "", 0
    if ticket.given is not None:
        ticket.status = "answered"
    elif ticket.holder and ticket.lease_until_us > time_us:
        ticket.status = "claimed"
    else:
        _returned(ticket, time_us, data)


_Change = Callable[[Ticket, int, dict[str, Any]], None]
_CHANGES: dict[str, tuple[tuple[str, ...], _Change]] = {  # from which states, and what changes
    "claimed": (("open",), _claimed),
    "renewed": (("claimed",), _renewed),
    "released": (("claimed",), _returned),
    "lapsed": (("claimed",), _returned),
    "skipped": (("claimed",), _skipped),
    "drafted": (("open", "claimed"), _drafted),
    "answered": (("claimed",), _answered),
    "undone": (("answered",), _undone),
    "sealed": (("answered",), _sealed),
    "expired": (LIVE, _expired),
    "withdrawn": (LIVE, _withdrawn),
    "adopted": ((*LIVE, "withdrawn"), _adopted),
}
