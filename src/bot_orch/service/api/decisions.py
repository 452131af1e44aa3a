"""``/v1/decisions``: who should do it, and why."""

from __future__ import annotations

from bot_orch.eventlog.events import AttemptEnded, Censored, DecisionMade, FeedbackGiven, TaskRecord
from bot_orch.eventlog.ids import is_id
from bot_orch.eventlog.log import Row
from bot_orch.service.api.bodies import (
    AttemptView,
    DecisionRequest,
    DecisionView,
    Explanation,
    OutcomeView,
    TaskBody,
    TermsView,
)
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.routing.rules import Wish
from bot_orch.service.runtime import digest_of
from bot_orch.service.web.endpoint import Request
from bot_orch.types import TERMS

__all__ = ["attempt_view", "create", "decision_view", "explain", "idempotency_key", "record_of"]

_LONGEST_KEY = 256


async def create(request: Request) -> Reply:
    """``POST /v1/decisions``."""
    body: DecisionRequest = request.body
    runtime = request.runtime
    key = idempotency_key(request, "d")
    digest = digest_of(request.raw) if key is not None else None
    if key is not None and (known := runtime.writer.find(key)) is not None:
        seq, used, group = known
        if used != digest:
            raise Problem(409, "idempotency_conflict", "this Idempotency-Key was used with another body")
        if group is not None:
            await group.durable()
        return json_reply(decision_view(_decision(runtime.writer.log.row(seq))))
    if body.id is not None:
        await _check_own_id(request, body.id)
    wish = Wish(body.task.kind, body.eligible, body.session, len(body.task.text))
    event, group = runtime.decide(record_of(body.task), wish, decision_id=body.id, key=key, digest=digest)
    await group.durable()
    return json_reply(decision_view(event))


async def explain(request: Request) -> Reply:
    """``GET /v1/decisions/{id}``."""
    runtime, decision_id = request.runtime, request.params["id"]
    rows = runtime.writer.log.about(decision_id)
    made = next((row for row in rows if row.kind.startswith("decision")), None)
    if made is None:
        raise Problem(404, "unknown_decision", "there is no such decision")
    event = _decision(made)
    events = [(row, row.event()) for row in rows]
    return json_reply(
        Explanation(
            decision_view(event),
            made.time_us,
            event.task.id,
            event.task.kind,
            event.session,
            event.excluded or {},
            [attempt_view(each) for _, each in events if isinstance(each, AttemptEnded)],
            [_outcome(row, each) for row, each in events if isinstance(each, FeedbackGiven | Censored)],
            decision_id in runtime.ledger.pending,
            event.decision().explain(),
        )
    )


def decision_view(event: DecisionMade) -> DecisionView:
    """What the caller is told of a decision."""
    p = event.column("propensity").tolist()
    terms = [event.column(name).tolist() for name in TERMS]
    return DecisionView(
        event.id,
        event.agent,
        p[event.agents.index(event.agent)],
        dict(zip(event.agents, p, strict=True)),
        {agent: TermsView(*values) for agent, *values in zip(event.agents, *terms, strict=True)},
        event.policy,
        event.state_seq,
        event.by,
    )


def attempt_view(event: AttemptEnded) -> AttemptView:
    """What the caller is told of an attempt."""
    e = event
    return AttemptView(e.agent, e.decision_id, e.number, e.ending, e.elapsed_s, e.first_byte_s, e.status, e.cost_usd)


def record_of(task: TaskBody) -> TaskRecord:
    """What the log keeps of a task: everything but its text."""
    return TaskRecord(task.id, task.kind, task.features, task.reference, task.profiles)


def idempotency_key(request: Request, prefix: str) -> str | None:
    """The ``Idempotency-Key`` header, kept apart by caller."""
    header = request.headers.get(b"idempotency-key")
    if header is None:
        return None
    if not 1 <= len(header) <= _LONGEST_KEY:
        raise Problem(400, "bad_idempotency_key", f"Idempotency-Key must have 1 to {_LONGEST_KEY} characters")
    return f"{prefix}:{request.caller.name}:{header.decode('latin-1')}"


async def _check_own_id(request: Request, decision_id: str) -> None:
    if not is_id(decision_id):
        raise Problem(422, "invalid_value", "id: is not a version 7 UUID in lower case", param="id")
    rows = await request.runtime.writer.settled(decision_id)
    if any(row.kind.startswith("decision") for row in rows):
        raise Problem(409, "id_taken", "this decision id is taken", param="id")


def _decision(row: Row | None) -> DecisionMade:
    event = None if row is None else row.event()
    if not isinstance(event, DecisionMade):
        raise Problem(409, "idempotency_conflict", "this Idempotency-Key was used for something else")
    return event


def _outcome(row: Row, event: FeedbackGiven | Censored) -> OutcomeView:
    if isinstance(event, Censored):
        return OutcomeView("censored", row.time_us, elapsed_s=event.elapsed_s, reason=event.reason)
    e = event
    return OutcomeView(e.effect, row.time_us, e.id, e.reward, e.elapsed_s, e.completed, e.reason, e.cost_usd)
