"""Events that occur outside a turn: kept for the next one, unless other replicas have made them obsolete."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from bot_orch.eventlog.events import SETTLING, Censored, Event, FeedbackGiven, TaskEnded
from bot_orch.eventlog.ledger import Ledger

__all__ = ["DeferredEvent", "only_shown", "overtaken"]


@dataclass(frozen=True, slots=True)
class DeferredEvent:
    """An event to stage, in this turn or the next, with what its row needs."""

    event: Event
    ref: str
    _: KW_ONLY
    key: str | None = None
    digest: bytes | None = None


def overtaken(event: Event, ledger: Ledger) -> bool:
    """Whether the state says that an event has nothing left to change."""
    pending = ledger.pending
    if isinstance(event, Censored):
        return event.decision_id not in pending
    if isinstance(event, FeedbackGiven) and event.effect in SETTLING:
        return event.decision_id not in pending
    if isinstance(event, FeedbackGiven) and event.effect == "replaced":
        return event.decision_id not in ledger.silent and event.decision_id not in ledger.judged
    if isinstance(event, FeedbackGiven) and event.effect == "audited":
        return event.decision_id not in ledger.audits
    if isinstance(event, FeedbackGiven) and only_shown(event):
        return event.decision_id not in pending or pending[event.decision_id][0] in ledger.router.shown
    return isinstance(event, TaskEnded) and event.id not in ledger.tasks


def only_shown(event: Event) -> bool:
    """Whether an event reports an output alone; one that does not fit is left out, its outcome counts without it."""
    return isinstance(event, FeedbackGiven) and event.effect == "shown"
