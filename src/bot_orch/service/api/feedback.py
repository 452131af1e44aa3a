"""``/v1/feedback``: outcomes of decisions; late, early, repeated and revised reports count at most once."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import msgspec

from bot_orch.core.events import Censored, DecisionMade, FeedbackGiven, measure_of
from bot_orch.errors import InvalidInputError
from bot_orch.log.ids import is_id
from bot_orch.log.log import Row
from bot_orch.service.api.bodies import FeedbackRequest, FeedbackView, OutcomeReport, SessionView
from bot_orch.service.api.decisions import KeySpace, check_in_log
from bot_orch.service.judging.completions import credited, decision_of_completion
from bot_orch.service.judging.verdicts import outranks, thumbs_of
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.reports import ReportSource, feedback_id
from bot_orch.service.routing.decision import check_measure
from bot_orch.service.runtime import Runtime, digest_of
from bot_orch.service.storage.groups import Group, Known
from bot_orch.service.web.endpoint import Request
from bot_orch.types import Outcome, check_reason

_EARLY = 10_000  # reports that wait for their decision
_MOST_CREDITED = 1000
_encoder = msgspec.json.Encoder(order="deterministic")


async def create(request: Request) -> Reply:
    """``POST /v1/feedback``."""
    body: FeedbackRequest = request.body
    if body.session is not None:
        return json_reply(await _credit(request, body))
    view, group = await learn(request, await _named(request, body))
    await _acknowledge(request.runtime, view, group)
    return json_reply(view)


async def _acknowledge(runtime: Runtime, view: FeedbackView, group: Group | None) -> None:
    if group is not None:
        await group.durable()
    runtime.metrics.count("bot_orch_feedback_total", effect="duplicate" if view.duplicate else view.effect)


async def _credit(request: Request, body: FeedbackRequest) -> SessionView:
    """Report a session's reward for each of its decisions."""
    if body.decision_id or body.completion_id or body.audit or body.shown or body.output is not None:
        message = "session: stands alone, with a reward; leave out decision_id, completion_id, audit, shown and output"
        raise Problem(422, "invalid_value", message, param="session")
    if body.reward is None:
        raise Problem(422, "invalid_value", "reward: is missing; a session is credited with a reward", param="reward")
    runtime, session = request.runtime, body.session or ""
    found = await credited(runtime, session, body.last or _MOST_CREDITED)
    if not found:
        message = "session: there are no decisions of this session; name it when you ask for decisions"
        raise Problem(404, "unknown_session", message, param="session")
    views = []
    for decision_id in found:
        own = None if body.id is None else f"{body.id}/{decision_id}"
        plain = OutcomeReport(decision_id=decision_id, id=own, reward=body.reward)
        view, group = await learn(request, plain)
        await _acknowledge(runtime, view, group)
        views.append(view)
    return SessionView(session=session, credited=views)


async def _named(request: Request, body: FeedbackRequest) -> OutcomeReport:
    """The report with its decision's id in the log."""
    if not body.decision_id and body.completion_id is None:
        message = "decision_id: is missing; add it, or name a completion_id or a session"
        raise Problem(422, "invalid_value", message, param="decision_id")
    if body.decision_id and body.completion_id is not None:
        message = "decision_id: stands beside completion_id; leave one of them out"
        raise Problem(422, "invalid_value", message, param="decision_id")
    decision_id: str | None = body.decision_id
    if body.completion_id is not None:
        decision_id = await decision_of_completion(request.runtime, body.completion_id)
    elif not is_id(body.decision_id):  # callers have the id of an answer at hand
        answered = await decision_of_completion(request.runtime, body.decision_id)
        decision_id = answered or decision_id
    if decision_id is None:
        message = (
            "completion_id: is not known; ids that an endpoint gives are kept if a judge of kind thumbs is configured, "
            "and x-bot-orch-decision-id names the decision in any case"
        )
        raise Problem(404, "unknown_completion", message, param="completion_id")
    values = {name: getattr(body, name) for name in OutcomeReport.__struct_fields__}
    return OutcomeReport(**{**values, "decision_id": decision_id})


