"""What the log holds: one small struct per kind of event, tagged, versioned, written as MessagePack.

A field may be added with a default; a field is never renamed, removed or given another meaning. A change that breaks
this gets a new tag, and the fold keeps reading the old one.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.transport.measures import measure_from_dict
from bot_orch.types import Decision, Measure, Outcome, RandomKey, Task, Terms

__all__ = [
    "AttemptEnded",
    "Censored",
    "Configured",
    "Controlled",
    "DecisionMade",
    "Event",
    "FeedbackGiven",
    "Noted",
    "TaskEnded",
    "TaskRecord",
    "TaskSubmitted",
    "decode_event",
    "encode_event",
    "kind_of",
    "measure_of",
    "record_decision",
    "record_task",
]


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
    """What a policy may read of a task. The text is not kept: no policy reads it, and it may be private."""

    id: str = ""
    kind: str = ""
    features: tuple[float, ...] = ()
    reference: dict[str, Any] | None = None
    profiles: dict[str, dict[str, Any]] | None = None

    def task(self) -> Task:
        """The task as the orchestrator takes it."""
        reference = None if self.reference is None else measure_of(self.reference)
        if self.profiles is None:
            return Task(self.id, self.kind, None, self.features, reference)
        profiles = {name: measure_of(measure) for name, measure in self.profiles.items()}
        return Task(self.id, self.kind, None, self.features, reference, profiles)


class Configured(_Event, tag="configured@1", frozen=True):
    """Settings took effect. The first event of a log; later ones change settings and agents in place.

    ``document`` is what :meth:`bot_orch.Orchestrator.to_json` wrote for a fresh orchestrator with these settings.
    """

    document: str
    keep_learned: bool = True


class DecisionMade(_Event, tag="decision@1", frozen=True):
    """An agent was chosen. ``numbers`` holds six rows of M little-endian doubles: propensities, then the terms."""

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

    def table(self) -> Floats:
        """``numbers`` as an array of shape (6, M)."""
        return np.frombuffer(self.numbers, dtype="<f8").reshape(6, len(self.agents))

    def decision(self) -> Decision:
        """The decision as the orchestrator made it, bit for bit, under the orchestrator's own id."""
        p, *terms = self.table()
        key = RandomKey(self.stream, self.counter)
        return Decision(
            f"{self.stream:016x}-{self.counter:012x}",
            self.task.id,
            self.agent,
            self.agents,
            p,
            Terms(*terms),
            self.policy,
            self.lambda_,
            self.state_seq,
            key,
            self.task.features,
        )


class FeedbackGiven(_Event, tag="feedback@1", frozen=True):
    """Somebody said how a decision turned out.

    ``effect`` is how it counts: ``learned``; ``early`` (kept until its decision is known); ``revision`` (an outcome
    was already learned: kept for evaluation, not learned twice); ``late`` (after the horizon: likewise).
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

    def outcome(self) -> Outcome:
        """The outcome as the orchestrator takes it."""
        output = None if self.output is None else measure_of(self.output)
        return Outcome(self.completed, self.reward, self.elapsed_s, self.reason, output)


class Censored(_Event, tag="censored@1", frozen=True):
    """Nothing was heard of a decision for ``elapsed_s``; we stopped waiting because of ``reason``."""

    decision_id: str
    elapsed_s: float
    reason: str


class TaskSubmitted(_Event, tag="task@1", frozen=True):
    """A whole round was asked for. ``input`` is kept because a task must survive a restart."""

    id: str
    task: TaskRecord
    input: str = ""
    background: bool = False
    deadline_s: float | None = None


class AttemptEnded(_Event, tag="attempt@1", frozen=True):
    """One try at one agent ended, one way or another."""

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
    Configured | DecisionMade | FeedbackGiven | Censored | TaskSubmitted | AttemptEnded | TaskEnded | Controlled | Noted
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


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
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise StateFormatError(f"log: an event cannot be read ({error}); read it with a newer release") from error


def kind_of(event: Event) -> str:
    """The event's tag, such as ``decision@1``."""
    return str(event.__struct_config__.tag)


def record_task(task: Task) -> TaskRecord:
    """What the log keeps of a task."""
    reference = None if task.reference is None else task.reference.to_dict()
    profiles = {name: measure.to_dict() for name, measure in task.profiles.items()} or None
    return TaskRecord(task.id, task.kind, task.features, reference, profiles)


def record_decision(
    decision_id: str,
    decision: Decision,
    task: TaskRecord,
    *,
    eligible: tuple[str, ...] | None = None,
    excluded: dict[str, str] | None = None,
    session: str | None = None,
    task_ref: str | None = None,
    by: str = "policy",
) -> DecisionMade:
    """The event of a decision."""
    t = decision.terms
    rows = (decision.propensities, t.estimate, t.exploration, t.distance, t.alignment, t.cost)
    return DecisionMade(
        decision_id,
        task,
        decision.agent,
        decision.agents,
        b"".join([row.astype("<f8", copy=False).tobytes() for row in rows]),
        decision.policy,
        decision.lambda_,
        decision.state_seq,
        decision.key.stream,
        decision.key.counter,
        eligible,
        excluded or None,
        session,
        task_ref,
        by,
    )
