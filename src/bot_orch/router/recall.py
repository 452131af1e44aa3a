"""The most recent rounds that a log knows, for the history of a router that was opened again."""

from __future__ import annotations

from dataclasses import replace

from bot_orch.log.events import Censored, DecisionMade, FeedbackGiven
from bot_orch.log.log import Log
from bot_orch.types import Decision, Outcome

__all__ = ["recent_rounds"]

_OUTCOMES = ("learned", "noted", "replaced", "audited")  # effects of feedback that report an outcome


def recent_rounds(log: Log, most: int) -> list[tuple[Decision, Outcome | None]]:
    """The last ``most`` decisions at most, oldest first, each with its outcome if it has one.

    Rows are read backwards in growing steps, so that the time does not depend on the length of the log.
    """
    last, span = log.last()[0], 4 * most
    rounds: dict[str, tuple[Decision, Outcome | None]] = {}
    while most:
        rounds = _rounds(log, max(0, last - span))
        if len(rounds) >= most or span >= last:
            break
        span *= 4
    return list(rounds.values())[-most:] if most else []


def _rounds(log: Log, after: int) -> dict[str, tuple[Decision, Outcome | None]]:
    found: dict[str, tuple[Decision, Outcome | None]] = {}
    for row in log.read(after):
        if row.holds(DecisionMade):
            event = row.event()
            if isinstance(event, DecisionMade):
                found[event.id] = (replace(event.decision(), id=event.id), None)
        elif row.ref in found and (row.holds(FeedbackGiven) or row.holds(Censored)):
            event = row.event()
            if isinstance(event, Censored) or (isinstance(event, FeedbackGiven) and event.effect in _OUTCOMES):
                found[row.ref] = (found[row.ref][0], event.outcome())
    return found
