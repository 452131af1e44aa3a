"""What the log holds: one small struct per kind of event, tagged, versioned, written as MessagePack.

A field may be added with a default; a field is never renamed, removed or given another meaning. A change that breaks
this gets a new tag, and the fold keeps reading the old one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.engine import ENGINE
from bot_orch.core.warm import Evaluations
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.records import builder
from bot_orch.transport.measures import measure_from_dict
from bot_orch.types import COLUMNS, REASONS, TERMS, Decision, Measure, Multiplied, Outcome, RandomKey, Task, Terms

__all__ = [
    "CLAIM",
    "FIRST_ENGINE",
    "IMPORTED",
    "RESTARTED",
    "SETTLING",
    "AttemptEnded",
    "Censored",
    "Configured",
    "Controlled",
    "DecisionMade",
    "EvaluationsGiven",
    "Event",
    "FeedbackGiven",
    "Noted",
    "TaskEnded",
    "TaskRecord",
    "TaskSubmitted",
    "as_recorded",
    "decode_event",
    "encode_event",
    "kind_of",
    "measure_of",
    "record_decision",
    "record_evaluations",
    "record_task",
]


_decision, _terms, _random_key = builder(Decision), builder(Terms), builder(RandomKey)

#: Effects of a report that ends its decision.
SETTLING = frozenset({"learned", "noted"})
#: Topic of the note that a drift alarm has started an agent afresh; it is for readers, the fold does so by itself.
RESTARTED = "agent.restarted"
#: The engine of logs that do not name one.
FIRST_ENGINE = "1"
#: The engine of decisions that another router made.
IMPORTED = "imported"
#: The column of a decision that holds the agents' claims.
CLAIM = "claim"


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    pass


def measure_of(document: dict[str, Any]) -> Measure:
    """A measure from plain values that may be anything."""
    try:
        return measure_from_dict(document)
    except InvalidInputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(
            "measure", "does not hold numbers as its kind needs them", "see its to_dict()"
        ) from error


class TaskRecord(msgspec.Struct, frozen=True, omit_defaults=True, array_like=False, gc=False):
    """What a policy may read of a task. The text is not kept, as it may be private; its numbers are."""

    id: str = ""
    kind: str = ""
    features: tuple[float, ...] = ()
    reference: dict[str, Any] | None = None
    profiles: dict[str, dict[str, Any]] | None = None
    claims: dict[str, float] | None = None

    def task(self, features: tuple[float, ...] | None = None) -> Task:
        """The task as the orchestrator takes it, with its own features or these."""
        reference, seen = None if self.reference is None else measure_of(self.reference), features or self.features
        if self.profiles is None and self.claims is None:
            return Task(self.id, self.kind, None, seen, reference)
        profiles = {name: measure_of(measure) for name, measure in (self.profiles or {}).items()}
        return Task(self.id, self.kind, None, seen, reference, profiles, claims=self.claims or {})


class Configured(_Event, tag="configured@1", frozen=True):
    """Settings took effect. The first event of a log; later ones change settings and agents in place.

    ``document`` is what :meth:`bot_orch.Orchestrator.to_json` wrote for a fresh orchestrator with these settings;
    ``engine`` is the version of the engine that decides from here on.
    """

    document: str
    keep_learned: bool = True
    engine: str = FIRST_ENGINE


class DecisionMade(_Event, tag="decision@2", frozen=True):
    """An agent was chosen.

    ``numbers`` holds one row of M little-endian doubles for each of ``columns``. ``features`` holds the numbers that
    the choice was made on, of the type ``feature_type``; single precision where that loses nothing. Columns and fields
    are added, the format stays. A decision on which agents made claims has a column ``claim``, NaN for those that made
    none. ``round`` is the first decision of a round in which this agent took over. ``audit`` marks the decision for an
    audit, drawn with ``audit_probability``. ``token`` names the caller, ``reserved_usd`` is set aside from a budget
    until the outcome is known, or ``briefly``. ``tags`` are for reports of spending. ``caps`` are the
    largest propensities that agents on trial could have.
    """

    id: str
    task: TaskRecord
    agent: str
    agents: tuple[str, ...]
    numbers: bytes
    policy: str
    lambda_: float
    state_seq: int
    stream: int
    counter: int
    engine: str
    columns: tuple[str, ...] = COLUMNS
    features: bytes = b""
    feature_type: str = "<f4"
    encoder: str = ""
    eligible: tuple[str, ...] | None = None
    excluded: dict[str, str] | None = None
    session: str | None = None
    task_ref: str | None = None
    by: str = "policy"
    router: str = ""
    token: str = ""
    round: str = ""
    audit: bool = False
    audit_probability: float = 0.0
    multipliers: tuple[tuple[str, float, str], ...] = ()
    reserved_usd: float | None = None
    briefly: bool = False
    tags: tuple[str, ...] = ()
    caps: dict[str, float] | None = None

    def table(self) -> Floats:
        """``numbers`` as an array, one row per column."""
        return np.frombuffer(self.numbers, dtype="<f8").reshape(len(self.columns), len(self.agents))

    def column(self, name: str) -> Floats:
        """One column, an entry per agent."""
        found: Floats = self.table()[self.columns.index(name)]
        return found

    @property
    def propensity(self) -> float:
        """The probability with which the chosen agent was drawn."""
        return float(self.column("propensity")[self.agents.index(self.agent)])

    def _numbers(self) -> Iterable[str]:
        """The columns of a decision's own numbers, in order."""
        return (name for name in ("propensity", *TERMS) if name in self.columns)

    def seen(self) -> tuple[float, ...]:
        """The features that the choice was made on."""
        if not self.features:
            return self.task.features
        return tuple(np.frombuffer(self.features, dtype=self.feature_type).astype(float).tolist())

    def claims(self) -> tuple[float, ...]:
        """The claims that the choice was made on, one per agent; empty if there were none."""
        return tuple(self.column(CLAIM).tolist()) if CLAIM in self.columns else ()

    def given(self) -> Task:
        """The task as it was decided on."""
        task, claims = self.task.task(self.seen() if self.features else None), self.claims()
        task = replace(task, encoded=self.encoder) if self.encoder else task
        stated = {name: claim for name, claim in zip(self.agents, claims, strict=False) if not math.isnan(claim)}
        return replace(task, claims=stated) if stated else task

    def decision(self, prefix: str = "") -> Decision:
        """The decision as the orchestrator made it, bit for bit, under the orchestrator's own id.

        That begins with ``prefix``; without one with the key of the random stream.
        """
        p, *terms = self.table() if self.columns == COLUMNS else map(self.column, self._numbers())
        return _decision(
            f"{prefix or f'{self.stream:016x}'}-{self.counter:012x}",
            self.task.id,
            self.agent,
            self.agents,
            p,
            _terms(*terms),
            self.policy,
            self.lambda_,
            self.state_seq,
            _random_key(self.stream, self.counter),
            self.seen(),
            self.claims(),
            self.encoder,
            self.audit,
            self.audit_probability,
            tuple(Multiplied(*each) for each in self.multipliers) if self.multipliers else (),
        )


