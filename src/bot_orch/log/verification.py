"""Verify a log by replay: rebuild the state, derive every decision again and compare it with the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.engine import ENGINE
from bot_orch.core.events import ERASED, DecisionMade, Event, EventMismatchError, Noted
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.ledger import UNFIT, Ledger, erasure
from bot_orch.log.log import Log, Row
from bot_orch.types import Decision


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A decision that differs from its record."""

    seq: int
    decision_id: str
    what: str
    _: KW_ONLY
    recorded: str
    derived: str


@dataclass(slots=True)
class Stretch:
    """Consecutive decisions that this engine cannot derive because another one made them."""

    first: int
    last: int
    engine: str
    _: KW_ONLY
    decisions: int

    @property
    def why(self) -> str:
        """Why these decisions were not derived, as one sentence."""
        if self.engine == ERASED:
            return (
                f"events {self.first} to {self.last}: {self.decisions} decisions were erased, or made before the note "
                "of an erasure after one that was; agent, probabilities and random key were checked"
            )
        return (
            f"events {self.first} to {self.last}: {self.decisions} decisions were made by engine {self.engine}, this "
            f"release has engine {ENGINE}; agent, probabilities and random key were checked, terms were not derived"
        )


@dataclass(slots=True)
class Verification:
    """The result of verifying a log by replay, of the ``total`` events behind the event ``begin``."""

    events: int = 0
    total: int = 0
    begin: int = 0
    decisions: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    _: KW_ONLY
    mismatches: list[Mismatch] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    fingerprint: str = ""

    @property
    def ok(self) -> bool:
        """Whether every row was readable and every decision was reproduced."""
        return not self.mismatches and not self.damaged

    @property
    def derived(self) -> int:
        """Number of decisions that were derived again."""
        return self.decisions - sum(stretch.decisions for stretch in self.stretches)


