"""The table of API routes: path, method, scope, body, answer."""

from __future__ import annotations

from typing import Any

from bot_orch.service.api import admin, bodies, decisions, feedback, tasks, views
from bot_orch.service.api.gateway.routes import GATEWAY_ROUTES
from bot_orch.service.api.keys import KEY_ROUTES
from bot_orch.service.api.queue import QUEUE_ROUTES
from bot_orch.service.judging.views import JudgeView
from bot_orch.service.web.endpoint import Handler, RouteSpec


def _on_agent(action: str, handler: Handler, summary: str) -> RouteSpec:
    """A route for operators that acts on an agent."""
    path, statuses = f"/v1/admin/agents/{{id}}/{action}", (200, 404, 503)
    return RouteSpec("POST", path, handler, scope="admin", summary=summary, answer=dict[str, Any], statuses=statuses)


ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec(
        "POST",
        "/v1/decisions",
        decisions.create,
        scope="decide",
        summary="Who should do it",
        body=bodies.DecisionRequest,
        answer=bodies.DecisionView,
        statuses=(200, 409, 410, 503),
    ),
    RouteSpec(
        "GET",
        "/v1/decisions/{id}",
        decisions.explain,
        scope="decide",
        summary="Why that one",
        answer=bodies.Explanation,
        statuses=(200, 404, 410),
    ),
    RouteSpec(
        "POST",
        "/v1/feedback",
        feedback.create,
        scope="feedback",
        summary="How it turned out",
        body=bodies.FeedbackRequest,
        answer=bodies.FeedbackView | bodies.SessionView,
        statuses=(200, 404, 409, 410, 429, 503),
    ),
    RouteSpec(
        "GET",
        "/v1/judges",
        views.judges,
        scope="admin",
        summary="What judges said of each agent, against audits",
        answer=list[JudgeView],
    ),
    RouteSpec(
        "POST",
        "/v1/tasks",
        tasks.create,
        scope="decide",
        summary="Do it: decide, ask, fall back, learn",
        body=bodies.TaskRequest,
        answer=bodies.TaskView,
        statuses=(200, 202, 410, 429, 502, 503, 504),
        watch=True,
    ),
    RouteSpec(
        "GET",
        "/v1/tasks/{id}",
        tasks.show,
        scope="decide",
        summary="How far it is",
        answer=bodies.TaskView,
        statuses=(200, 404, 410),
    ),
    *GATEWAY_ROUTES,
    RouteSpec(
        "GET", "/v1/agents", admin.agents, scope="decide", summary="Agents and circuits", answer=list[bodies.AgentView]
    ),
    RouteSpec(
        "GET",
        "/v1/spend",
        views.spending,
        scope="admin",
        summary="What was spent, by token, tag, agent or day",
        answer=bodies.SpendView,
        statuses=(200, 422),
        query=("by", "from", "to"),
    ),
    RouteSpec(
        "GET",
        "/v1/objective",
        views.objective,
        scope="decide",
        summary="What is optimised, and multipliers of its limits",
        answer=bodies.ObjectiveView,
    ),
    RouteSpec(
        "GET", "/v1/admin/state", admin.state, scope="admin", summary="Where the log stands", answer=bodies.StateView
    ),
    RouteSpec(
        "POST",
        "/v1/admin/kill-switch",
        admin.kill_switch,
        scope="admin",
        summary="Everything to one agent",
        body=bodies.KillSwitchRequest,
        answer=dict[str, Any],
        statuses=(200, 503),
    ),
    *KEY_ROUTES,
    _on_agent("reset", admin.reset, "Call an agent again that was held back"),
    _on_agent("drain", admin.drain, "No new work for an agent"),
    _on_agent("resume", admin.resume, "New work for a drained agent"),
    RouteSpec(
        "POST",
        "/v1/admin/reload",
        admin.reload,
        scope="admin",
        summary="Apply the changed configuration file",
        everywhere=True,
        answer=bodies.ReloadView,
        statuses=(200, 409, 422, 503),
    ),
    RouteSpec("GET", "/health/live", admin.live, scope=None, summary="The process answers", answer=dict[str, str]),
    RouteSpec(
        "GET",
        "/health/ready",
        admin.ready,
        scope=None,
        summary="The log takes writes",
        answer=dict[str, str],
        statuses=(200, 503),
    ),
    RouteSpec("GET", "/metrics", admin.metrics, scope="metrics", summary="For Prometheus", everywhere=True),
)

API_ROUTES = (*ROUTES, *QUEUE_ROUTES)
"""All routes, including those of the queue, as described by the OpenAPI document."""