class _DecisionMade1(_Event, tag="decision@1", frozen=True):
    """The format of engine 1: six unnamed rows, features in the task."""

    id: str
    task: TaskRecord
    agent: str
    agents: tuple[str, ...]
    numbers: bytes
    policy: str
    lambda_: float
    state_seq: int
    stream: int
    counter: int
    eligible: tuple[str, ...] | None = None
    excluded: dict[str, str] | None = None
    session: str | None = None
    task_ref: str | None = None
    by: str = "policy"

    def upgraded(self) -> DecisionMade:
        """The same event in the current format."""
        return DecisionMade(engine=FIRST_ENGINE, **{name: getattr(self, name) for name in self.__struct_fields__})


class FeedbackGiven(_Event, tag="feedback@1", frozen=True):
    """An outcome of a decision was reported.

    ``effect`` is how it counts: ``learned``; ``noted`` (the decision ends without a reward; silence counts for what it
    says); ``replaced`` (a reward in place of that); ``early`` (kept until its decision is known); ``revision`` (an
    outcome was already learned: kept for evaluation, not learned twice); ``late`` (after the horizon, when the decision
    is no longer remembered: likewise); ``audited`` (the second of two verdicts on an audited decision: the judge's bias
    is learned); ``shown`` (only the output is known: distances and drift alarms learn it, the decision stays pending).
    With ``audit`` the reward is the truth. ``priced`` says that ``cost_usd`` is known, also if it is zero.

    ``judge`` names the judge that gave the reward to ``agent``'s answer, asked with probability ``rate``. Such a reward
    is provisional: that of a judge of equal or higher rank replaces it (``replaced``), one of lower rank is
    ``outranked``: kept in the log, not learned. ``default``: the reward is what an answer earns unless somebody
    reports; how far it is learned depends on the share of answers with reports.
    """

    id: str
    decision_id: str
    effect: str
    reward: float | None = None
    elapsed_s: float | None = None
    completed: bool = True
    reason: str | None = None
    output: dict[str, Any] | None = None
    cost_usd: float = 0.0
    audit: bool = False
    priced: bool = False
    judge: str = ""
    agent: str = ""
    rate: float = 1.0
    default: bool = False

    def outcome(self) -> Outcome:
        """The outcome as the orchestrator takes it."""
        output = None if self.output is None else measure_of(self.output)
        cost_usd = self.cost_usd if self.priced or self.cost_usd else None
        known = self.completed or not self.reason or self.reason.strip().lower() in REASONS
        reason = self.reason if known else "cancelled"  # earlier releases took any, with this meaning
        return Outcome(self.completed, self.reward, self.elapsed_s, reason, output, cost_usd)