async def learn(request: Request, body: OutcomeReport) -> tuple[FeedbackView, Group | None]:
    """Log a report that names its decision by log id; await the group before acknowledging it.

    A report without an id is identified by its content: the same content again counts once, another is a revision.
    """
    runtime = request.runtime
    check_measure(body.output, "output")
    body = _in_range(runtime, body)
    digest = digest_of(_encoder.encode(body))
    known_as = body.id or feedback_id(ReportSource.CONTENT, digest.hex())
    key = None if body.id is None else f"{KeySpace.FEEDBACK}:{body.id}"
    judge = _judge_of(runtime, body)
    known_before = not judge and (body.decision_id in runtime.ledger.pending or _is_second(runtime, body))
    refs, shown = () if known_before else (body.decision_id,), body.decision_id
    event = _event(body, known_as, judge=judge)
    outcome = None if body.shown else event.outcome()  # raises an error, even if nothing is learned from it
    while True:  # at most three times; nothing may be staged between the last look and staging
        look = await runtime.writer.look_up(keys=[key], refs=refs)
        known = look.find(key)
        if known is not None:
            if not known.used_for(digest):
                raise Problem(409, "feedback_conflict", "this feedback id was used with another body", param="id")
            if known.group is not None:
                await known.group.durable()
            return _repeated(known, shown, known_as), None
        if body.decision_id in runtime.ledger.pending:
            judged = _of_pending(runtime, body, outcome)
        elif _is_second(runtime, body):
            judged = _Judgement("audited")
        elif not refs:  # its outcome has arrived in the meantime
            refs = (body.decision_id,)
            continue
        elif learner := _learner_in(look.about(body.decision_id)):
            body = msgspec.structs.replace(body, decision_id=learner)
            refs = (learner,)
            continue
        else:
            judged = _judge(request, body, look.about(body.decision_id), known_as=known_as)
        break
    agent = _agent_in(look.about(body.decision_id)) if judge else ""
    view = FeedbackView(id=known_as, decision_id=shown, effect=judged.effect, duplicate=judged.duplicate)
    if judged.duplicate:
        return view, None
    event, stamp = (
        replace(event, decision_id=body.decision_id, effect=judged.effect, agent=agent),
        runtime.writer.stamp(),
    )
    group = runtime.writer.stage(stamp, event, body.decision_id, made=outcome, key=key, digest=digest)
    return view, group


def _in_range(runtime: Runtime, body: OutcomeReport) -> OutcomeReport:
    """The report, with a reward that rounding put outside of the range clipped; one farther outside is refused."""
    if body.reward is None:
        return body
    known = runtime.ledger.router.reward.range
    try:
        reward = known.check(body.reward, "reward")
    except InvalidInputError as error:
        remedy = "rescale it; an operator can state another range in config.router.reward"
        raise InvalidInputError("reward", error.problem, remedy) from error
    return body if reward == body.reward else msgspec.structs.replace(body, reward=reward)


def _judge_of(runtime: Runtime, body: OutcomeReport) -> str:
    """The name of the judge that the caller stands for; empty if the report is not a judgement."""
    return "" if body.audit or body.shown or body.reward is None else thumbs_of(runtime.config)


def _agent_in(rows: list[Row]) -> str:
    """The agent of a decision, given its rows in the log; empty if the decision is unknown."""
    events = (row.event() for row in rows if row.holds(DecisionMade))
    return next((event.agent for event in events if isinstance(event, DecisionMade)), "")


def _learner_in(rows: list[Row]) -> str:
    """The decision that learns what is reported of one that has accepted an answer, once their round has an outcome."""
    events = (row.event() for row in rows if row.holds(DecisionMade))
    made = next((event for event in events if isinstance(event, DecisionMade)), None)
    return made.answers[0].decision_id if made is not None and made.action == "accept" else ""


