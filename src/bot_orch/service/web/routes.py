"""Routes of the API, in one table from which the application and the OpenAPI document are built."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from starlette.routing import BaseRoute, Route

from bot_orch.service.web.endpoint import Endpoint, Handler, JsonFace, Site

__all__ = ["RouteSpec"]


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route.

    Parameters
    ----------
    method, path, handler
        What is asked for, and the function that answers.
    scope
        Scope that a token needs; ``None`` if it needs no token.
    summary
        For the OpenAPI document.
    body, answer
        Types of the request body and of the answer; ``None`` for no body, and for text instead of JSON.
    statuses
        Additional statuses, beyond those that all routes share.
    watch
        Whether to cancel the handler when the caller disconnects.
    query
        Names of parameters behind the path, for the OpenAPI document; all are optional.
    large
        Whether bodies may hold images: ``limits.body_bytes`` counts, not a megabyte.
    face
        How errors look.
    tenants
        Whether tokens of a tenant are answered; by default unless the scope is ``admin``.
    everywhere
        Whether every process of a service answers it, for itself and the others.
    carried
        Whether a process answers it for routers that another one owns.
    """

    method: str
    path: str
    handler: Handler
    _: KW_ONLY
    scope: str | None
    summary: str
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = (200,)
    watch: bool = False
    large: bool = False
    face: type[JsonFace] = JsonFace
    query: tuple[str, ...] = ()
    tenants: bool | None = None
    everywhere: bool = False
    carried: bool = False

    def route(self, site: Site) -> BaseRoute:
        """The route for the application; a request with a body may decide or log something."""
        endpoint = Endpoint(
            site,
            self.handler,
            route=self.path,
            scope=self.scope,
            face=self.face(self.body),
            decides=self.body is not None and self.scope == "decide",
            watch=self.watch,
            large=self.large,
            tenants=self.tenants,
            everywhere=self.everywhere,
            carried=self.carried,
        )
        return Route(self.path, endpoint, methods=[self.method])