class Censored(_Event, tag="censored@1", frozen=True):
    """No outcome of a decision arrived within ``elapsed_s``; waiting ended because of ``reason``."""

    decision_id: str
    elapsed_s: float
    reason: str

    def outcome(self, answered_s: float | None = None) -> Outcome:
        """Silence, unless the agent is known to have answered after ``answered_s``: then only the reward is missing."""
        if answered_s is not None:
            return Outcome.completed(elapsed_s=answered_s)
        return Outcome.censored(elapsed_s=self.elapsed_s, reason="horizon")


class EvaluationsGiven(_Event, tag="evaluations@1", frozen=True):
    """Evaluations were taught to the policy: a warm start.

    ``rewards`` holds rows of little-endian doubles, one per agent, NaN where missing; ``features`` rows of ``width``
    numbers; ``weight`` one number per row. ``encoder`` is the version of the one whose numbers end the features.
    """

    agents: tuple[str, ...]
    rewards: bytes
    weight: bytes
    features: bytes = b""
    width: int = 0
    most: float = 1000.0
    encoder: str = ""

    def evaluations(self) -> Evaluations:
        """The evaluations as the orchestrator takes them."""
        rewards = np.frombuffer(self.rewards, dtype="<f8").reshape(-1, len(self.agents))
        features = np.frombuffer(self.features, dtype="<f8").reshape(len(rewards), -1) if self.width else None
        weight = np.frombuffer(self.weight, dtype="<f8")
        return Evaluations(self.agents, rewards, features, weight=weight, encoded=self.encoder)


class TaskSubmitted(_Event, tag="task@1", frozen=True):
    """A whole round was asked for, by ``token``. ``input`` is kept because a task must survive a restart."""

    id: str
    task: TaskRecord
    input: str = ""
    background: bool = False
    deadline_s: float | None = None
    token: str = ""


class AttemptEnded(_Event, tag="attempt@1", frozen=True):
    """One attempt at one agent ended. Tokens are ``estimated`` where a stream was cut before the agent told them."""

    decision_id: str
    task_id: str
    agent: str
    number: int
    ending: str
    elapsed_s: float
    first_byte_s: float | None = None
    status: int | None = None
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class TaskEnded(_Event, tag="task-ended@1", frozen=True):
    """A round is over: ``completed`` with an output, or ``failed`` with the last ending."""

    id: str
    status: str
    decision_id: str = ""
    agent: str = ""
    output: str = ""
    error: str = ""
    decisions: tuple[str, ...] = ()


class Controlled(_Event, tag="control@1", frozen=True):
    """An operator sent everything to one agent, or stopped doing so."""

    kill_switch: str | None
    by: str = ""


class Noted(_Event, tag="note@1", frozen=True):
    """Something a part of the service wants to remember (a claim, a lease, a draft); nothing is learned from it."""

    topic: str
    ref: str
    data: dict[str, Any] = {}


Event = (
    Configured
    | DecisionMade
    | FeedbackGiven
    | Censored
    | EvaluationsGiven
    | TaskSubmitted
    | AttemptEnded
    | TaskEnded
    | Controlled
    | Noted
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event | _DecisionMade1] = msgspec.msgpack.Decoder(Event | _DecisionMade1)


