"""One decision: filter the agents, let the orchestrator choose, log the choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot_orch.agents.admission import Refusal
from bot_orch.core.events import DecisionMade, Noted, TaskRecord, as_recorded, record_decision, record_task
from bot_orch.log.ids import time_ordered_id
from bot_orch.service.problems import Problem
from bot_orch.service.routing.rules import Eligibility, RoutingConstraints, expected_usd, narrow
from bot_orch.service.routing.steps import Team
from bot_orch.service.runtime import Runtime
from bot_orch.service.storage.groups import Group

_POINTS = 1_000  # time for distances grows faster than the size
_LABELS = 400  # the first measure with so many labels takes a tenth of a second, with 1000 two seconds


def check_measure(document: Any, where: str) -> None:
    """Refuse a measure with a list of more than 1000 entries, or 400 labels, before anything is computed."""
    labels = isinstance(document, dict) and document.get("kind") == "labels"
    most = _LABELS if labels else _POINTS
    todo = [document]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, list | tuple):
            if len(value) > most:
                message = f"{where}: holds {len(value)} entries; send {most} at most"
                raise Problem(422, "invalid_value", message, param=where)
            todo += [each for each in value if isinstance(each, dict | list | tuple)]


def check_measures(record: TaskRecord) -> None:
    """Refuse a task whose reference or profiles are too large."""
    if record.reference is not None:
        check_measure(record.reference, "task.reference")
    for name, profile in (record.profiles or {}).items():
        check_measure(profile, f"task.profiles.{name}")


#: Topic of the note, about a session, that names one of its decisions.
SESSION = "session.decision"


def decide(
    runtime: Runtime,
    record: TaskRecord,
    constraints: RoutingConstraints,
    *,
    text: str | None = None,
    decision_id: str | None = None,
    key: str | None = None,
    digest: bytes | None = None,
    task_ref: str | None = None,
    round_id: str = "",
    team: Team | None = None,
) -> tuple[DecisionMade, Group]:
    """Choose an agent now; await the group before acknowledging the decision.

    ``text`` is context if the router has an encoder; its numbers are logged, not the text. ``key`` and ``digest`` are
    those of an idempotent request; ``task_ref`` is the task of a whole round, ``round_id`` the round's first decision.
    With ``team`` the decision is a step after the answers of the round: to ask another agent, or to accept an answer.
    """
    writer = runtime.writer
    check_measures(record)
    if record.reference is None and runtime.reference is not None:
        record = record._replace(reference=runtime.reference)
    known = runtime.ledger.router.settings
    if known.n_features and not known.names and not record.features:  # a caller that knows nothing of features
        record = record._replace(features=(0.0,) * known.n_features)
    now_us = writer.now_us()
    if runtime.ledger.router.settings.timed:
        record = record._replace(time_s=now_us / 1e6)
    found = _narrowed(runtime, constraints, now_us, team=team)
    caps = runtime.caps or None
    router = runtime.ledger.router
    task, eligible = as_recorded(record.task()), found.eligible(router.agents)
    if router.settings.text is not None:
        task = router.encoded(task if text is None else replace(task, text=text))
    if task.reference is not None or task.profiles:
        record = record_task(task)  # normalised by the measures, so that it can be logged and decoded
    time_us = writer.stamp()
    known_as = decision_id or time_ordered_id(time_us)
    # a refused measure leaves no trace
    made = router.prepare(task, eligible, caps=caps, decision_id=known_as, **({} if team is None else team._asdict()))
    asks, ends = made.action == "ask", team is None or made.action == "accept"
    try:
        event = record_decision(
            made,
            record,
            eligible=eligible,
            excluded=found.excluded,
            session=constraints.session,
            task_ref=task_ref,
            round_id=round_id,
            by=found.by,
            token=constraints.token,
            tags=constraints.tags,
            reserved_usd=(held := _reserved(runtime, made.agent, constraints) if asks else None),
            briefly=held is not None and not constraints.calls,
            caps=caps,
        )
        group = writer.stage(time_us, event, event.id, made=made, key=key, digest=digest)
    except Exception as error:  # it may have been applied, but is not logged
        writer.distrust(error)
        raise
    if constraints.session is not None and ends:  # what a session earns is credited to what was delivered
        note = Noted(SESSION, constraints.session, {"decision": event.id})
        group = writer.stage(writer.stamp(), note, runtime.ref_of_session(constraints.session))
    if asks:
        runtime.metrics.count("bot_orch_decisions_total", agent=event.agent)
    return event, group


def _narrowed(
    runtime: Runtime, constraints: RoutingConstraints, now_us: int, *, team: Team | None = None
) -> Eligibility:
    """The eligible agents, with those whose answer may be accepted; counts those excluded by load."""
    seen = () if team is None else tuple(each.agent for each in team.seen)
    excluded: Mapping[str, str] = {}
    try:
        found = narrow(
            constraints,
            runtime.config.router,
            runtime.ledger,
            guards=runtime.guards,
            now_us=now_us,
        )
        excluded = found.excluded
    except Problem as problem:
        excluded = (problem.details or {}).get("excluded", {})
        if not seen:
            raise
        found = Eligibility([], dict(excluded))
    finally:
        for name, why in excluded.items():
            if why == Refusal.BUSY:
                runtime.metrics.count("bot_orch_diverted_total", agent=name)
    if seen:
        found.left += seen
        found.excluded = {name: why for name, why in found.excluded.items() if name not in seen}
    return found


def _reserved(runtime: Runtime, agent: str, constraints: RoutingConstraints) -> float | None:
    """The amount to reserve until the outcome reports the real cost."""
    if runtime.config.router.budget.window_usd is None:
        return None
    return expected_usd([agent], runtime.guards, constraints.size)[agent]
