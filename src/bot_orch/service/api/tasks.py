"""``/v1/tasks``: whole rounds, in the foreground or background; a background round survives a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bot_orch.agents.base import CallRequest
from bot_orch.core.events import AttemptEnded, DecisionMade, TaskEnded, TaskRecord, TaskSubmitted
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.log import Wanted
from bot_orch.service.api.bodies import AttemptView, TaskRequest, TaskView
from bot_orch.service.api.decisions import (
    KeySpace,
    attempt_view,
    check_in_log,
    idempotency_key,
    key_archived,
    may_see,
    record_of,
)
from bot_orch.service.api.tracing import trace_headers
from bot_orch.service.problems import Problem, Reply, StorageError, json_reply, problem_of
from bot_orch.service.routing.requests import needs_of, size_of
from bot_orch.service.routing.rounds import Round
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.runtime import Runtime, digest_of
from bot_orch.service.storage.groups import Known
from bot_orch.service.web.endpoint import Request

_log = logging.getLogger("bot_orch.tasks")
_OPEN_TASKS = 10_000


async def create(request: Request) -> Reply:
    """``POST /v1/tasks``."""
    body: TaskRequest = request.body
    runtime = request.runtime
    key = idempotency_key(request, KeySpace.TASK)
    digest = digest_of(request.raw) if key is not None else None
    known = (await runtime.writer.look_up(keys=[key])).find(key)
    if known is not None:
        return await _known(request, known, digest)
    if len(runtime.ledger.tasks) >= _OPEN_TASKS:
        raise Problem(429, "too_many_tasks", "too many tasks are open", headers={"retry-after": "5"})
    writer = runtime.writer
    plan, time_us = _plan(request), writer.stamp()
    submitted = TaskSubmitted(
        time_ordered_id(time_us),
        record_of(body.task),
        msgspec.json.encode(plan if body.background else {}).decode(),  # other rounds are not continued
        body.background,
        body.deadline_s,
        request.caller.name,
    )
    group = writer.stage(time_us, submitted, submitted.id, key=key, digest=digest)
    round_ = _round(runtime, submitted, plan)
    round_.call = replace(round_.call, headers=trace_headers(request))
    if body.background:
        await group.durable()
        _start(runtime, submitted, round_)
        return json_reply(_running(submitted, time_us), 202)
    try:
        await _finish(runtime, submitted, round_)
    finally:
        request.headers_out |= round_.headers()
    return json_reply(await _view(request, submitted.id))


async def show(request: Request) -> Reply:
    """``GET /v1/tasks/{id}``."""
    return json_reply(await _view(request, request.params["id"], check=True))


async def resume(runtime: Runtime) -> None:
    """After a restart or a move, continue background rounds and mark the others as failed."""
    asked = await _pending_decisions(runtime) if runtime.ledger.tasks else {}
    for task_id, event in list(runtime.ledger.tasks.items()):
        if event.background:
            round_ = _round(runtime, event, msgspec.json.decode(event.input))
            round_.again = asked.get(task_id)
            _start(runtime, event, round_)
        else:
            _end(runtime, TaskEnded(task_id, "failed", error="interrupted by a restart"))


async def _pending_decisions(runtime: Runtime) -> dict[str, DecisionMade]:
    """Pending decisions of open tasks that asked an agent, by task; answers are lost with the process."""
    found = await runtime.writer.read(lambda log: log.look_up(Wanted(refs=tuple(runtime.ledger.pending))))
    rows = [row for each in found.refs.values() for row in each]
    events = [event for row in rows if isinstance(event := row.event(), DecisionMade)]
    return {event.task_ref: event for event in events if event.task_ref is not None and event.action == "ask"}


def _plan(request: Request) -> dict[str, Any]:
    """Data that a restart needs in addition to the task's record."""
    body: TaskRequest = request.body
    tags = request.tags
    return {
        "text": body.task.text,
        "eligible": body.eligible,
        "session": body.session,
        "params": body.params,
        **({"tags": tags} if tags else {}),
    }


def _round(runtime: Runtime, submitted: TaskSubmitted, plan: dict[str, Any]) -> Round:
    eligible = None if plan["eligible"] is None else tuple(plan["eligible"])
    text, record = plan["text"], submitted.task
    constraints = RoutingConstraints(
        record.kind,
        eligible,
        plan["session"],
        size=(size := size_of(plan["params"], text=text)),
        calls=True,
        token=submitted.token,
        tags=tuple(plan.get("tags", ())),
        needs=needs_of("chat", size, params=plan["params"]),
    )
    call = CallRequest(submitted.id, text, params=plan["params"], deadline_s=submitted.deadline_s)
    return Round(
        runtime,
        _with_id(record, submitted.id),
        constraints,
        call=call,
        text=text,
        task_id=submitted.id,
        resumable=submitted.background,
    )


