"""The decisions of one round: after a failure the next agent is another decision, and all are explained together."""

from __future__ import annotations

from bot_orch.eventlog.events import DecisionMade, Noted
from bot_orch.eventlog.log import Log, Row

__all__ = ["NEXT_DECISION", "decisions_of_round", "rows_of_round"]

#: Topic of the note, about a round's first decision, that names a later one.
NEXT_DECISION = "round.decision"


def decisions_of_round(log: Log, decision: DecisionMade) -> list[str]:
    """Ids of all decisions of the round that ``decision`` belongs to, in order; only its own if nothing failed."""
    first = decision.round or decision.id
    notes = [event for row in log.about(first) if isinstance(event := row.event(), Noted)]
    return [first, *(str(note.data["decision"]) for note in notes if note.topic == NEXT_DECISION)]


def rows_of_round(log: Log, decision: DecisionMade) -> list[Row]:
    """Rows about all decisions of the round, in the order of the log."""
    rows = [row for each in decisions_of_round(log, decision) for row in log.about(each)]
    return sorted(rows, key=lambda row: row.seq)
