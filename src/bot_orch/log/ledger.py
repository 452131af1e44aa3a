"""State as a fold over the log: a ledger starts empty, applies events in order, and never reads a clock."""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from time import perf_counter
from typing import Any

import msgspec

from bot_orch.core.engine import ENGINE
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.state import CapturedState, State
from bot_orch.errors import BotOrchError, InvalidInputError, StateFormatError
from bot_orch.log.archive import whole
from bot_orch.log.events import (
    IMPORTED,
    SETTLING,
    AttemptEnded,
    Censored,
    Configured,
    Controlled,
    DecisionMade,
    EvaluationsGiven,
    Event,
    FeedbackGiven,
    Noted,
    TaskEnded,
    TaskSubmitted,
    measure_of,
)
from bot_orch.log.judgements import Judgements
from bot_orch.log.log import Log, Row, Snapshot
from bot_orch.log.reconfigure import reconfigured
from bot_orch.log.rollout import Rollout
from bot_orch.log.windows import Reservations, spending
from bot_orch.numerics.choice import draw
from bot_orch.rng import uniform
from bot_orch.types import Decision, Outcome

__all__ = [
    "UNFIT",
    "Ledger",
    "LedgerMismatchError",
    "drawn_agent",
    "encoded",
    "fingerprint",
    "fold",
    "snapshot_due",
    "take_all",
]

_log = logging.getLogger("bot_orch.log")
_FORMAT = "bot-orch-ledger@1"
_MAX_SESSIONS = 100_000
_REPORT_EVERY = 500
_SNAPSHOT_SHARE = 0.05  # of the time that events take
_LONGEST_S = 0.01  # of one event; what takes longer is something else, such as an import at first use
# what a damaged row that still decodes, to values that no service writes, may raise
UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class LedgerMismatchError(BotOrchError):
    """An event in the log does not follow from the events before it."""