def _with_id(record: TaskRecord, task_id: str) -> TaskRecord:
    return record if record.id else record._replace(id=task_id)


def _start(runtime: Runtime, submitted: TaskSubmitted, round_: Round) -> None:
    async def work() -> None:
        try:
            await _finish(runtime, submitted, round_)
        except Exception as error:  # the task's row in the log says how it failed; only defects are reported here
            if problem_of(error) is None:
                _log.error("task failed", exc_info=error, extra={"fields": {"task": submitted.id}})

    runtime.background.start(submitted.id, work())


async def _finish(runtime: Runtime, submitted: TaskSubmitted, round_: Round) -> None:
    """Run a round and log its end; a background round that is cancelled stays open, for the next start."""
    try:
        reply = await round_.run()
    except asyncio.CancelledError:
        if not submitted.background:
            _end(runtime, TaskEnded(submitted.id, "failed", error="cancelled", decisions=tuple(round_.decisions)))
        raise
    except StorageError:
        raise
    except Exception as error:
        problem = problem_of(error) or Problem(500, "internal", "the service failed")
        agent = round_.last.agent if round_.last else ""
        decision_id = round_.last.id if round_.last else ""
        _end(
            runtime,
            TaskEnded(
                submitted.id, "failed", decision_id, agent, error=problem.code, decisions=tuple(round_.decisions)
            ),
        )
        raise
    last = round_.last
    ended = TaskEnded(
        submitted.id,
        "completed",
        last.id if last else "",
        last.agent if last else "",
        reply.text,
        decisions=tuple(round_.decisions),
    )
    await runtime.writer.stage(runtime.writer.stamp(), ended, submitted.id).durable()


def _end(runtime: Runtime, event: TaskEnded) -> None:
    if runtime.ready:
        runtime.writer.stage(runtime.writer.stamp(), event, event.id)


async def _known(request: Request, known: Known, digest: bytes | None) -> Reply:
    if not known.used_for(digest):
        raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used with another body")
    if known.group is not None:
        await known.group.durable()
    if known.archived:
        raise key_archived()
    event = known.event()
    if not isinstance(event, TaskSubmitted):
        raise Problem(422, "idempotency_conflict", "this Idempotency-Key was used for something else")
    view = await _view(request, event.id)
    return json_reply(view, 202 if view.status == "running" else 200)


async def _view(request: Request, task_id: str, *, check: bool = False) -> TaskView:
    """The task as its caller sees it; ``check`` verifies that the caller may see it."""
    rows = await request.runtime.writer.about(task_id)
    events = [row.event() for row in rows]
    submitted = next((event for event in events if isinstance(event, TaskSubmitted)), None)
    if submitted is None:
        check_in_log(request.runtime, task_id, "id")
    if submitted is None or (check and not may_see(request.caller, submitted.token)):
        message = "there is no such task of this token; use the id that was answered, or a token with the scope admin"
        raise Problem(404, "unknown_task", message, param="id")
    ended = next((event for event in events if isinstance(event, TaskEnded)), None)
    record, begun_us = submitted.task, rows[0].time_us
    if ended is None:
        return _running(submitted, begun_us)
    return TaskView(
        id=task_id,
        status=ended.status,
        task_id=record.id,
        kind=record.kind,
        submitted_us=begun_us,
        ended_us=rows[-1].time_us,
        decisions=list(ended.decisions),
        agent=ended.agent,
        decision_id=ended.decision_id,
        output=ended.output,
        error=ended.error,
        attempts=await _attempts(request, ended.decisions),
    )


def _running(submitted: TaskSubmitted, begun_us: int) -> TaskView:
    record = submitted.task
    return TaskView(id=submitted.id, status="running", task_id=record.id, kind=record.kind, submitted_us=begun_us)


async def _attempts(request: Request, decisions: Sequence[str]) -> list[AttemptView]:
    found = await request.runtime.writer.read(lambda log: log.look_up(Wanted(refs=tuple(decisions))))
    events = [row.event() for decision_id in decisions for row in found.refs[decision_id]]
    return [attempt_view(event) for event in events if isinstance(event, AttemptEnded)]
