"""Go through a log again: rebuild the state, derive every decision anew and compare it with what was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from bot_orch.eventlog.events import DecisionMade
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Log

__all__ = ["Mismatch", "Replay", "replay"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A decision that does not come out as recorded."""

    seq: int
    decision_id: str
    what: str
    recorded: str
    derived: str


@dataclass(slots=True)
class Replay:
    """What a replay found."""

    events: int = 0
    decisions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    mismatches: list[Mismatch] = field(default_factory=list)
    fingerprint: str = ""

    @property
    def ok(self) -> bool:
        """Whether every decision came out as recorded."""
        return not self.mismatches


def replay(log: Log, *, exact: bool = True, progress: Callable[[int, int], None] | None = None) -> Replay:
    """Fold the log from its first event and derive every decision again.

    Parameters
    ----------
    log
        Where to read.
    exact
        Compare numbers bit for bit; otherwise to nine digits, for a log from another machine.
    progress
        Called with (done, total) now and then.
    """
    result, ledger = Replay(), Ledger()
    total = log.last()[0]
    for row in log.read():
        event = row.event()
        if isinstance(event, DecisionMade):
            result.decisions += 1
            found = [Mismatch(row.seq, event.id, *each) for each in _differences(ledger, event, exact)]
            result.mismatches += found
            if found:  # the state after a decision that differs is unknown
                break
        ledger.take(row)
        result.events += 1
        result.kinds[row.kind] += 1
        if progress is not None and row.seq % 1000 == 0:
            progress(row.seq, total)
    result.fingerprint = ledger.fingerprint() if ledger.configured else ""
    return result


def _differences(ledger: Ledger, event: DecisionMade, exact: bool) -> Iterator[tuple[str, str, str]]:
    derived, recorded = ledger.router.derive(event.task.task(), event.eligible), event.decision()
    for name in ("agent", "agents", "policy", "lambda_", "state_seq", "key"):
        a, b = getattr(recorded, name), getattr(derived, name)
        if a != b:
            yield name, str(a), str(b)
    t = derived.terms
    rows = (derived.propensities, t.estimate, t.exploration, t.distance, t.alignment, t.cost)
    names = ("propensities", "estimate", "exploration", "distance", "alignment", "cost")
    for name, a, b in zip(names, event.table(), rows, strict=True):
        if a.shape != b.shape or not (np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-9, atol=1e-12)):
            yield name, str(a), str(b)
