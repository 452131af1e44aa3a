"""``/v1/feedback``: how it turned out; late, early, repeated and revised reports each count once, or not at all."""

from __future__ import annotations

import msgspec

from bot_orch.eventlog.events import Censored, FeedbackGiven, measure_of
from bot_orch.eventlog.ids import is_id
from bot_orch.eventlog.log import Row
from bot_orch.service.api.bodies import FeedbackRequest, FeedbackView
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.runtime import Runtime, digest_of
from bot_orch.service.storage.writer import Group
from bot_orch.service.web.endpoint import Request

__all__ = ["create", "learn"]

_encoder = msgspec.json.Encoder(order="deterministic")


async def create(request: Request) -> Reply:
    """``POST /v1/feedback``."""
    body: FeedbackRequest = request.body
    view, group = await learn(request.runtime, body)
    if group is not None:
        await group.durable()
    request.runtime.metrics.count("bot_orch_feedback_total", effect="duplicate" if view.duplicate else view.effect)
    return json_reply(view)


async def learn(runtime: Runtime, body: FeedbackRequest) -> tuple[FeedbackView, Group | None]:
    """Take a report; the group says when it is on disk.

    A report without an id is known by its content: sending the same again counts once, another content is a revision.
    """
    digest = digest_of(_encoder.encode(body))
    feedback_id = body.id or f"auto-{digest.hex()}"
    key = None if body.id is None else f"f:{body.id}"
    rows: list[Row] | None = None
    while True:  # at most twice; nothing may be staged between the last look and staging
        if key is not None and (known := runtime.writer.find(key)) is not None:
            seq, used, group = known
            if used != digest:
                raise Problem(409, "feedback_conflict", "this feedback id was used with another body", param="id")
            return await _repeated(runtime, feedback_id, body.decision_id, seq, group)
        if body.decision_id in runtime.ledger.pending:
            effect = "learned"
        elif rows is None:
            rows = await runtime.writer.settled(body.decision_id)
            continue
        else:
            effect = _effect(runtime, body, rows, feedback_id)
        break
    if effect.startswith("duplicate:"):
        return FeedbackView(feedback_id, body.decision_id, effect.removeprefix("duplicate:"), True), None
    event = _event(body, feedback_id, effect)
    event.outcome()  # refuses what is no outcome, also where nothing is learned from it
    group = runtime.writer.stage(runtime.writer.stamp(), event, body.decision_id, key=key, digest=digest)
    return FeedbackView(feedback_id, body.decision_id, effect), group


def _event(body: FeedbackRequest, feedback_id: str, effect: str) -> FeedbackGiven:
    return FeedbackGiven(
        feedback_id,
        body.decision_id,
        effect,
        body.reward,
        body.elapsed_s,
        body.completed,
        body.reason,
        None if body.output is None else measure_of(body.output).to_dict(),
        body.cost_usd,
    )


async def _repeated(
    runtime: Runtime, feedback_id: str, decision_id: str, seq: int, group: Group | None
) -> tuple[FeedbackView, Group | None]:
    if group is not None:
        await group.durable()
    row = runtime.writer.log.row(seq)
    event = None if row is None else row.event()
    effect = event.effect if isinstance(event, FeedbackGiven) else "learned"
    return FeedbackView(feedback_id, decision_id, effect, True), None


def _effect(runtime: Runtime, body: FeedbackRequest, rows: list[Row], feedback_id: str) -> str:
    events = [row.event() for row in rows]
    reports = [event for event in events if isinstance(event, FeedbackGiven)]
    same = next((event for event in reports if event.id == feedback_id), None)
    if same is not None:
        return f"duplicate:{same.effect}"
    if any(row.kind.startswith("decision") for row in rows):
        cut_off = any(isinstance(event, Censored) for event in events)
        return "late" if cut_off and not reports else "revision"
    if not is_id(body.decision_id):
        raise Problem(404, "unknown_decision", "there is no such decision", param="decision_id")
    if len(runtime.ledger.early) >= runtime.config.limits.early_feedback:
        raise Problem(429, "too_much_early", "too much feedback waits for decisions that are not known", param="id")
    return "early" if not reports else "revision"