def replay(log: Log, *, exact: bool = True, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Fold the log from its first event and derive every decision again that this engine made.

    A log whose beginning is in an archive is folded from the state that the archive ends with; to verify all of it,
    pass it together with its archive (:func:`bot_orch.log.archive.whole`).

    Parameters
    ----------
    log
        Where to read.
    exact
        Compare numbers bit for bit; otherwise to six digits, for a log from another machine: learned arrays have single
        precision, and processors round them differently.
    progress
        Called with (done, total) from time to time.
    """
    result, ledger = Verification(), _base(log)
    result.begin = ledger.seq
    result.total = log.last()[0] - ledger.seq
    rows = log.read(ledger.seq)
    try:
        _derive_all(result, ledger, rows, erased=_erased(log), exact=exact, progress=progress)
    except (EventMismatchError, StateFormatError) as error:
        result.damaged = [str(error), *_unreadable(rows)]
    result.fingerprint = ledger.fingerprint() if ledger.configured else ""
    return result


def _base(log: Log) -> Ledger:
    """The state before the first event of the log."""
    base = log.base()
    if base is None:
        return Ledger()
    try:
        return Ledger.load(base)
    except StateFormatError as error:
        problem = f"begins after event {base.seq} with the state of another release"
        raise InvalidInputError("log", problem, "pass its archive, too (--archive FOLDER)") from error


def _unreadable(rows: Iterable[Row]) -> Iterator[str]:
    """The error of each unreadable row."""
    for row in rows:
        try:
            row.event()
        except StateFormatError as error:
            yield str(error)


def _derive_all(
    result: Verification,
    ledger: Ledger,
    rows: Iterable[Row],
    *,
    erased: range,
    exact: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    engine = ENGINE
    for row in rows:
        event = row.event()
        if row.seq in erased:  # the state that these follow from is not known
            result.mismatches += _drawn(result, row, event)
        elif isinstance(event, DecisionMade):
            result.decisions += 1
            if event.engine != ENGINE:
                _pass_over(result.stretches, row.seq, event.engine, goes_on=engine == event.engine)
            engine = event.engine
            found = [
                Mismatch(row.seq, event.id, what, recorded=recorded, derived=derived)
                for what, recorded, derived in _compared(ledger, row, event, exact=exact)
            ]
            result.mismatches += found or _unfit(ledger, row, event)
            if result.mismatches:  # the state after a decision that differs is unknown
                return
        elif row.seq == erased.stop and erased:
            ledger.apply(row.seq, row.time_us, event)
        else:
            ledger.take(row)
        result.events += 1
        result.kinds[row.kind] += 1
        if progress is not None and row.seq % 1000 == 0:
            progress(row.seq - result.begin, result.total)


def _erased(log: Log) -> range:
    """Events from the first erased decision up to the note with the state as learned; no event without one."""
    found = erasure(log)
    event = None if found is None else found[0].event()
    return range(int(event.data["first"]), found[0].seq) if found and isinstance(event, Noted) else range(0)


def _drawn(result: Verification, row: Row, event: Event) -> list[Mismatch]:
    """Check a decision that cannot be derived: its agent against its probabilities and random key."""
    if not isinstance(event, DecisionMade):
        return []
    result.decisions += 1
    goes_on = bool(result.stretches) and result.stretches[-1].engine == ERASED
    _pass_over(result.stretches, row.seq, ERASED, goes_on=goes_on)
    drawn = event.drawn()
    return [] if drawn == event.agent else [Mismatch(row.seq, event.id, "agent", recorded=event.agent, derived=drawn)]


def _pass_over(stretches: list[Stretch], seq: int, engine: str, *, goes_on: bool) -> None:
    """Add a decision of another engine."""
    if goes_on and stretches:
        stretches[-1].last, stretches[-1].decisions = seq, stretches[-1].decisions + 1
    else:
        stretches.append(Stretch(seq, seq, engine, decisions=1))


def _unfit(ledger: Ledger, row: Row, event: DecisionMade) -> list[Mismatch]:
    """Apply a decision; returns mismatches if it cannot follow: another seed, other agents, another number."""
    try:
        ledger.take(row)
    except EventMismatchError as error:
        key = f"{event.stream:x}-{event.counter}"
        return [Mismatch(row.seq, event.id, "place in the log", recorded=key, derived=str(error))]
    return []


def _compared(ledger: Ledger, row: Row, event: DecisionMade, *, exact: bool) -> list[tuple[str, str, str]]:
    """Differences between a recorded and a derived decision; raises an error naming the row if it is invalid."""
    try:
        return list(_differences(ledger, event, exact))
    except UNFIT as error:
        problem = f"holds no decision that can be derived ({' '.join(str(error).split())})"
        raise EventMismatchError(f"log: row {row.seq}: {problem}; it is damaged (restore a backup)") from error


def _differences(ledger: Ledger, event: DecisionMade, exact: bool) -> Iterator[tuple[str, str, str]]:
    if event.engine == ENGINE:
        yield from _derived(ledger, event, exact)
    elif (drawn := event.drawn()) != event.agent:
        yield "agent", event.agent, drawn


def _derived(ledger: Ledger, event: DecisionMade, exact: bool) -> Iterator[tuple[str, str, str]]:
    recorded = event.decision()
    step: dict[str, Any] = {"seen": recorded.answers, "attempts": recorded.attempts}
    derived = ledger.router.prepare(event.given(), event.eligible, caps=event.caps, **step)
    for name in ("agent", "agents", "policy", "state_seq", "key", "audit", "audit_probability", "action"):
        a, b = getattr(recorded, name), getattr(derived, name)
        if a != b:
            yield name, str(a), str(b)
    theirs = _numbers(derived)
    for name, values in _numbers(recorded).items():
        other = theirs.get(name, np.zeros(0))
        close = np.array_equal if exact else partial(np.allclose, rtol=1e-6, atol=1e-6)
        if values.shape != other.shape or not close(values, other):
            yield name, str(values), str(other)


def _numbers(decision: Decision) -> dict[str, Floats]:
    return {"lambda_": np.asarray(decision.lambda_), **decision.columns()}
