"""The ASGI application around a list of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from bot_orch.errors import MissingExtraError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request as StarletteRequest
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
except ImportError as _error:  # pragma: no cover
    raise MissingExtraError("the service", "service") from _error

from bot_orch.service.cluster.forwarding import PASSED, WHOLE_PATH
from bot_orch.service.problems import Problem, problem_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.access import CALLER, REQUEST, logged
from bot_orch.service.web.connections import connection_of
from bot_orch.service.web.endpoint import Endpoint
from bot_orch.service.web.messages import MoreHeaders, send_reply
from bot_orch.service.web.router_selection import NO_SUCH_PATH, ROUTER_PATH

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


class _App(Starlette):
    """Starlette with a shortcut: routes without parameters are looked up in a dictionary."""

    runtime: Runtime | None = None
    router_apps: Mapping[str, _App] = MappingProxyType({})  # one application per router, for paths that name it

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one ASGI connection."""
        connection = connection_of(scope)
        if connection is None or scope["type"] != "http":
            await self._log(scope, receive, send)
            return
        try:
            connection.request_began(scope)
            await self._log(scope, partial(connection.receive, receive), send)
        except Problem as problem:  # with its head
            await send_reply(problem_reply(problem), MoreHeaders([], {}), send)
        finally:
            connection.answer_complete()

    async def _log(self, scope: Any, receive: Any, send: Any) -> None:
        access = None if self.runtime is None else self.runtime.access
        if access is not None and scope["type"] == "http":
            await logged(access, self._serve, scope, receive=receive, send=send)
        else:
            await self._serve(scope, receive, send)

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one ASGI connection without an access log line."""
        await self._serve(scope, receive, send)

    def replace(self, routes: Sequence[BaseRoute]) -> None:
        """Replace the routes."""
        self.router.routes[:] = routes
        self.__dict__.pop("_fixed", None)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if self.router_apps and scope["type"] == "http" and scope["path"].startswith(ROUTER_PATH):
            name, _, rest = scope["path"].removeprefix(ROUTER_PATH).partition("/")
            if name in self.router_apps:
                inner = {**scope, "path": f"/{rest}", WHOLE_PATH: scope["path"]}
                try:
                    await self.router_apps[name].serve(inner, receive, send)
                finally:
                    scope.update({key: inner[key] for key in (CALLER, REQUEST, PASSED) if key in inner})
                return
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


def mount_routers(app: Starlette, routes: Mapping[str, Sequence[BaseRoute]]) -> None:
    """Serve paths that begin with ``/r/NAME`` with the routes of that router."""
    if isinstance(app, _App):
        app.router_apps = {name: _router_app(each) for name, each in routes.items()}


def mount_router(app: Starlette, name: str, routes: Sequence[BaseRoute], *, main: Sequence[BaseRoute] | None) -> None:
    """Replace the routes of one router; ``main`` are the routes without its path if it is the default router."""
    if isinstance(app, _App):
        app.router_apps = {**app.router_apps, name: _router_app(routes)}
        if main is not None:
            app.replace(main)


def served(app: Starlette) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """The application without its access log."""
    return app.serve if isinstance(app, _App) else app


def _router_app(routes: Sequence[BaseRoute]) -> _App:
    return _App(routes=routes, exception_handlers={HTTPException: _http_error})


def asgi_app(routes: Sequence[BaseRoute], lifespan: Lifespan, runtime: Runtime | None = None) -> Starlette:
    """The ASGI application with these routes; ``lifespan`` starts and stops their resources."""
    app = _App(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_error})
    app.runtime = runtime
    return app


async def _http_error(_: StarletteRequest, error: Exception) -> Response:
    """Answer unknown paths and methods with the common error body."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "unknown_path", 405: "wrong_method"}.get(status, "http_error")
    headers = dict(getattr(error, "headers", None) or {})
    message = {
        404: NO_SUCH_PATH,
        405: f"this path takes another method: {headers.get('Allow', 'see /openapi.json')}",
    }.get(status, str(getattr(error, "detail", "error")))
    reply = problem_reply(Problem(status, code, message))
    return Response(reply.body, status, {**headers, "content-type": "application/json"})
