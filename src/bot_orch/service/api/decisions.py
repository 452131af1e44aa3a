"""``/v1/decisions``: choose an agent, explain a choice."""

from __future__ import annotations

from enum import StrEnum

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
from bot_orch.service.routing.decision import decide
from bot_orch.service.routing.estimates import size_of
from bot_orch.service.routing.linked import rows_of_round
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.runtime import digest_of
from bot_orch.service.web.auth import Caller
from bot_orch.service.web.endpoint import Request
from bot_orch.types import TERMS

__all__ = ["KeySpace", "attempt_view", "create", "decision_view", "explain", "idempotency_key", "may_see", "record_of"]

_LONGEST_KEY = 256


class KeySpace(StrEnum):
    """What an idempotency key in the log is for; the value is its prefix there."""

    DECISION = "d"
    FEEDBACK = "f"
    TASK = "t"
    CHAT = "c"


async def create(request: Request) -> Reply:
    """``POST /v1/decisions``."""
    body: DecisionRequest = request.body
    runtime = request.runtime
    key = idempotency_key(request, KeySpace.DECISION)
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
    constraints = RoutingConstraints(
        body.task.kind,
        body.eligible,
        body.session,
        size=size_of({}, text=body.task.text),
        token=request.caller.name,
        tags=request.tags,
    )
    event, group = decide(
        runtime,
        record_of(body.task),
        constraints,
        text=body.task.text,
        decision_id=body.id,
        key=key,
        digest=digest,
    )
    request.noted |= {"x-bot-orch-decision-id": event.id, "x-bot-orch-agent": event.agent}
    await group.durable()
    return json_reply(decision_view(event))


async def explain(request: Request) -> Reply:
    """``GET /v1/decisions/{id}``."""
    runtime, decision_id = request.runtime, request.params["id"]
    rows = runtime.writer.log.about(decision_id)
    made = next((row for row in rows if row.holds(DecisionMade)), None)
    if made is None:
        raise _unknown()
    event = _decision(made)
    if not may_see(request.caller, event.token):
        raise _unknown()
    events = [(row, row.event()) for row in rows]
    asked = [each.event() for each in rows_of_round(runtime.writer.log, event)]
    return json_reply(
        Explanation(
            decision=decision_view(event),
            time_us=made.time_us,
            task_id=event.task.id,
            kind=event.task.kind,
            session=event.session,
            excluded=event.excluded or {},
            attempts=[attempt_view(each) for each in asked if isinstance(each, AttemptEnded)],
            outcomes=[_outcome(row, each) for row, each in events if isinstance(each, FeedbackGiven | Censored)],
            pending=decision_id in runtime.ledger.pending,
            why=event.decision().explain(),
            round=[each.id for each in asked if isinstance(each, DecisionMade)],
        )
    )


def may_see(caller: Caller, token: str) -> bool:
    """Whether a caller may see what the caller ``token`` has asked for: its own, and an admin everything."""
    return "admin" in caller.scopes or caller.name == token


def _unknown() -> Problem:
    """Said also of what the caller may not see."""
    message = "there is no such decision of this token; use the id that was answered, or a token with the scope admin"
    return Problem(404, "unknown_decision", message, param="id")


def decision_view(event: DecisionMade) -> DecisionView:
    """A decision as the caller sees it."""
    p = event.column("propensity").tolist()
    none = [0.0] * len(event.agents)
    columns = (event.column(name).tolist() if name in event.columns else none for name in TERMS)
    terms = zip(event.agents, *columns, strict=True)
    return DecisionView(
        id=event.id,
        agent=event.agent,
        propensity=p[event.agents.index(event.agent)],
        propensities=dict(zip(event.agents, p, strict=True)),
        terms={
            agent: TermsView(estimate=e, exploration=x, distance=w, alignment=a, cost=c, bias=b)
            for agent, e, x, w, a, c, b in terms
        },
        policy=event.policy,
        state_seq=event.state_seq,
        by=event.by,
        audit=event.audit,
        audit_probability=event.audit_probability,
        multipliers={name: value for name, value, _ in event.multipliers},
    )


def attempt_view(event: AttemptEnded) -> AttemptView:
    """An attempt as the caller sees it."""
    return AttemptView(
        agent=event.agent,
        decision_id=event.decision_id,
        number=event.number,
        ending=event.ending,
        elapsed_s=event.elapsed_s,
        first_byte_s=event.first_byte_s,
        status=event.status,
        cost_usd=event.cost_usd,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        estimated=event.estimated,
    )


def record_of(task: TaskBody) -> TaskRecord:
    """The task as it is logged: without its text."""
    return TaskRecord(task.id, task.kind, task.features, task.reference, task.profiles, task.claims)


def idempotency_key(request: Request, space: KeySpace) -> str | None:
    """The ``Idempotency-Key`` header as a key of the log, unique per kind of request and caller."""
    header = request.headers.get(b"idempotency-key")
    if header is None:
        return None
    if not 1 <= len(header) <= _LONGEST_KEY:
        raise Problem(400, "bad_idempotency_key", f"Idempotency-Key must have 1 to {_LONGEST_KEY} characters")
    return f"{space}:{request.caller.name}:{header.decode('latin-1')}"


async def _check_own_id(request: Request, decision_id: str) -> None:
    if not is_id(decision_id):
        raise Problem(
            422, "invalid_value", "id: is not a UUID of version 7 in lower case; send one, or leave it out", param="id"
        )
    rows = await request.runtime.writer.settled(decision_id)
    if any(row.holds(DecisionMade) for row in rows):
        raise Problem(409, "id_taken", "this decision id is taken", param="id")


def _decision(row: Row | None) -> DecisionMade:
    event = None if row is None else row.event()
    if not isinstance(event, DecisionMade):
        raise Problem(409, "idempotency_conflict", "this Idempotency-Key was used for something else")
    return event


def _outcome(row: Row, event: FeedbackGiven | Censored) -> OutcomeView:
    if isinstance(event, Censored):
        return OutcomeView(effect="censored", time_us=row.time_us, elapsed_s=event.elapsed_s, reason=event.reason)
    return OutcomeView(
        effect=event.effect,
        judge=event.judge,
        time_us=row.time_us,
        id=event.id,
        reward=event.reward,
        elapsed_s=event.elapsed_s,
        completed=event.completed,
        reason=event.reason,
        cost_usd=event.cost_usd,
        audit=event.audit,
    )
