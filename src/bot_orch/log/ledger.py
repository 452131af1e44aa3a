"""State as a fold over the log: a ledger starts empty, applies events in order, and never reads a clock."""

from __future__ import annotations

import base64
import hashlib
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any

import msgspec

from bot_orch.core.engine import ENGINE
from bot_orch.core.events import (
    ERASED,
    MODEL,
    AttemptEnded,
    Configured,
    Controlled,
    DecisionMade,
    Event,
    EventMismatchError,
    FeedbackGiven,
    Noted,
    TaskEnded,
    TaskSubmitted,
)
from bot_orch.core.orchestrator import Applied, Orchestrator
from bot_orch.core.settings import Settings, carried_over
from bot_orch.core.state import CapturedState, State, agent_to_dict
from bot_orch.core.warm import WarmStart
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.archive import whole
from bot_orch.log.judgements import Judgements
from bot_orch.log.log import Log, Row, Snapshot
from bot_orch.log.rollout import Rollout
from bot_orch.log.windows import Reservations, spending
from bot_orch.recent import Newest
from bot_orch.types import Decision, Outcome

_log = logging.getLogger("bot_orch.log")
_FORMAT = "bot-orch-ledger@2"
_MAX_SESSIONS = 100_000
_REPORT_EVERY = 500
_SNAPSHOT_SHARE = 0.05  # of the time that events take
_LONGEST_S = 0.01  # of one event; what takes longer is something else, such as an import at first use
# what a damaged row that still decodes, to values that no service writes, may raise
UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class Ledger:
    """The state of a service, rebuilt from its log alone: an orchestrator, and a fold of what is the service's own.

    :meth:`bot_orch.Orchestrator.apply` folds what decides and learns. ``pending`` maps pending decisions to their
    times, oldest first. ``reserved`` holds what is set aside for decisions until a completed attempt or an outcome says
    what they cost; ``judgements`` counts what judges said. ``engine`` is the one that the newest settings name.
    ``rollout`` says which agents are drained.
    ``folded_from`` is the number of the event whose snapshot it began with, 0 without one; ``applied`` is what the last
    event has changed; ``spent_s`` are the seconds that events have taken so far. None of these is part of the state.
    """

    def __init__(self) -> None:
        self._router: Orchestrator | None = None
        self.pending: dict[str, int] = {}
        self.judgements = Judgements()
        self.sessions = Newest[str, tuple[str, int]](_MAX_SESSIONS)
        self.tasks: dict[str, TaskSubmitted] = {}
        self.spending = spending()
        self.reserved = Reservations()
        self.kill_switch: str | None = None
        self.rollout = Rollout()
        self.engine = ""
        self.seq = 0
        self.time_us = 0
        self.folded_from = 0
        self.applied = Applied()
        self.spent_s = 0.0

    @property
    def router(self) -> Orchestrator:
        """The orchestrator; available once the log contains its settings."""
        if self._router is None:
            raise StateFormatError("log: holds no settings; it was never opened by the service")
        return self._router

    @property
    def configured(self) -> bool:
        """Whether there is an orchestrator."""
        return self._router is not None

    def apply(self, seq: int, time_us: int, event: Event, made: Decision | Outcome | None = None) -> None:
        """Apply one event; see :meth:`bot_orch.Orchestrator.apply`. One that is refused is not accounted for."""
        begun = perf_counter()
        if isinstance(event, Noted) and event.topic == ERASED:
            self._restore(event)
        elif isinstance(event, Configured):
            self._configure(event)
        elif isinstance(event, TaskSubmitted | TaskEnded | Controlled) or (
            isinstance(event, Noted) and event.topic != MODEL
        ):
            self.applied = Applied()
        else:
            self.applied = self._learned(event, made)
        self._account(time_us, event)
        self.seq, self.time_us = seq, time_us
        self.spent_s += min(perf_counter() - begun, _LONGEST_S)

    def _restore(self, event: Noted) -> None:
        """Go on from the state that an erasure kept, unless another engine wrote it."""
        kept = kept_by(event)
        if kept is not None:
            kept.spent_s, kept.folded_from = self.spent_s, self.folded_from
            self.__dict__.update(kept.__dict__)
        self.applied = Applied()

    def forget(self, decisions: Mapping[str, int], names: Set[str]) -> None:
        """Remove ended decisions, given with their rounds, and names of sessions."""
        for name in names & self.sessions.keys():
            del self.sessions[name]
        if self._router is not None:
            captured = self._router.capture()
            captured.state.forget(decisions)
            self._router = Orchestrator.from_capture(captured)

    def _configure(self, event: Configured) -> None:
        if self._router is None:
            self._router, self.applied = Orchestrator.from_json(event.document), Applied()
        else:
            self.applied = self._router.apply(event)
        self.engine = event.engine

    def _learned(self, event: Event, made: Decision | Outcome | None) -> Applied:
        try:
            return self.router.apply(event, made=made)
        except InvalidInputError as error:
            if not isinstance(event, DecisionMade):
                raise
            raise EventMismatchError(f"decision {event.id}: {error}; the log was changed") from error

    def _account(self, time_us: int, event: Event) -> None:
        """The service's own part of an event."""
        match event:
            case DecisionMade():
                self._note_decision(time_us, event)
            case FeedbackGiven():
                if event.reward is not None and (event.judge or event.audit):
                    self.judgements.take(replace(event, decision_id=self.applied.learner or event.decision_id))
                self.spending.add(time_us, event.cost_usd or 0.0)
            case AttemptEnded():
                self.spending.add(time_us, event.cost_usd)
                if event.ending == "completed":
                    self.reserved.release(event.decision_id)
            case TaskSubmitted():
                self.tasks[event.id] = event
            case TaskEnded():
                self.tasks.pop(event.id, None)
            case Controlled():
                self.kill_switch = event.kill_switch
            case Noted():
                self.rollout.take(time_us, event)
        for decision_id in self.applied.ended:
            self.pending.pop(decision_id, None)
            self.reserved.release(decision_id)

    def _note_decision(self, time_us: int, event: DecisionMade) -> None:
        self.pending[event.id] = time_us
        if event.audit and event.action == "ask":
            self.judgements.mark(event.id, event.agent)
        if event.reserved_usd:
            self.reserved.hold(event.id, time_us, event.reserved_usd, brief=event.briefly)
        if event.session is not None:
            self.sessions[event.session] = (event.agent, time_us)

    def take(self, row: Row) -> None:
        """Apply one row of the log; rows must be consecutive."""
        if row.seq != self.seq + 1 or row.time_us <= self.time_us:
            raise EventMismatchError(f"log: row {row.seq} does not follow row {self.seq}; the file is damaged")
        event = row.event()
        try:
            self.apply(row.seq, row.time_us, event)
        except (EventMismatchError, StateFormatError) as error:
            raise type(error)(f"log: row {row.seq}: {str(error).removeprefix('log: ')}") from error
        except UNFIT as error:
            problem = f"cannot follow row {row.seq - 1} ({' '.join(str(error).split())})"
            raise EventMismatchError(f"log: row {row.seq}: {problem}; it is damaged (restore a backup)") from error

    def fingerprint(self) -> str:
        """A hash of everything, equal for equal ledgers."""
        return fingerprint(self.capture())

    def snapshot(self) -> Snapshot:
        """The state as of now, to save with the log."""
        return Snapshot(self.seq, encoded(self.capture()))

    def capture(self) -> dict[str, Any]:
        """An immutable copy of the state for :func:`encoded`."""
        return {
            "format": _FORMAT,
            "derived_by": ENGINE,
            "engine": self.engine,
            "router": self.router.capture(),
            "pending": dict(self.pending),
            "sessions": dict(self.sessions),
            "tasks": dict(self.tasks),
            "spending": self.spending.grains(self.time_us),
            "reserved": self.reserved.to_list(),
            "kill_switch": self.kill_switch,
            "seq": self.seq,
            "time_us": self.time_us,
            "judgements": self.judgements.to_list(),
            "rollout": asdict(self.rollout),
        }

    @classmethod
    def load(cls, snapshot: Snapshot) -> Ledger:
        """Restore the state from a snapshot; raises ``StateFormatError`` if it is unreadable."""
        try:
            return cls._of(msgspec.msgpack.decode(zlib.decompress(snapshot.body)))
        except StateFormatError:
            raise
        except (zlib.error, msgspec.DecodeError, *UNFIT) as error:
            raise StateFormatError(f"snapshot: is damaged ({error}); delete it") from error

    @classmethod
    def _of(cls, document: dict[str, Any]) -> Ledger:
        if document["format"] != _FORMAT or document["derived_by"] != ENGINE:
            raise StateFormatError(f"snapshot.format: is {document['format']}, of engine {document['derived_by']}")
        ledger, (head, state) = cls(), document["router"]
        ledger._router = Orchestrator.from_capture(CapturedState(head, State.from_dict(state)))
        for key, entry in document["sessions"].items():
            ledger.sessions[key] = tuple(entry)
        ledger.tasks = {key: msgspec.convert(each, TaskSubmitted) for key, each in document["tasks"].items()}
        ledger.judgements = Judgements.from_list(document["judgements"])
        ledger.reserved = Reservations(document["reserved"])
        ledger.spending = spending(document["spending"])
        ledger.rollout = Rollout(**document["rollout"])
        for name in ("engine", "pending", "kill_switch", "seq", "time_us"):
            setattr(ledger, name, document[name])
        ledger.folded_from = ledger.seq
        return ledger


