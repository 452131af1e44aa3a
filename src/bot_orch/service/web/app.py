"""The ASGI application."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from bot_orch.errors import BotOrchError, MissingExtraError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request as StarletteRequest
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the service", "service") from _error

from bot_orch.service.api.tasks import resume
from bot_orch.service.dashboard import routes as dashboard
from bot_orch.service.problems import Problem, Reply, json_reply, problem_reply
from bot_orch.service.queue import mount as queue
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.endpoint import Endpoint, Request
from bot_orch.service.web.openapi import document
from bot_orch.service.web.routes import ROUTES, RouteSpec

__all__ = ["make_app"]


class _App(Starlette):
    """Routes without parameters are looked up at once: their endpoints need no router and catch their own errors."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        endpoint = self._fixed.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        await (super().__call__(scope, receive, send) if endpoint is None else endpoint(scope, receive, send))

    @cached_property
    def _fixed(self) -> dict[tuple[str, str], Endpoint]:
        return {
            (method, route.path): route.endpoint
            for route in self.routes
            if isinstance(route, Route) and type(route.endpoint) is Endpoint and "{" not in route.path
            for method in route.methods or ()
        }


def make_app(runtime: Runtime) -> Starlette:
    """The application around a runtime; starting and stopping it starts and stops the runtime."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            await runtime.start()
        except (BotOrchError, OSError, sqlite3.Error) as error:
            app.state.failure = error
            raise
        if runtime.replica is None:
            resume(runtime)
        else:
            runtime.replica.take_over(resume)
        try:
            yield
        finally:
            await runtime.stop()

    app = _App(routes=_routes(runtime), lifespan=lifespan, exception_handlers={HTTPException: _http_error})
    app.state.runtime, app.state.failure = runtime, None
    return app


def _routes(runtime: Runtime) -> list[BaseRoute]:
    own = RouteSpec("GET", "/openapi.json", _openapi, None, "This description")
    api: list[BaseRoute] = [spec.route(runtime) for spec in (*ROUTES, own)]
    return [*api, *queue.routes(runtime), *dashboard.routes(runtime)]


async def _openapi(_: Request) -> Reply:
    return json_reply(document())


async def _http_error(_: StarletteRequest, error: Exception) -> Response:
    """Unknown paths and methods get the same shape of answer as everything else."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "unknown_path", 405: "wrong_method"}.get(status, "http_error")
    reply = problem_reply(Problem(status, code, str(getattr(error, "detail", "error"))))
    headers = dict(getattr(error, "headers", None) or {})
    return Response(reply.body, status, {**headers, "content-type": "application/json"})
