"""State is a fold over the log: a ledger starts empty, takes one event after another, and never asks for the time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from time import perf_counter
from typing import Any

import msgspec

from bot_orch.core.capture import CapturedState
from bot_orch.core.engine import ENGINE
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.errors import BotOrchError, InvalidInputError, StateFormatError
from bot_orch.log.archive.record import archived, base_of
from bot_orch.log.archive.whole import whole
from bot_orch.log.capture import CapturedLedger, Entries, decompressed, digest, run_slices
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
    decode_event,
    encode_event,
    measure_of,
)
from bot_orch.log.judgements import Judgements
from bot_orch.log.log import Log, PieceStore, Row, Snapshot
from bot_orch.log.reconfigure import reconfigured
from bot_orch.log.reservations import Reservations
from bot_orch.log.rollout import Rollout
from bot_orch.log.snapshots.cut import Increments
from bot_orch.log.snapshots.folder import PieceFolder
from bot_orch.log.snapshots.manifest import Manifest, manifest_of
from bot_orch.log.snapshots.restore import restored
from bot_orch.log.spending import Spending
from bot_orch.numerics.choice import draw
from bot_orch.rng import uniform
from bot_orch.types import Decision, Outcome

__all__ = ["UNFIT", "Ledger", "LedgerMismatchError", "drawn_agent", "fold", "take_all"]

_log = logging.getLogger("bot_orch.log")
_FORMAT = "bot-orch-ledger@2"
_MAX_SESSIONS = 100_000
_REPORT_EVERY = 500
_LONGEST_S = 0.01  # of one event; what takes longer is something else, such as an import at first use
# what a damaged row that still decodes, to values that no service writes, may raise
UNFIT = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


class LedgerMismatchError(BotOrchError):
    """An event in the log does not follow from the events before it."""


class Ledger:
    """The state of the service, rebuilt from the log alone.

    ``pending`` maps the ids of decisions that wait for an outcome to (the orchestrator's id, time), oldest first.
    ``silent`` maps those of recent decisions that ended without a reward to the orchestrator's id: a reward may still
    replace the silence. ``answered`` holds how long the agents of pending decisions took to answer, where known.
    ``audits`` maps the ids of audited decisions that wait for their second verdict to the orchestrator's id.
    ``judged`` maps those whose reward a judge of higher rank may replace to (the orchestrator's id, the judge);
    ``judgements`` counts what judges said.
    ``paid`` holds the dollars of attempts at pending decisions, by decision. ``reserved`` holds what is set aside for
    decisions until a completed attempt or an outcome says what they cost.
    ``engine`` is the one that the newest settings name. ``rollout`` says which agents are drained or on trial.
    ``folded_from`` is the number of the event whose snapshot it began with, 0 without one, ``seen_seq`` that of the
    newest snapshot there was, which may have been passed over; ``restarted`` names the
    agents that the last event has started afresh; ``lessons`` is the number of outcomes that the last evaluations were
    taught as; ``spent_s`` are the seconds that events have taken so far; ``increments`` knows which pieces of the state
    were saved. None of these is part of the state.
    """

    def __init__(self) -> None:
        self._router: Orchestrator | None = None
        self.pending: dict[str, tuple[str, int]] = {}
        self.silent: dict[str, str] = {}
        self.answered: dict[str, float] = {}
        self.early: dict[str, list[FeedbackGiven]] = {}
        self.audits: dict[str, str] = {}
        self.judged: dict[str, tuple[str, str]] = {}
        self.judgements = Judgements()
        self.sessions: dict[str, tuple[str, int]] = {}
        self.tasks: dict[str, bytes] = {}
        self.spending = Spending()
        self.paid: dict[str, float] = {}
        self.reserved = Reservations()
        self.kill_switch: str | None = None
        self.rollout = Rollout()
        self.engine = ""
        self.seq = 0
        self.time_us = 0
        self.folded_from = self.seen_seq = 0
        self.restarted: tuple[str, ...] = ()
        self.lessons = 0
        self.spent_s = 0.0
        self.increments = Increments()

    @property
    def router(self) -> Orchestrator:
        """The orchestrator; there is one once the log holds its settings."""
        if self._router is None:
            raise StateFormatError("log: holds no settings; it was never opened by the service")
        return self._router

    @property
    def configured(self) -> bool:
        """Whether there is an orchestrator."""
        return self._router is not None

    def apply(self, seq: int, time_us: int, event: Event, made: Decision | None = None) -> None:
        """Take one event. ``made`` is the decision itself where this process has just made it."""
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
                self.tasks[event.id] = encode_event(event)
            case TaskEnded():
                self.tasks.pop(event.id, None)
            case Controlled():
                self.kill_switch = event.kill_switch
            case Configured():
                self._router, self.engine = reconfigured(self._router, event), event.engine
                self._forget_silences()
                self.judged = {key: kept for key, kept in self.judged.items() if self.router.is_provisional(kept[0])}
            case Noted():
                self.rollout.take(time_us, event)
        self.seq, self.time_us = seq, time_us
        self.restarted = tuple(name for name, times in self._restarts().items() if times > before.get(name, times))

    def _restarts(self) -> dict[str, int]:
        """How often agents were started afresh, if alarms do that."""
        if self._router is None or self._router.settings.on_alarm != "restart":
            return {}
        return self._router.restarts()

    def take(self, row: Row) -> None:
        """Take one row of the log; rows must come without gaps."""
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
        return digest(self.to_bytes())

    def to_bytes(self) -> bytes:
        """One versioned document, bit for bit."""
        return run_slices(self.capture().slices())

    def capture(self) -> CapturedLedger:
        """A copy as of now, which can be encoded later: its slices give :meth:`to_bytes`."""
        before = {"format": _FORMAT, "derived_by": ENGINE, "engine": self.engine}
        after = {
            "pending": Entries(dict(self.pending), flat=True),
            "silent": Entries(dict(self.silent)),
            "answered": Entries(dict(self.answered)),
            "early": {key: [encode_event(each) for each in kept] for key, kept in sorted(self.early.items())},
            "sessions": Entries(dict(self.sessions), flat=True),
            "tasks": Entries(dict(self.tasks)),
            "spending": self.spending.to_list(),
            **({"paid": Entries(dict(self.paid), mapped=True)} if self.paid else {}),
            **({"reserved": Entries(self.reserved.held(), flat=True)} if self.reserved else {}),
            "kill_switch": self.kill_switch,
            "seq": self.seq,
            "time_us": self.time_us,
            **({"audits": Entries(dict(self.audits))} if self.audits else {}),
            **({"judged": Entries(dict(self.judged), flat=True)} if self.judged else {}),
            **({"judgements": self.judgements.to_list()} if self.judgements else {}),
            **({"rollout": self.rollout.to_dict()} if self.rollout else {}),
        }
        return CapturedLedger(before, self.router.capture(), after, seq=self.seq)

    @classmethod
    def from_bytes(cls, body: bytes) -> Ledger:
        """The inverse of :meth:`to_bytes`."""
        try:
            document = decompressed(msgspec.msgpack.decode(body))
        except msgspec.DecodeError as error:
            raise StateFormatError(f"snapshot: is damaged ({error}); delete the snapshot") from error
        _check_format(document)
        return cls._of(document, Orchestrator.from_json(document["router"]))

    @classmethod
    def from_capture(cls, captured: CapturedLedger) -> Ledger:
        """A ledger of its own in the captured state, which stays as it is: nothing is encoded, so this is quick."""
        given = (*captured.before.items(), *captured.after.items())
        document = {name: value.plain() if isinstance(value, Entries) else value for name, value in given}
        head, state = json.loads(json.dumps(captured.router.head)), captured.router.state.copied()
        return cls._of(document, Orchestrator.from_capture(CapturedState(head, state)))

    @classmethod
    def load(cls, snapshot: Snapshot, log: Log) -> Ledger:
        """The state that a snapshot of ``log`` holds; raises ``StateFormatError`` if it cannot be read."""
        manifest = manifest_of(snapshot.body)
        if manifest is None:
            return cls.from_bytes(snapshot.body)
        elsewhere = (log.folder or PieceFolder(manifest.folder)) if manifest.folder else None
        return cls.from_manifest(manifest, elsewhere or log)

    @classmethod
    def from_manifest(cls, manifest: Manifest, store: PieceStore) -> Ledger:
        """The state whose pieces are in ``store``."""
        if manifest.derived_by != ENGINE:
            raise StateFormatError(f"snapshot.derived_by: is {manifest.derived_by}; delete the snapshot")
        found = restored(manifest, store)
        _check_format(found.document)
        ledger = cls._of(found.document, Orchestrator.from_capture(found.router))
        ledger.increments.begin_with(ledger.capture(), found.pieces)
        return ledger

    def snapshot(self, log: Log) -> Snapshot:
        """The state as of now, to append to ``log``."""
        return run_slices(self.increments.cut(self.capture())).stored(log)

    @classmethod
    def _of(cls, document: dict[str, Any], router: Orchestrator) -> Ledger:
        ledger = cls()
        ledger.engine, ledger._router = document["engine"], router
        ledger.pending = {key: (internal, time_us) for key, internal, time_us in document["pending"]}
        ledger.silent, ledger.answered = dict(document.get("silent", ())), dict(document.get("answered", ()))
        ledger.early = {key: [_feedback(each) for each in kept] for key, kept in document["early"].items()}
        ledger.sessions = {key: (agent, time_us) for key, agent, time_us in document["sessions"]}
        ledger.tasks = dict(document["tasks"])
        ledger.audits = dict(document.get("audits", ()))
        ledger.judged = {key: (internal, judge) for key, internal, judge in document.get("judged", ())}
        ledger.judgements = Judgements.from_list(document.get("judgements", ([], [])))
        ledger.paid = dict(document.get("paid", {}))
        ledger.reserved = Reservations.from_list(document.get("reserved", []))
        ledger.spending = Spending.from_list(document["spending"])
        ledger.kill_switch = document["kill_switch"]
        ledger.rollout = Rollout.from_dict(document.get("rollout", {}))
        ledger.seq, ledger.time_us = document["seq"], document["time_us"]
        ledger.folded_from = ledger.seq
        return ledger

    def _decide(self, time_us: int, event: DecisionMade, made: Decision | None) -> None:
        decision = made or event.decision(self.router.prefix)
        if made is None:
            _check_draw(event, self.router)
        try:
            self.router.commit(decision, event.given(), event.eligible)
        except InvalidInputError as error:
            raise LedgerMismatchError(f"decision {event.id}: {error}; the log was changed") from error
        self.pending[event.id] = (decision.id, time_us)
        if event.audit:
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
        if event.effect == "early":
            self.early.setdefault(event.decision_id, []).append(event)
        elif event.effect in SETTLING:
            self._settle(event.decision_id, event.outcome(), event)
        elif event.effect == "replaced":
            self._replace(event)
        elif event.effect == "audited":
            self._audit(event)
        elif event.effect == "shown" and event.output is not None:
            self.router.observe_output(self._waiting(event.decision_id), measure_of(event.output))
        if event.reward is not None and (event.judge or event.audit):
            self.judgements.take(event)
        self.spending.add(time_us, event.cost_usd)  # last: a refused report costs nothing

    def _measure(self, event: AttemptEnded) -> None:
        """Dollars and times of an answer count at once, whenever its reward comes."""
        if event.decision_id not in self.pending or self.pending[event.decision_id][0] in self.router.used:
            return
        self.router.observe_usage(
            self.pending[event.decision_id][0],
            cost_usd=self.paid.get(event.decision_id),
            elapsed_s=event.elapsed_s,
            first_token_s=event.first_byte_s,
        )

    def _waiting(self, decision_id: str) -> str:
        """The orchestrator's id of a pending decision."""
        entry = self.pending.get(decision_id)
        if entry is None:
            raise LedgerMismatchError(f"decision {decision_id} is not pending")
        return entry[0]

    def _settle(self, decision_id: str, outcome: Outcome, report: FeedbackGiven | None = None) -> None:
        known_as, paid = self._waiting(decision_id), self.paid.get(decision_id)
        if paid is not None:
            outcome = replace(outcome, cost_usd=paid + (outcome.cost_usd or 0.0))
        self._observe(known_as, outcome, report)
        self.paid.pop(decision_id, None)
        self.reserved.release(decision_id)
        del self.pending[decision_id]
        self.answered.pop(decision_id, None)
        if self.router.is_silent(known_as):
            self.silent[decision_id] = known_as
            self._forget_silences()
        self._await_better(decision_id, known_as, "" if report is None else report.judge)
        self._await_second(decision_id, known_as)

    def _observe(self, known_as: str, outcome: Outcome, report: FeedbackGiven | None) -> None:
        if report is None:
            self.router.observe(known_as, outcome)
            return
        provisional = bool(report.judge)
        self.router.observe(known_as, outcome, audit=report.audit, provisional=provisional, default=report.default)

    def _replace(self, event: FeedbackGiven) -> None:
        known_as = self.silent.get(event.decision_id) or self.judged.get(event.decision_id, (None, ""))[0]
        if known_as is None:
            raise LedgerMismatchError(f"decision {event.decision_id} is not silent")
        self._observe(known_as, event.outcome(), event)
        self.silent.pop(event.decision_id, None)
        self.judged.pop(event.decision_id, None)
        self._await_better(event.decision_id, known_as, event.judge)
        self._await_second(event.decision_id, known_as)

    def _await_better(self, decision_id: str, known_as: str, judge: str) -> None:
        """Note whose reward counts, while that of another judge may replace it."""
        if self.router.is_provisional(known_as):
            self.judged[decision_id] = (known_as, judge)
            while not self.router.is_provisional(self.judged[oldest := next(iter(self.judged))][0]):
                del self.judged[oldest]

    def _drop_expired(self) -> None:
        """Move the oldest pending decisions that the orchestrator has dropped to the silent ones."""
        for decision_id, (internal, _) in list(takewhile(self._expired, self.pending.items())):
            del self.pending[decision_id]
            self.answered.pop(decision_id, None)
            self.reserved.release(decision_id)
            if self.router.is_silent(internal):
                self.silent[decision_id] = internal
        self._forget_silences()

    def _expired(self, entry: tuple[str, tuple[str, int]]) -> bool:
        return not self.router.is_pending(entry[1][0])

    def _forget_silences(self) -> None:
        """Drop the oldest silences that the orchestrator has forgotten."""
        while self.silent:
            oldest = next(iter(self.silent))
            if self.router.is_silent(self.silent[oldest]):
                return
            del self.silent[oldest]

    def _await_second(self, decision_id: str, known_as: str) -> None:
        """Note an audited decision that has its first verdict."""
        if known_as in self.router.verdicts:
            self.audits[decision_id] = known_as
            if len(self.audits) > len(self.router.verdicts):  # the orchestrator has dropped its oldest one, too
                del self.audits[next(iter(self.audits))]

    def _audit(self, event: FeedbackGiven) -> None:
        if event.decision_id not in self.audits:
            raise LedgerMismatchError(f"decision {event.decision_id} waits for no second verdict")
        self.router.observe(self.audits[event.decision_id], event.outcome(), audit=event.audit)
        del self.audits[event.decision_id]


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
    record = archived(log)
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
    """Start from the newest snapshot that can be read.

    One that another release wrote is passed over: its engine may have learned differently.
    """
    ledger, passed_over, seen_seq = Ledger(), False, 0
    for snapshot in _snapshots(log, upto):
        seen_seq = seen_seq or snapshot.seq
        try:
            ledger = Ledger.load(snapshot, log)
        except StateFormatError as error:
            _log.warning("snapshot passed over", extra={"fields": {"seq": snapshot.seq, "detail": str(error)}})
            passed_over = True
        else:
            if passed_over:  # the next one is to be written as a whole
                ledger.increments = Increments()
            break
    ledger.seen_seq = seen_seq
    return ledger


def _snapshots(log: Log, upto: int | None) -> Iterator[Snapshot]:
    """Snapshots, the newest first; that of the archive's end is the last, as events before it are elsewhere."""
    base = base_of(log)
    snapshot = log.snapshot() if upto is None else log.snapshot(upto + 1)
    while snapshot is not None and (base is None or snapshot.seq > base.seq):
        yield snapshot
        snapshot = log.snapshot(snapshot.seq)
    if base is not None and (upto is None or base.seq <= upto):
        yield base


def _check_format(document: dict[str, Any]) -> None:
    if document.get("format") != _FORMAT or document.get("derived_by") != ENGINE:
        raise StateFormatError(f"snapshot.format: is {document.get('format')}; delete the snapshot")


def _feedback(body: bytes) -> FeedbackGiven:
    event = decode_event(body)
    if not isinstance(event, FeedbackGiven):
        raise StateFormatError("snapshot.early: holds something else than feedback; delete the snapshot")
    return event


def drawn_agent(event: DecisionMade) -> str:
    """The agent that the recorded probabilities and random key draw."""
    _check_own(event)
    return event.agents[int(draw(event.column("propensity"), uniform(event.stream, event.counter)))]


def _check_draw(event: DecisionMade, router: Orchestrator) -> None:
    """A recorded decision is taken as it is, but its agent must be the one that its probabilities and key draw.

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
