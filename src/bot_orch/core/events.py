"""Events: what a log stores and :meth:`bot_orch.Orchestrator.apply` folds into the state.

A field may be added at the end, with a default; a field is never moved, removed or given another meaning. A change that
breaks this gets a new class with a new ``kind``, and the fold keeps reading the old one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bot_orch.arrays import Floats, nan_for_null
from bot_orch.core.engine import ENGINE
from bot_orch.core.warm import Evaluations
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.numerics.choice import draw
from bot_orch.records import builder
from bot_orch.rng import uniform
from bot_orch.transport.measures import measure_from_dict
from bot_orch.types import TERMS, Answer, Decision, Measure, Multiplier, Outcome, RandomKey, Task, Terms, answer_of

_NUMBERS = ("propensity", *TERMS)
_decision, _terms, _random_key = builder(Decision), builder(Terms), builder(RandomKey)

#: Effects of a report that ends its decision.
SETTLING = frozenset({"learned", "noted"})
#: Topic of the note that a drift alarm has started an agent afresh; it is for readers, the fold does so by itself.
RESTARTED = "agent.restarted"
#: Topic of the note that an agent is served by a ``model``; ``afresh`` says that it replaces another one, and
#: ``decision`` whose answer showed it.
MODEL = "agent.model"
#: The engine of decisions whose names and features were erased, and the topic of the note with the state after them.
ERASED = "log.erased"
#: The engine of decisions that another router made.
IMPORTED = "imported"


def measure_of(document: dict[str, Any]) -> Measure:
    """Convert untrusted plain values to a measure."""
    try:
        return measure_from_dict(document)
    except InvalidInputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(
            "measure", "does not hold numbers as its kind needs them", "see its to_dict()"
        ) from error


class EventMismatchError(BotOrchError):
    """An event does not follow from the events before it."""


class TaskRecord(NamedTuple):
    """The part of a task that a policy may read. The text is omitted as it may be private; its features are kept."""

    id: str = ""
    kind: str = ""
    features: tuple[float, ...] | dict[str, float | bool | str | None] = ()
    reference: dict[str, Any] | None = None
    profiles: dict[str, dict[str, Any]] | None = None
    claims: dict[str, float] | None = None
    time_s: float | None = None

    @classmethod
    def of(cls, id_: str, given: Any) -> TaskRecord:
        """The record of ``kind``, ``features`` (None: a missing one), ``reference``, ``profiles`` and ``claims``."""
        named = isinstance(given.features, Mapping)
        features: Any = Task(features=given.features).features if named else nan_for_null(given.features)
        return cls(id_, given.kind, features, given.reference, given.profiles, given.claims)

    def task(self, features: tuple[float, ...] | None = None) -> Task:
        """Convert to a task for the orchestrator, with its own or the given features."""
        reference: Measure | None
        seen: Any
        reference, seen = None if self.reference is None else measure_of(self.reference), features or self.features
        if self.profiles is None and self.claims is None:
            return Task(self.id, self.kind, None, seen, reference, time_s=self.time_s)
        profiles = {name: measure_of(measure) for name, measure in (self.profiles or {}).items()}
        claims = self.claims or {}
        return Task(self.id, self.kind, None, seen, reference, profiles, claims=claims, time_s=self.time_s)


@dataclass(frozen=True, slots=True)
class Configured:
    """Settings took effect. The first event of a log; later ones change settings and agents in place.

    ``document`` is what :meth:`bot_orch.Orchestrator.to_json` wrote for a fresh orchestrator with these settings;
    ``engine`` is the version of the engine that decides from here on.
    """

    kind: ClassVar[str] = "configured@1"

    document: str
    engine: str = ENGINE
    keep_learned: bool = True


class AnswerRecord(NamedTuple):
    """Facts known about an answer when a step was decided: agent, decision, and covariates by name."""

    agent: str
    decision_id: str
    covariates: dict[str, float]


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """An agent was chosen.

    ``numbers`` holds the propensities and the terms of the score, in the order of :data:`bot_orch.types.COLUMNS` and
    then the bias if there are audits: M little-endian doubles each, or no bytes where all are zero. ``features`` holds
    the numbers that the choice was made on, of the type ``feature_type``; single precision where that loses nothing.
    ``names`` says what they are, for the first task that has features by name: later ones have the same. ``claims``
    holds those of the agents, NaN for one that made none. ``audit`` marks the decision for an audit, drawn
    with ``audit_probability``. ``token`` names the caller, ``reserved_usd`` is set aside from a budget until the
    outcome is known, or ``briefly``. ``tags`` are for reports of spending. ``caps`` are the largest propensities that
    agents on trial could have.

    A decision is a step of a round: ``round`` is the id of its first decision, empty for that one, and ``step`` counts
    from 0. ``action`` is what the step does: ``ask`` the agent, or ``accept`` its answer. ``answers`` are those known
    by then, ``attempts`` is how many agents the round may ask.
    """

    kind: ClassVar[str] = "decision@1"

    id: str
    task: TaskRecord
    agent: str
    agents: tuple[str, ...]
    numbers: tuple[bytes, ...]
    policy: str
    lambda_: float
    state_seq: int
    stream: int
    counter: int
    engine: str
    features: bytes = b""
    feature_type: str = "<f4"
    encoder: str = ""
    claims: bytes = b""
    eligible: tuple[str, ...] | None = None
    excluded: dict[str, str] | None = None
    session: str | None = None
    task_ref: str | None = None
    by: str = "policy"
    token: str = ""
    audit: bool = False
    audit_probability: float = 0.0
    multipliers: tuple[tuple[str, float, str], ...] = ()
    reserved_usd: float | None = None
    briefly: bool = False
    tags: tuple[str, ...] = ()
    caps: dict[str, float] | None = None
    round: str = ""
    step: int = 0
    action: str = "ask"
    answers: tuple[AnswerRecord, ...] = ()
    attempts: int = 1
    names: tuple[str, ...] = ()

    def drawn(self) -> str:
        """The agent that the recorded probabilities and the random key draw; needs no engine."""
        if self.engine == IMPORTED:
            raise EventMismatchError(
                f"decision {self.id} was imported from another router, and can be neither derived again nor served; "
                "use evaluate, export or a warm start"
            )
        return self.agents[int(draw(self.column("propensity"), uniform(self.stream, self.counter)))]

    def columns(self) -> dict[str, Floats]:
        """The numbers by name, an entry per agent, as :meth:`bot_orch.types.Decision.columns` has them."""
        return dict(zip(_NUMBERS, map(self._values, self.numbers), strict=False))

    def column(self, name: str) -> Floats:
        """One column, an entry per agent."""
        return self._values(self.numbers[_NUMBERS.index(name)])

    def _values(self, stored: bytes) -> Floats:
        found = np.frombuffer(stored, dtype="<f8") if stored else np.zeros(len(self.agents))
        if len(found) != len(self.agents):
            raise ValueError(f"{len(found)} numbers for {len(self.agents)} agents")
        return found

    @property
    def propensity(self) -> float:
        """The probability with which the chosen agent was drawn."""
        return float(self.column("propensity")[self.agents.index(self.agent)])

    def seen(self) -> tuple[float, ...]:
        """The features that the choice was made on."""
        if not self.features:
            return () if isinstance(self.task.features, dict) else self.task.features
        return tuple(np.frombuffer(self.features, dtype=self.feature_type).astype(float).tolist())

    def claim_values(self) -> tuple[float, ...]:
        """The claims used by the choice, one per agent; empty without claims."""
        return tuple(self._values(self.claims).tolist()) if self.claims else ()

    def given(self) -> Task:
        """The task as it was decided on."""
        task = self.task.task(self.seen() if self.features else None)
        task = replace(task, encoded=self.encoder) if self.encoder else task
        task = replace(task, names=self.names) if self.names else task
        claims = {
            name: claim for name, claim in zip(self.agents, self.claim_values(), strict=False) if not math.isnan(claim)
        }
        return replace(task, claims=claims) if claims else task

    def decision(self) -> Decision:
        """The decision as the orchestrator made it, bit for bit."""
        p, *terms = map(self._values, self.numbers)
        return _decision(
            self.id,
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
            self.claim_values(),
            self.encoder,
            self.audit,
            self.audit_probability,
            tuple(Multiplier(*each) for each in self.multipliers) if self.multipliers else (),
            self.names,
            self.action,
            self.known_answers(),
            self.attempts,
        )

    def known_answers(self) -> tuple[Answer, ...]:
        """The answers that the step was decided on."""
        return tuple(answer_of(each.agent, each.decision_id, each.covariates) for each in self.answers)


@dataclass(frozen=True, slots=True)
class FeedbackGiven:
    """An outcome of a decision was reported.

    ``effect`` is how it counts: ``learned``; ``noted`` (the decision ends without a reward; silence counts for what it
    says); ``replaced`` (a reward in place of that); ``early`` (kept until its decision is known); ``revision`` (an
    outcome was already learned: kept for evaluation, not learned twice); ``late`` (after the horizon, when the decision
    is no longer remembered: likewise); ``audited`` (the second of two verdicts on an audited decision: the judge's bias
    is learned); ``shown`` (only the output is known: distances and drift alarms learn it, the decision stays pending).
    With ``audit`` the reward is the truth.

    ``judge`` names the judge that gave the reward to ``agent``'s answer, asked with probability ``rate``. Such a reward
    is provisional: one by a judge of equal or higher rank replaces it (``replaced``), one of lower rank is
    ``outranked``: kept in the log, not learned. ``default``: the reward is what an answer earns unless somebody
    reports; how far it is learned depends on the share of answers with reports.
    """

    kind: ClassVar[str] = "feedback@1"

    id: str
    decision_id: str
    effect: str
    reward: float | None = None
    elapsed_s: float | None = None
    completed: bool = True
    reason: str | None = None
    output: dict[str, Any] | None = None
    cost_usd: float | None = None
    audit: bool = False
    judge: str = ""
    agent: str = ""
    rate: float = 1.0
    default: bool = False
    reset_s: float | None = None

    @classmethod
    def of(
        cls,
        id_: str,
        decision_id: str,
        effect: str,
        *,
        outcome: Outcome,
        audit: bool = False,
        judge: str = "",
        agent: str = "",
        default: bool = False,
    ) -> FeedbackGiven:
        """The report of an outcome."""
        output = None if outcome.output is None else outcome.output.to_dict()
        known = (outcome.reward, outcome.elapsed_s, bool(outcome.event), outcome.reason, output, outcome.cost_usd)
        by = (audit, judge, agent, 1.0, default)
        return cls(id_, decision_id, effect, *known, *by, reset_s=outcome.reset_s)

    def outcome(self) -> Outcome:
        """Convert to an outcome for the orchestrator."""
        output = None if self.output is None else measure_of(self.output)
        known = (self.completed, self.reward, self.elapsed_s, self.reason, output, self.cost_usd, self.reset_s)
        return Outcome(*known)


@dataclass(frozen=True, slots=True)
class Censored:
    """No outcome of a decision arrived within ``elapsed_s``; waiting ended because of ``reason``."""

    kind: ClassVar[str] = "censored@1"

    decision_id: str
    elapsed_s: float
    reason: str

    def outcome(self, answered_s: float | None = None) -> Outcome:
        """Silence, unless the agent answered after ``answered_s``: then only the reward is missing."""
        if answered_s is not None:
            return Outcome.completed(elapsed_s=answered_s)
        return Outcome.censored(elapsed_s=self.elapsed_s, reason="horizon")


@dataclass(frozen=True, slots=True)
class EvaluationsGiven:
    """Evaluations were taught to the policy: a warm start.

    ``rewards`` holds rows of little-endian doubles, one per agent, NaN where missing; ``features`` rows of ``width``
    numbers; ``weight`` one number per row. ``encoder`` is the version of the one whose numbers end the features,
    ``names`` says what the others are, if they were given by name.
    ``answers`` holds, by name, rows as ``rewards`` has them; None without answers.
    """

    kind: ClassVar[str] = "evaluations@1"

    agents: tuple[str, ...]
    rewards: bytes
    weight: bytes
    features: bytes = b""
    width: int = 0
    most: float = 1000.0
    encoder: str = ""
    answers: dict[str, bytes] | None = None
    names: tuple[str, ...] = ()

    def evaluations(self) -> Evaluations:
        """Convert to evaluations for the orchestrator."""
        rewards = np.frombuffer(self.rewards, dtype="<f8").reshape(-1, len(self.agents))
        features = np.frombuffer(self.features, dtype="<f8").reshape(len(rewards), -1) if self.width else None
        weight = np.frombuffer(self.weight, dtype="<f8")
        answers = {
            name: np.frombuffer(cells, dtype="<f8").reshape(rewards.shape)
            for name, cells in (self.answers or {}).items()
        }
        encoded, names = self.encoder, self.names
        return Evaluations(self.agents, rewards, features, weight=weight, encoded=encoded, names=names, answers=answers)


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    """A complete round was requested by ``token``. ``input`` is stored because a task must survive a restart."""

    kind: ClassVar[str] = "task@1"

    id: str
    task: TaskRecord
    input: str = ""
    background: bool = False
    deadline_s: float | None = None
    token: str = ""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """One attempt at one agent ended. Tokens are ``estimated`` where a stream was cut before the agent sent them."""

    kind: ClassVar[str] = "attempt@1"

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


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A round is over: ``completed`` with an output, or ``failed`` with the last ending."""

    kind: ClassVar[str] = "task-ended@1"

    id: str
    status: str
    decision_id: str = ""
    agent: str = ""
    output: str = ""
    error: str = ""
    decisions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Controlled:
    """An operator sent everything to one agent, or stopped doing so."""

    kind: ClassVar[str] = "control@1"

    kill_switch: str | None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """A fact that a part of the service must remember (a claim, a lease, a draft); nothing is learned from it."""

    kind: ClassVar[str] = "note@1"

    topic: str
    ref: str
    data: dict[str, Any] = field(default_factory=dict)


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


