"""The table of routes: path, method, scope, body, answer. The application and OpenAPI are both made from it."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.routing import BaseRoute, Route

from bot_orch.service.api import admin, bodies, decisions, feedback, gateway, tasks
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Endpoint, Handler, JsonFace

__all__ = ["ROUTES", "RouteSpec"]


class RouteSpec(NamedTuple):
    """One route. ``scope`` is what a token must allow; ``None`` is open to everybody who reaches the port."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    summary: str
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = (200,)
    watch: bool = False

    def route(self, runtime: Runtime) -> BaseRoute:
        """The route of the application; a request with a body may decide or write something down."""
        turn, face = self.body is not None, JsonFace(self.body)
        endpoint = Endpoint(runtime, self.handler, self.path, self.scope, face, turn=turn, watch=self.watch)
        return Route(self.path, endpoint, methods=[self.method])


ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec(
        "POST",
        "/v1/decisions",
        decisions.create,
        "decide",
        "Who should do it",
        bodies.DecisionRequest,
        bodies.DecisionView,
        (200, 409, 503),
    ),
    RouteSpec(
        "GET",
        "/v1/decisions/{id}",
        decisions.explain,
        "decide",
        "Why that one",
        None,
        bodies.Explanation,
        (200, 404),
    ),
    RouteSpec(
        "POST",
        "/v1/feedback",
        feedback.create,
        "feedback",
        "How it turned out",
        bodies.FeedbackRequest,
        bodies.FeedbackView,
        (200, 404, 409, 429, 503),
    ),
    RouteSpec(
        "POST",
        "/v1/tasks",
        tasks.create,
        "decide",
        "Do it: decide, ask, fall back, learn",
        bodies.TaskRequest,
        bodies.TaskView,
        (200, 202, 409, 429, 502, 503, 504),
        watch=True,
    ),
    RouteSpec("GET", "/v1/tasks/{id}", tasks.show, "decide", "How far it is", None, bodies.TaskView, (200, 404)),
    RouteSpec(
        "POST",
        "/v1/chat/completions",
        gateway.complete,
        "decide",
        "OpenAI-compatible; model auto",
        dict[str, Any],
        dict[str, Any],
        (200, 404, 429, 502, 503, 504),
        watch=True,
    ),
    RouteSpec("GET", "/v1/models", gateway.models, "decide", "auto and every agent", None, dict[str, Any]),
    RouteSpec("GET", "/v1/agents", admin.agents, "decide", "Agents and circuits", None, list[bodies.AgentView]),
    RouteSpec("GET", "/v1/admin/state", admin.state, "admin", "Where the log stands", None, bodies.StateView),
    RouteSpec(
        "POST",
        "/v1/admin/kill-switch",
        admin.kill_switch,
        "admin",
        "Everything to one agent",
        bodies.KillSwitchRequest,
        dict[str, Any],
        (200, 503),
    ),
    RouteSpec("GET", "/health/live", admin.live, None, "The process answers", None, dict[str, str]),
    RouteSpec("GET", "/health/ready", admin.ready, None, "The log takes writes", None, dict[str, str], (200, 503)),
    RouteSpec("GET", "/metrics", admin.metrics, "admin", "For Prometheus"),
)
