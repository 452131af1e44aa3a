"""All decisions of the log in pages, newest first. A page is identified by a log number, so links stay valid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from bot_orch.core.events import Censored, DecisionMade, FeedbackGiven
from bot_orch.log.log import Log, Row
from bot_orch.service.dashboard.timeline import Recent, outcome_words

_STEP = 500
_MOST_READ = 50_000


class DecisionPage(NamedTuple):
    """Decisions, newest first, and the log numbers of the neighbouring pages; ``None`` at the ends."""

    entries: list[Recent]
    newer: int | None
    older: int | None


def decisions_page(
    log: Log, count: int, *, before: int | None = None, after: int | None = None, kind: str = ""
) -> DecisionPage:
    """The ``count`` decisions (of one kind of tasks) next to a number in the log, by default the newest.

    A bounded number of rows is read, so that a long stretch without decisions cannot hold up the service.
    """
    end, wanted = log.last()[0] + 1, _Wanted(kind)
    if after is not None:
        found = _after(log, after, count, wanted=wanted)
        if len(found) < count:  # fill up the newest page
            found = _before(log, end, count, wanted=wanted)
    else:
        found = _before(log, end if before is None else min(before, end), count, wanted=wanted)
    if not found:
        return DecisionPage([], None, None)
    oldest, newest = found[0], found[-1]
    newer = newest.seq if _after(log, newest.seq, 1, wanted=wanted) else None
    older = oldest.seq if _before(log, oldest.seq, 1, wanted=wanted) else None
    return DecisionPage([_entry(log, row) for row in reversed(found)], newer, older)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Filter of decisions by kind; empty means all."""

    kind: str

    def has(self, row: Row) -> bool:
        """Whether a row is a matching decision; it is decoded only if needed."""
        if not row.holds(DecisionMade):
            return False
        event = row.event() if self.kind else None
        return not self.kind or (isinstance(event, DecisionMade) and event.task.kind == self.kind)


def _before(log: Log, seq: int, count: int, *, wanted: _Wanted) -> list[Row]:
    """The last decisions with numbers below ``seq``, in the order of the log."""
    found: list[Row] = []
    end = seq
    while end > 1 and len(found) < count and seq - end < _MOST_READ:
        begin = max(1, end - _STEP)
        rows = islice(log.read(begin - 1), end - begin)
        found[:0] = [row for row in rows if row.seq < end and wanted.has(row)]
        end = begin
    return found[-count:]


def _after(log: Log, seq: int, count: int, *, wanted: _Wanted) -> list[Row]:
    rows = islice(log.read(seq), _MOST_READ)
    return list(islice((row for row in rows if wanted.has(row)), count))


def _entry(log: Log, row: Row) -> Recent:
    event = row.event()
    if not isinstance(event, DecisionMade):
        raise TypeError(f"row {row.seq} is no decision")
    entry = Recent(row.time_us, event.id, event.agent, task=event.task.id, propensity=event.propensity, by=event.by)
    entry.outcome = _outcome(log.about(event.id)) or entry.outcome
    return entry


def _outcome(rows: Sequence[Row]) -> str:
    events = (row.event() for row in rows if row.holds(FeedbackGiven) or row.holds(Censored))
    said = [outcome_words(event) for event in events if isinstance(event, FeedbackGiven | Censored)]
    return next((words for words in reversed(said) if words), "")