def kept_by(event: Noted) -> Ledger | None:
    """The state in the note of an erasure; None if a later one has emptied it, or another engine wrote it."""
    try:
        return Ledger.load(Snapshot(0, base64.b85decode(event.data["state"]))) if event.data["state"] else None
    except StateFormatError:
        return None


def erasure(log: Log) -> tuple[Row, Ledger] | None:
    """The last note of an erasure, with its state if this engine can go on from it."""
    for row in reversed(log.about(ERASED)):
        event = row.event()
        kept = kept_by(event) if isinstance(event, Noted) and event.topic == ERASED else None
        if kept is not None:
            kept.seq, kept.time_us = row.seq, row.time_us
            return row, kept
    return None


def fold(
    log: Log,
    *,
    upto: int | None = None,
    use_snapshot: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Ledger:
    """The ledger after the last event of the log, or after the event ``upto``.

    ``progress`` is called with (done, total) from time to time.
    """
    ledger = _start(log, upto) if use_snapshot else Ledger()
    record = log.archived()
    rows = (log if record is None or ledger.seq >= record.seq else whole(log)).read(ledger.seq)
    take_all(ledger, rows if progress is None else _reported(rows, ledger.seq, log.last()[0], progress), upto)
    return ledger


def _reported(rows: Iterable[Row], done: int, total: int, progress: Callable[[int, int], None]) -> Iterator[Row]:
    progress(done, total)
    for row in rows:
        yield row
        if row.seq % _REPORT_EVERY == 0:
            progress(row.seq, total)


def take_all(ledger: Ledger, rows: Iterable[Row], upto: int | None = None) -> None:
    """Apply the rows of a log that a ledger has not seen."""
    for row in rows:
        if upto is not None and row.seq > upto:
            return
        ledger.take(row)


def _start(log: Log, upto: int | None) -> Ledger:
    """Start from the snapshot, or from the state at the end of the archive, if readable.

    One that another release wrote is passed over: its engine may have learned differently. So is one of another log.
    """
    base, found = log.base(), erasure(log)
    if found is not None and upto is not None and found[0].seq > upto:
        found = None
    for snapshot in filter(None, (log.snapshot(), base)):
        if upto is not None and snapshot.seq > upto:
            continue
        if found is not None and snapshot.seq < found[0].seq:
            break
        try:
            ledger = Ledger.load(snapshot)
            row = log.row(snapshot.seq)
            if (row is None) is not (snapshot == base) or (row and row.time_us != ledger.time_us):
                raise StateFormatError("snapshot: is not of this log")
        except StateFormatError as error:
            _log.warning("snapshot passed over", extra={"fields": {"seq": snapshot.seq, "detail": str(error)}})
        else:
            return ledger
    return Ledger() if found is None else found[1]


def snapshot_due(ledger: Ledger, saved_seq: int, *, every: int, tail_s: float, cost_s: float) -> bool:
    """Whether a snapshot is due; ``saved_seq`` is the last event of the previous one, ``cost_s`` its duration.

    It is time after ``every`` events. It is time before that once folding the events since the last one would take
    ``tail_s``, if that is 20 times the cost: snapshots take 5 % of the time that events take.
    """
    events, taken = ledger.seq - saved_seq, ledger.seq - ledger.folded_from
    if not ledger.configured or events <= 0:
        return False
    to_fold_s = events * ledger.spent_s / taken if taken > 0 else 0.0
    return events >= every or to_fold_s >= max(tail_s, cost_s / _SNAPSHOT_SHARE)


def encoded(captured: dict[str, Any]) -> bytes:
    """The body of a snapshot; may run in a thread."""
    return zlib.compress(_plain(captured), 1)


def fingerprint(captured: dict[str, Any]) -> str:
    """A hash of a captured state; may run in a thread."""
    return hashlib.blake2b(_plain(captured), digest_size=16).hexdigest()


def _plain(captured: dict[str, Any]) -> bytes:
    head, state = captured["router"]
    return msgspec.msgpack.encode({**captured, "router": (head, state.to_dict())})


def change_to(router: Orchestrator | None, wanted: Orchestrator, engine: str = ENGINE) -> Configured | None:
    """The event that changes ``router`` to the settings of ``wanted``; ``None`` if nothing changes.

    ``engine`` is the one that the log names so far; a newer one is written down too.
    """
    if router is None:
        return Configured(wanted.to_json(), engine=ENGINE)
    old, new = router.settings, _completed(wanted.settings, router)
    if old.spec() == new.spec() and _by_id(router) == _by_id(wanted) and engine == ENGINE:  # measures have no equality
        return None
    document = Orchestrator.from_settings(new, wanted.members).to_json()
    return Configured(document, keep_learned=old.learned_under() == new.learned_under(), engine=ENGINE)


def _by_id(router: Orchestrator) -> dict[str, Any]:
    return {agent.id: agent_to_dict(agent) for agent in router.members}


def _completed(settings: Settings, router: Orchestrator) -> Settings:
    """Settings completed by what the router inferred from its first task and measure."""
    settings = carried_over(settings, router.settings)
    if isinstance(router.policy, WarmStart) and router.policy.policy == settings.policy:
        settings = replace(settings, policy=router.policy)  # a warm start is learned, not configured
    if settings.alignment is not None or router.alignment is None:
        return settings
    return replace(settings, alignment=replace(router.alignment, units=settings.chosen_units()))
