"""``/v1/decisions``: choose an agent, explain a choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from bot_orch.core.events import AttemptEnded, Censored, DecisionMade, Event, FeedbackGiven, Noted, TaskRecord
from bot_orch.log.ids import is_id, time_of
from bot_orch.log.log import Row
from bot_orch.service.api.bodies import (
    AnswerBody,
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
from bot_orch.service.routing.explanation import NEXT_DECISION, awaits_outcome, rows_of_round
from bot_orch.service.routing.requests import RequestSize
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.routing.steps import Team, steps_in
from bot_orch.service.runtime import Runtime, digest_of
from bot_orch.service.web.auth import Caller
from bot_orch.service.web.endpoint import Request
from bot_orch.types import TERMS, Answer

_LONGEST_KEY = 256


class KeySpace(StrEnum):
    """Purpose of an idempotency key in the log; the value is its prefix there."""

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
    asked = [each.decision_id for each in body.seen]
    look = await runtime.writer.look_up(keys=[key], refs=(*_own_id(request), *asked))
    known = look.find(key)
    if known is not None:
        if not known.used_for(digest):
            raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used with another body")
        if known.group is not None:
            await known.group.durable()
        if known.archived:
            raise key_archived()
        return json_reply(decision_view(_decision(known.event())))
    if body.id is not None:
        check_in_log(runtime, body.id, "id")
    if body.id is not None and any(row.holds(DecisionMade) for row in look.about(body.id)):
        raise Problem(409, "id_taken", "this decision id is taken", param="id")
    team = _team(request, {each: look.about(each) for each in asked})
    constraints = RoutingConstraints(
        body.task.kind,
        body.eligible,
        body.session,
        size=RequestSize(len(body.task.text)),
        token=request.caller.name,
        tags=request.tags,
        tried=() if team is None else tuple(each.agent for each in team.seen),
    )
    event, group = decide(
        runtime,
        record_of(body.task),
        constraints,
        text=body.task.text,
        decision_id=None if body.id is None else body.id,
        key=key,
        digest=digest,
        round_id=asked[0] if asked else "",
        team=team,
    )
    if asked:
        note = Noted(NEXT_DECISION, asked[0], {"decision": event.id})
        group = runtime.writer.stage(runtime.writer.stamp(), note, asked[0])
    request.noted |= {"x-bot-orch-decision-id": event.id, "x-bot-orch-agent": event.agent}
    await group.durable()
    if key is not None and key in group.taken:  # another request had it: this one is answered as that was
        return await create(request)
    return json_reply(decision_view(event))


def _team(request: Request, rows: Mapping[str, Sequence[Row]]) -> Team | None:
    """The answers that the caller has looked at, with the agents that the log knows; None for a single step."""
    body: DecisionRequest = request.body
    if body.attempts == 1 and not body.seen:
        return None
    seen = []
    for place, each in enumerate(body.seen):
        known_as, where = each.decision_id, f"seen[{place}].decision_id"
        made = next((row.event() for row in rows[known_as] if row.holds(DecisionMade)), None)
        if not isinstance(made, DecisionMade) or not may_see(request.caller, made.token):
            raise Problem(422, "unknown_decision", f"{where}: is not a decision of this caller", param=where)
        if made.action != "ask" or made.id not in request.runtime.ledger.pending:
            message = f"{where}: has accepted an answer, or has its outcome; name decisions that asked an agent"
            raise Problem(422, "invalid_value", message, param=where)
        known = {name: getattr(each, name) for name in AnswerBody.__struct_fields__ if name != "decision_id"}
        seen.append(Answer(made.agent, made.id, **known))
    return Team(tuple(seen), body.attempts)


async def explain(request: Request) -> Reply:
    """``GET /v1/decisions/{id}``."""
    runtime, decision_id = request.runtime, request.params["id"]
    rows = await runtime.writer.about(decision_id)
    made = next((row for row in rows if row.holds(DecisionMade)), None)
    if made is None:
        check_in_log(runtime, decision_id, "id")
        raise _unknown()
    event = _decision(made.event())
    if not may_see(request.caller, event.token):
        raise _unknown()
    told = {event.id, event.answers[0].decision_id} if event.action == "accept" else {event.id}
    of_round = [(row, row.event()) for row in await runtime.writer.read(lambda log: rows_of_round(log, event))]
    asked = [each for _, each in of_round]
    return json_reply(
        Explanation(
            decision=decision_view(event),
            time_us=made.time_us,
            task_id=event.task.id,
            kind=event.task.kind,
            session=None if event.session is None else event.session,
            excluded=event.excluded or {},
            attempts=[attempt_view(each) for each in asked if isinstance(each, AttemptEnded)],
            outcomes=[
                _outcome(row, each)
                for row, each in of_round
                if row.ref in told and isinstance(each, FeedbackGiven | Censored)
            ],
            pending=await awaits_outcome(runtime, rows),
            why=event.decision().explain(),
            round=[each.id for each in asked if isinstance(each, DecisionMade)],
            steps=steps_in(asked),
        )
    )


def may_see(caller: Caller, token: str) -> bool:
    """Whether a caller may see a request of ``token``: its own requests, or with the scope admin all."""
    return "admin" in caller.scopes or caller.name == token


def _unknown() -> Problem:
    """The error for unknown decisions, and for decisions that the caller may not see."""
    message = "there is no such decision of this token; use the id that was answered, or a token with the scope admin"
    return Problem(404, "unknown_decision", message, param="id")


def decision_view(event: DecisionMade) -> DecisionView:
    """A decision, for an answer."""
    p = event.column("propensity").tolist()
    none = [0.0] * len(event.agents)
    known = event.columns()
    columns = (known[name].tolist() if name in known else none for name in TERMS)
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
        action=event.action,
    )


def attempt_view(event: AttemptEnded) -> AttemptView:
    """An attempt, for an answer."""
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
    """The task as it is logged, without its text."""
    return TaskRecord.of(task.id, task)


def idempotency_key(request: Request, space: KeySpace) -> str | None:
    """The ``Idempotency-Key`` header as a key of the log, unique per kind of request and caller."""
    header = request.headers.get(b"idempotency-key")
    if header is None:
        return None
    if not 1 <= len(header) <= _LONGEST_KEY:
        raise Problem(400, "bad_idempotency_key", f"Idempotency-Key must have 1 to {_LONGEST_KEY} characters")
    return f"{space}:{request.caller.name}:{header.decode('latin-1')}"


def _own_id(request: Request) -> tuple[str, ...]:
    """The decision id that the caller asks for, as stored in the log, if it is valid."""
    body: DecisionRequest = request.body
    if body.id is None:
        return ()
    if not is_id(body.id):
        raise Problem(
            422, "invalid_value", "id: is not a UUID of version 7 in lower case; send one, or leave it out", param="id"
        )
    return (body.id,)


def _decision(event: Event | None) -> DecisionMade:
    if not isinstance(event, DecisionMade):
        raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used for something else")
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
        cost_usd=event.cost_usd or 0.0,
        audit=event.audit,
    )


def check_in_log(runtime: Runtime, known_as: str, param: str) -> None:
    """Refuse an id that is older than the first event in the log."""
    made_us, archived_us = time_of(known_as), runtime.writer.archived_us  # 0 without an archive
    if made_us is not None and archived_us and made_us <= archived_us:
        message = f"{param}: is older than the log, whose first events are in an archive; an operator can read them"
        raise Problem(410, "archived", message, param=param)


def key_archived() -> Problem:
    """A key that an archived event has used."""
    message = "this Idempotency-Key was used before; the answer is in an archive, and nothing is done again"
    return Problem(410, "archived", message)
