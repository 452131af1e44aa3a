"""One decision in full: terms, probabilities, excluded agents, attempts, outcomes, the answer."""

from __future__ import annotations

from collections.abc import Sequence

from bot_orch.core.events import RESTARTED, AttemptEnded, Censored, DecisionMade, Event, FeedbackGiven, Noted, TaskEnded
from bot_orch.log.log import Row
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.routing.explanation import awaits_outcome, rows_of_round, why_view
from bot_orch.service.routing.steps import steps_in
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Request
from bot_orch.service.web.pages import Safe, document, html, join, link, moment, render
from bot_orch.service.web.terms import number, terms_table


async def decision_page(request: Request) -> Reply:
    """``GET /decisions/{id}``."""
    runtime, decision_id = request.runtime, request.params["id"]
    rows = await runtime.writer.about(decision_id)
    events = [(row, row.event()) for row in rows]
    made = next(((row, event) for row, event in events if isinstance(event, DecisionMade)), None)
    if made is None:
        raise Problem(404, "unknown_decision", "there is no such decision")
    row, event = made
    told = [(each, each.event()) for each in await runtime.writer.read(lambda log: rows_of_round(log, event))]
    why = why_view(event)
    body = render(
        "decision.html",
        id=event.id,
        agent=event.agent,
        propensity=number(why.propensity),
        by="the policy" if event.by == "policy" else f"a rule ({event.by})",
        policy=event.policy,
        lambda_=number(event.lambda_, 2),
        at=f"{moment(row.time_us, runtime.writer.now_us())} UTC",
        task=event.task.id or "–",
        kind=_kind(event.task.kind),
        state_seq=event.state_seq,
        terms=terms_table(why, event.agent),
        steps=_steps([each for _, each in told]),
        history=_history(told, runtime.writer.now_us()),
        answer=await _answer(runtime, event),
        waiting="An outcome is still due." if await awaits_outcome(runtime, rows) else "",
    )
    return document("Decision", body, here="/decisions", caller=request.caller)


def _kind(kind: str) -> Safe | str:
    """A link to the dashboard filtered by this kind."""
    return html('<a href="{href}">{kind}</a>', href=link("/", {"kind": kind}), kind=kind) if kind else "–"


def _steps(events: Sequence[Event]) -> Safe:
    """What a round did that looked at its answers before it delivered one."""
    lines = join(html("<li>{line}</li>", line=line) for line in steps_in(events))
    card = '<section class="card"><h2>Steps</h2><ol class="steps">{lines}</ol></section>'
    return html(card, lines=lines) if lines else lines


_STEP = "<li><time>{at}</time> <b>{what}</b> {detail}</li>"


def _history(events: Sequence[tuple[Row, Event]], now_us: int) -> Safe:
    steps = []
    for row, event in events:
        if isinstance(event, DecisionMade):
            what, detail = ("accepted" if event.action == "accept" else "decided"), f"for {event.agent}"
        elif isinstance(event, AttemptEnded):
            what, detail = f"attempt {event.number}", f"{event.agent}: {event.ending} after {event.elapsed_s:.3f} s"
        elif isinstance(event, FeedbackGiven):
            reward = "no reward" if event.reward is None else f"reward {event.reward:.3f}"
            kind = "audit" if event.audit else "feedback"
            what, detail = f"{kind} ({event.effect})", reward + (f", {event.reason}" if event.reason else "")
        elif isinstance(event, Censored):
            what, detail = "censored", f"{event.reason} after {event.elapsed_s:.1f} s"
        elif isinstance(event, Noted) and event.topic == RESTARTED:
            what, detail = "drift alarm", f"{event.data.get('agent', '')} was started afresh"
        else:
            continue
        steps.append(html(_STEP, at=moment(row.time_us, now_us), what=what, detail=detail))
    return join(steps)


async def _answer(runtime: Runtime, event: DecisionMade) -> Safe:
    """The agent's answer, if the service has called it; escaped as text."""
    rows = await runtime.writer.about(event.task_ref) if event.task_ref else []
    ended = next((found for row in rows if isinstance(found := row.event(), TaskEnded)), None)
    if ended is None or not ended.output:
        return Safe("")
    card = '<section class="card"><h2>Answer of {agent}</h2><div class="text" dir="auto">{text}</div></section>'
    return html(card, agent=ended.agent, text=ended.output)