def record_task(task: Task) -> TaskRecord:
    """The part of a task that is logged."""
    reference = None if task.reference is None else task.reference.to_dict()
    profiles = {name: measure.to_dict() for name, measure in task.profiles.items()} or None
    features = task.features if isinstance(task.features, tuple) else ()  # a decision is logged with its vector
    return TaskRecord(task.id, task.kind, features, reference, profiles, dict(task.claims) or None, task.time_s)


def record_decision(
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
    return DecisionMade(
        decision.id,
        task._replace(features=(), claims=None) if task.features or task.claims else task,
        decision.agent,
        decision.agents,
        tuple(stored_column(column) for column in decision.columns().values()),
        decision.policy,
        decision.lambda_,
        decision.state_seq,
        decision.key.stream,
        decision.key.counter,
        ENGINE,
        features=features.tobytes(),
        feature_type="<f4" if exact else "<f8",
        encoder=decision.encoder,
        claims=np.array(decision.claims, dtype="<f8").tobytes(),
        eligible=eligible,
        excluded=excluded or None,
        session=session,
        task_ref=task_ref,
        round=round_id or decision.round,
        step=decision.step,
        action=decision.action,
        answers=tuple(AnswerRecord(each.agent, each.decision, each.covariates()) for each in decision.answers),
        attempts=decision.attempts,
        by=by,
        token=token,
        audit=decision.audit,
        audit_probability=decision.audit_probability,
        multipliers=_written(decision.multipliers) if decision.multipliers else (),
        reserved_usd=reserved_usd,
        briefly=briefly,
        tags=tags,
        caps=caps or None,
        names=decision.names,
    )


def stored_column(column: Floats) -> bytes:
    """Encode as little-endian doubles; empty if all bits are zero."""
    body: bytes = column.astype("<f8", copy=False).tobytes()
    return body if any(body) else b""


def _written(multipliers: tuple[Multiplier, ...]) -> tuple[tuple[str, float, str], ...]:
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
        None if given.answers is None else {name: v.astype("<f8").tobytes() for name, v in given.answers.items()},
        given.names,
    )


def as_recorded(task: Task) -> Task:
    """The task with its features in single precision, as stored in the log.

    Examples
    --------
    >>> as_recorded(Task("t", features=(0.1,))).features
    (0.10000000149011612,)
    """
    if not task.features:
        return task
    if isinstance(task.features, Mapping):
        numbers = {name: value for name, value in task.features.items() if isinstance(value, float)}
        return replace(task, features={**task.features, **dict(zip(numbers, _single(numbers.values()), strict=True))})
    return replace(task, features=tuple(_single(task.features)))


def _single(values: Iterable[float]) -> list[float]:
    with np.errstate(over="ignore"):
        single = np.asarray([*values], dtype=np.float32).astype(float)
    if np.isinf(single).any():
        raise InvalidInputError("task.features", "holds a number beyond single precision", "rescale it below 3e38")
    return [float(each) for each in single]