class Ledger:
    """The state of the service, rebuilt from the log alone.

    ``pending`` maps the ids of decisions that wait for an outcome to their times, oldest first; which decisions are
    silent, provisional or wait for a second verdict, the orchestrator knows. ``answered`` holds how long the agents of
    pending decisions took to answer, where known. ``judged`` maps decisions to the judge whose reward counts, see
    :meth:`judge_of`; ``judgements`` counts what judges said.
    ``paid`` holds the dollars of attempts at pending decisions, by decision. ``reserved`` holds what is set aside for
    decisions until a completed attempt or an outcome says what they cost.
    ``engine`` is the one that the newest settings name. ``rollout`` says which agents are drained.
    ``folded_from`` is the number of the event whose snapshot it began with, 0 without one; ``restarted`` names the
    agents that the last event has started afresh; ``lessons`` is the number of outcomes that the last evaluations were
    taught as; ``spent_s`` are the seconds that events have taken so far. None of these is part of the state.
    """

    def __init__(self) -> None:
        self._router: Orchestrator | None = None
        self.pending: dict[str, int] = {}
        self.answered: dict[str, float] = {}
        self.early: dict[str, list[FeedbackGiven]] = {}
        self.judged: dict[str, str] = {}
        self.judgements = Judgements()
        self.sessions: dict[str, tuple[str, int]] = {}
        self.tasks: dict[str, TaskSubmitted] = {}
        self.spending = spending()
        self.paid: dict[str, float] = {}
        self.reserved = Reservations()
        self.kill_switch: str | None = None
        self.rollout = Rollout()
        self.engine = ""
        self.seq = 0
        self.time_us = 0
        self.folded_from = 0
        self.restarted: tuple[str, ...] = ()
        self.lessons = 0
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

    def apply(self, seq: int, time_us: int, event: Event, made: Decision | None = None) -> None:
        """Apply one event. ``made`` is the decision itself if this process has just made it."""
        begun = perf_counter()
        self._apply(seq, time_us, event, made)
        self.spent_s += min(perf_counter() - begun, _LONGEST_S)

    def _apply(self, seq: int, time_us: int, event: Event, made: Decision | None) -> None:
        before = self._restarts()
        match event:
            case DecisionMade():
                self._decide(time_us, event, made)
            case FeedbackGiven():
                self._feedback(time_us, event)
            case Censored():
                self._settle(event.decision_id, event.outcome(self.answered.get(event.decision_id)))
            case EvaluationsGiven():
                self.lessons = self.router.learn_from(event.evaluations(), most=event.most)
            case AttemptEnded():
                self.spending.add(time_us, event.cost_usd)
                if event.ending == "completed":
                    self.reserved.release(event.decision_id)
                    if event.decision_id in self.pending:
                        self.answered[event.decision_id] = event.elapsed_s
                if event.cost_usd and event.decision_id in self.pending:
                    self.paid[event.decision_id] = self.paid.get(event.decision_id, 0.0) + event.cost_usd
                if event.ending == "completed":
                    self._measure(event)
            case TaskSubmitted():
                self.tasks[event.id] = event
            case TaskEnded():
                self.tasks.pop(event.id, None)
            case Controlled():
                self.kill_switch = event.kill_switch
            case Configured():
                self._router, self.engine = reconfigured(self._router, event), event.engine
                self.judged = {key: judge for key, judge in self.judged.items() if self.router.is_provisional(key)}
            case Noted():
                self.rollout.take(time_us, event)
        self.seq, self.time_us = seq, time_us
        self.restarted = tuple(name for name, times in self._restarts().items() if times > before.get(name, times))

    def _restarts(self) -> dict[str, int]:
        """Number of restarts per agent, if alarms cause restarts."""
        if self._router is None or self._router.settings.on_alarm != "restart":
            return {}
        return self._router.restarts()

    def take(self, row: Row) -> None:
        """Apply one row of the log; rows must be consecutive."""
        if row.seq != self.seq + 1 or row.time_us <= self.time_us:
            raise LedgerMismatchError(f"log: row {row.seq} does not follow row {self.seq}; the file is damaged")
        event = row.event()
        try:
            self.apply(row.seq, row.time_us, event)
        except (LedgerMismatchError, StateFormatError) as error:
            raise type(error)(f"log: row {row.seq}: {str(error).removeprefix('log: ')}") from error
        except UNFIT as error:
            problem = f"cannot follow row {row.seq - 1} ({' '.join(str(error).split())})"
            raise LedgerMismatchError(f"log: row {row.seq}: {problem}; it is damaged (restore a backup)") from error

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
            "answered": dict(self.answered),
            "early": dict(self.early),
            "sessions": dict(self.sessions),
            "tasks": dict(self.tasks),
            "spending": self.spending.grains(self.time_us),
            "paid": dict(self.paid),
            "reserved": self.reserved.to_list(),
            "kill_switch": self.kill_switch,
            "seq": self.seq,
            "time_us": self.time_us,
            "judged": dict(self.judged),
            "judgements": self.judgements.to_list(),
            "rollout": self.rollout.to_dict(),
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
        ledger._router = Orchestrator.from_capture(CapturedState(head, State.from_dict(state, binary=True)))
        early = document["early"].items()
        ledger.early = {key: [msgspec.convert(each, FeedbackGiven) for each in kept] for key, kept in early}
        ledger.sessions = {key: tuple(entry) for key, entry in document["sessions"].items()}
        ledger.tasks = {key: msgspec.convert(each, TaskSubmitted) for key, each in document["tasks"].items()}
        ledger.judgements = Judgements.from_list(document["judgements"])
        ledger.reserved = Reservations(document["reserved"])
        ledger.spending = spending(document["spending"])
        ledger.rollout = Rollout.from_dict(document["rollout"])
        for name in ("engine", "pending", "answered", "judged", "paid", "kill_switch", "seq", "time_us"):
            setattr(ledger, name, document[name])
        ledger.folded_from = ledger.seq
        return ledger

    def _decide(self, time_us: int, event: DecisionMade, made: Decision | None) -> None:
        decision = made or event.decision()
        if made is None:
            _check_draw(event, self.router)
        try:
            self.router.commit(decision, event.given(), event.eligible)
        except InvalidInputError as error:
            raise LedgerMismatchError(f"decision {event.id}: {error}; the log was changed") from error
        self.pending[event.id] = time_us
        if event.audit and event.action == "ask":
            self.judgements.mark(event.id, event.agent)
        if event.reserved_usd:
            self.reserved.hold(event.id, time_us, event.reserved_usd, brief=event.briefly)
        if self.router.settings.horizon is not None:
            self._drop_expired()
        if event.session is not None:
            self.sessions.pop(event.session, None)  # the newest goes last
            self.sessions[event.session] = (event.agent, time_us)
            if len(self.sessions) > _MAX_SESSIONS:
                del self.sessions[next(iter(self.sessions))]
        for feedback in self.early.pop(event.id, ())[:1]:
            with suppress(InvalidInputError):  # it could not be checked when it came; the decision waits for another
                self._settle(event.id, feedback.outcome(), feedback)

    def _feedback(self, time_us: int, event: FeedbackGiven) -> None:
        of_round = self.router.round_of(event.decision_id)
        if event.effect == "early":
            self.early.setdefault(event.decision_id, []).append(event)
        elif event.effect in SETTLING:
            self._settle(event.decision_id, event.outcome(), event)
        elif event.effect == "replaced":
            self._replace(event)
        elif event.effect == "audited":
            self._audit(event)
        elif event.effect == "shown" and event.output is not None:
            self._check_pending(event.decision_id)
            self.router.observe_output(event.decision_id, measure_of(event.output))
        if event.reward is not None and (event.judge or event.audit):
            self.judgements.take(msgspec.structs.replace(event, decision_id=of_round[0]) if of_round else event)
        self.spending.add(time_us, event.cost_usd or 0.0)  # last: a refused report costs nothing

    def _measure(self, event: AttemptEnded) -> None:
        """Learn dollars and times of an answer at once, without waiting for its reward."""
        if event.decision_id not in self.pending or event.decision_id in self.router.used:
            return
        self.router.observe_usage(
            event.decision_id,
            cost_usd=self.paid.get(event.decision_id),
            elapsed_s=event.elapsed_s,
            first_token_s=event.first_byte_s,
        )

    def judge_of(self, decision_id: str) -> str | None:
        """The judge whose reward counts, while another judge's may still replace it."""
        return self.judged.get(decision_id) if self._router and self._router.is_provisional(decision_id) else None

    def _check_pending(self, decision_id: str) -> None:
        if decision_id not in self.pending:
            raise LedgerMismatchError(f"decision {decision_id} is not pending")

    def _settle(self, decision_id: str, outcome: Outcome, report: FeedbackGiven | None = None) -> None:
        self._check_pending(decision_id)
        paid = self.paid.get(decision_id)
        if paid is not None:
            outcome = replace(outcome, cost_usd=paid + (outcome.cost_usd or 0.0))
        of_round = self.router.round_of(decision_id)
        self._observe(decision_id, outcome, report, learner=of_round[0] if of_round else decision_id)
        for asked in of_round:  # the decision that accepted stands for those that asked
            if asked in self.pending:
                self.paid.pop(asked, None)
                self._end(asked)
        self.paid.pop(decision_id, None)
        self._end(decision_id)

    def _end(self, decision_id: str) -> None:
        """A decision waits for an outcome no longer."""
        del self.pending[decision_id]
        self.answered.pop(decision_id, None)
        self.reserved.release(decision_id)

    def _observe(self, decision_id: str, outcome: Outcome, report: FeedbackGiven | None, *, learner: str = "") -> None:
        """Learn an outcome; ``learner`` is the decision that learns it, if that is another one of its round."""
        learner = learner or decision_id
        if report is None:
            self.router.observe(decision_id, outcome)
            return
        judge = report.judge
        self.router.observe(decision_id, outcome, audit=report.audit, provisional=bool(judge), default=report.default)
        self.judged.pop(learner, None)
        if self.router.is_provisional(learner):
            self.judged[learner] = judge
            while not self.router.is_provisional(oldest := next(iter(self.judged))):
                del self.judged[oldest]

    def _replace(self, event: FeedbackGiven) -> None:
        if not (self.router.is_silent(event.decision_id) or self.router.is_provisional(event.decision_id)):
            raise LedgerMismatchError(f"decision {event.decision_id} is not silent")
        self._observe(event.decision_id, event.outcome(), event)

    def _drop_expired(self) -> None:
        """Forget the oldest pending decisions that the orchestrator has dropped."""
        for decision_id in list(takewhile(lambda each: not self.router.is_pending(each), self.pending)):
            self._end(decision_id)

    def _audit(self, event: FeedbackGiven) -> None:
        if event.decision_id not in self.router.verdicts:
            raise LedgerMismatchError(f"decision {event.decision_id} waits for no second verdict")
        self.router.observe(event.decision_id, event.outcome(), audit=event.audit)


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
    base = log.base()
    for snapshot in filter(None, (log.snapshot(), base)):
        if upto is not None and snapshot.seq > upto:
            continue
        try:
            ledger = Ledger.load(snapshot)
            row = log.row(snapshot.seq)
            if (row is None) is not (snapshot == base) or (row and row.time_us != ledger.time_us):
                raise StateFormatError("snapshot: is not of this log")
        except StateFormatError as error:
            _log.warning("snapshot passed over", extra={"fields": {"seq": snapshot.seq, "detail": str(error)}})
        else:
            return ledger
    return Ledger()


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
    return msgspec.msgpack.encode({**captured, "router": (head, state.to_dict(binary=True))})


def drawn_agent(event: DecisionMade) -> str:
    """The agent that the recorded probabilities and random key draw."""
    _check_own(event)
    return event.agents[int(draw(event.column("propensity"), uniform(event.stream, event.counter)))]


def _check_draw(event: DecisionMade, router: Orchestrator) -> None:
    """Check that a recorded decision's agent is the one drawn by its propensities and key.

    That needs no engine, so a changed row is found in a log of any release.
    """
    _check_own(event)
    if event.stream != router.stream:
        raise LedgerMismatchError(f"decision {event.id} was drawn with another seed; the log was changed")
    drawn = drawn_agent(event)
    if drawn != event.agent:
        raise LedgerMismatchError(
            f"decision {event.id} chose {event.agent!r}, its probabilities and random key draw {drawn!r}; "
            "the log was changed"
        )


def _check_own(event: DecisionMade) -> None:
    if event.engine == IMPORTED:
        raise LedgerMismatchError(
            f"decision {event.id} was imported from another router, and can be neither derived again nor served; "
            "use evaluate, export or a warm start"
        )