class _Judgement(NamedTuple):
    """How a report counts, and whether it was logged before."""

    effect: str
    duplicate: bool = False


def _event(body: OutcomeReport, known_as: str, *, judge: str) -> FeedbackGiven:
    """The report as an event, whose effect and agent are not known yet."""
    if not (body.completed or body.shown):
        check_reason(body.reason)
    if body.completed and not body.shown and body.reward is None and body.elapsed_s is None:
        raise InvalidInputError("outcome.reward", "is missing", "pass reward, or elapsed_s for a survival reward")
    return FeedbackGiven(
        known_as,
        body.decision_id,
        "",
        body.reward,
        body.elapsed_s,
        body.completed,
        body.reason,
        None if body.output is None else measure_of(body.output).to_dict(),
        body.cost_usd or None,
        body.audit,
        judge=judge,
        reset_s=body.reset_s,
    )


def _of_pending(runtime: Runtime, body: OutcomeReport, outcome: Outcome | None) -> _Judgement:
    """How a report about a pending decision counts."""
    if outcome is not None:
        return _Judgement(runtime.ledger.router.effect_of(body.decision_id, outcome) or "")
    if body.output is None:
        raise Problem(422, "invalid_value", "output: is missing; shown reports an output", param="output")
    known = body.decision_id in runtime.ledger.router.shown
    return _Judgement("shown", duplicate=known)


def _is_second(runtime: Runtime, body: OutcomeReport) -> bool:
    """Whether a report is the second verdict on an audited decision: the truth after the judge's, or the reverse."""
    first = runtime.ledger.router.verdicts.get(body.decision_id)
    return first is not None and not body.shown and first.audit != body.audit


def _repeated(known: Known, decision_id: str, known_as: str) -> FeedbackView:
    event = known.event()
    effect = event.effect if isinstance(event, FeedbackGiven) else "archived" if known.archived else "learned"
    return FeedbackView(id=known_as, decision_id=decision_id, effect=effect, duplicate=True)


def _judge(request: Request, body: OutcomeReport, rows: list[Row], *, known_as: str) -> _Judgement:
    """How a report about a decision that is not pending counts, given all rows about that decision."""
    runtime = request.runtime
    events = [row.event() for row in rows]
    reports = [event for event in events if isinstance(event, FeedbackGiven) and event.effect != "shown"]
    same = next((event for event in reports if event.id == known_as), None)
    if same is not None:
        return _Judgement(same.effect, duplicate=True)
    made = next((event for event in events if isinstance(event, DecisionMade)), None)
    if body.audit and made is not None and not made.audit:
        raise Problem(422, "invalid_value", "audit: this decision is not marked for an audit", param="audit")
    if body.reward is not None and not body.shown and runtime.ledger.router.is_silent(body.decision_id):
        return _Judgement("replaced")
    kept = runtime.ledger.router.judge_of(body.decision_id)
    if kept is not None and body.reward is not None and not body.shown and not body.audit:
        better = outranks(runtime.config, _judge_of(runtime, body), kept)
        return _Judgement("replaced" if better else "outranked")
    if made is not None:
        censored = any(isinstance(event, Censored) for event in events)
        return _Judgement("late" if censored and not reports else "revision")
    if not reports:
        check_in_log(runtime, body.decision_id, "decision_id")
    if not is_id(body.decision_id):
        message = (
            "decision_id: there is no such decision; a report may come before its decision if the id is a UUID of "
            "version 7 in lower case, which the decision is then asked for with"
        )
        raise Problem(404, "unknown_decision", message, param="decision_id")
    if len(runtime.ledger.router.early) >= _EARLY:
        raise Problem(
            429,
            "too_much_early",
            "too much feedback waits for decisions that are not known; ask for those first",
            param="decision_id",
        )
    return _Judgement("early" if not reports else "revision")