def encode_event(event: Event) -> bytes:
    """MessagePack, with the tag."""
    return _encoder.encode(event)


def decode_event(body: bytes) -> Event:
    """The inverse of :func:`encode_event`.

    Examples
    --------
    >>> decode_event(encode_event(Censored("d", 1.5, "horizon")))
    Censored(decision_id='d', elapsed_s=1.5, reason='horizon')
    """
    try:
        event = _decoder.decode(body)
        return event.upgraded() if isinstance(event, _DecisionMade1) else event
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        remedy = "it is damaged (restore a backup), or a newer release wrote it"
        raise StateFormatError(f"log: an event cannot be read ({error}); {remedy}") from error


def kind_of(event: Event) -> str:
    """The event's tag, such as ``decision@2``."""
    return str(event.__struct_config__.tag)


def record_task(task: Task) -> TaskRecord:
    """What the log keeps of a task."""
    reference = None if task.reference is None else task.reference.to_dict()
    profiles = {name: measure.to_dict() for name, measure in task.profiles.items()} or None
    return TaskRecord(task.id, task.kind, task.features, reference, profiles, dict(task.claims) or None)


def record_decision(
    decision_id: str,
    decision: Decision,
    task: TaskRecord,
    *,
    eligible: tuple[str, ...] | None = None,
    excluded: dict[str, str] | None = None,
    session: str | None = None,
    task_ref: str | None = None,
    round_id: str = "",
    by: str = "policy",
    token: str = "",
    reserved_usd: float | None = None,
    briefly: bool = False,
    tags: tuple[str, ...] = (),
    caps: dict[str, float] | None = None,
) -> DecisionMade:
    """The event of a decision. Features and claims go with it; features in single precision if that loses nothing."""
    single = np.asarray(decision.features, dtype="<f4")
    exact = bool(np.array_equal(single.astype(float), np.asarray(decision.features, dtype=float), equal_nan=True))
    features = single if exact else np.asarray(decision.features, dtype="<f8")
    columns = decision.columns() | ({CLAIM: np.array(decision.claims)} if decision.claims else {})
    return DecisionMade(
        decision_id,
        msgspec.structs.replace(task, features=(), claims=None) if task.features or task.claims else task,
        decision.agent,
        decision.agents,
        b"".join([column.astype("<f8", copy=False).tobytes() for column in columns.values()]),
        decision.policy,
        decision.lambda_,
        decision.state_seq,
        decision.key.stream,
        decision.key.counter,
        ENGINE,
        COLUMNS if len(columns) == len(COLUMNS) else tuple(columns),  # the default is not written
        features=features.tobytes(),
        feature_type="<f4" if exact else "<f8",
        encoder=decision.encoder,
        eligible=eligible,
        excluded=excluded or None,
        session=session,
        task_ref=task_ref,
        round=round_id,
        by=by,
        token=token,
        audit=decision.audit,
        audit_probability=decision.audit_probability,
        multipliers=_written(decision.multipliers) if decision.multipliers else (),
        reserved_usd=reserved_usd,
        briefly=briefly,
        tags=tags,
        caps=caps or None,
    )


def _written(multipliers: tuple[Multiplied, ...]) -> tuple[tuple[str, float, str], ...]:
    return tuple((each.constraint, each.value, each.unit) for each in multipliers)


def record_evaluations(given: Evaluations, most: float) -> EvaluationsGiven:
    """The event of a warm start."""
    features = given.features
    return EvaluationsGiven(
        given.agents,
        given.rewards.astype("<f8").tobytes(),
        np.asarray(given.weight).astype("<f8").tobytes(),
        b"" if features is None else features.astype("<f8").tobytes(),
        0 if features is None else features.shape[1],
        most,
        given.encoded,
    )


def as_recorded(task: Task) -> Task:
    """The task with its features in single precision, as the log keeps them.

    Examples
    --------
    >>> as_recorded(Task("t", features=(0.1,))).features
    (0.10000000149011612,)
    """
    with np.errstate(over="ignore"):
        single = np.asarray(task.features, dtype=np.float32).astype(float)
    if np.isinf(single).any():
        raise InvalidInputError("task.features", "holds a number beyond single precision", "rescale it below 3e38")
    return replace(task, features=tuple(single.tolist()))
