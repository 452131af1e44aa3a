"""The ASGI application around a list of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
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

from bot_orch.service.problems import Problem, problem_reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.access import logged
from bot_orch.service.web.connections import connection_of
from bot_orch.service.web.endpoint import Endpoint
from bot_orch.service.web.messages import MoreHeaders, send_reply

_NO_SUCH_PATH = (
    "there is no such path; OpenAI's clients take a base URL that ends with /v1, Anthropic's one without it; "
    "/openapi.json lists all paths"
)
Serve = Callable[[Any, Any, Any], Awaitable[None]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


class App(Starlette):
    """Starlette with a shortcut: routes without parameters are looked up in a dictionary."""

    runtime: Runtime | None = None

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

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
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


def asgi_app(routes: Sequence[BaseRoute], lifespan: Lifespan, runtime: Runtime | None = None) -> App:
    """The ASGI application with these routes; ``lifespan`` starts and stops their resources."""
    app = App(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _http_error})
    app.runtime = runtime
    return app


async def _http_error(_: StarletteRequest, error: Exception) -> Response:
    """Answer unknown paths and methods with the common error body."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "unknown_path", 405: "wrong_method"}.get(status, "http_error")
    headers = dict(getattr(error, "headers", None) or {})
    message = {
        404: _NO_SUCH_PATH,
        405: f"this path takes another method: {headers.get('Allow', 'see /openapi.json')}",
    }.get(status, str(getattr(error, "detail", "error")))
    reply = problem_reply(Problem(status, code, message))
    return Response(reply.body, status, {**headers, "content-type": "application/json"})
