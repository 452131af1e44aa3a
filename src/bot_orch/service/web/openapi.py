"""The OpenAPI document, made from a table of routes and the types of their bodies and answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import UnionType
from typing import Any, get_args

import msgspec

from bot_orch._version import __version__
from bot_orch.service.web.endpoint import RouteSpec

_TEMPLATE = "#/components/schemas/{name}"
_COMMON = (400, 401, 403, 405, 408, 413, 422)
_SUMMARIES = {
    200: "Done, and on disk",
    202: "Accepted, and on disk",
    400: "Not JSON, or too deep",
    401: "No valid token",
    403: "The token lacks a scope",
    404: "There is no such thing",
    410: "It is in the archive of the log",
    405: "Another method is needed",
    408: "The body came too slowly",
    409: "The name is taken, or was used with another body",
    413: "Too large",
    422: "A value is not acceptable, or the Idempotency-Key was used with another body",
    429: "Too much at once",
    502: "No agent gave an answer",
    503: "Not now; nothing was acknowledged",
    504: "No agent answered in time",
}


def document(specs: Sequence[RouteSpec]) -> dict[str, Any]:
    """The document that describes these routes."""
    given = [each for route in specs for each in (route.body, route.answer) if each is not None]
    types = [part for each in given for part in _alternatives(each)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    by_type = list(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in specs:
        paths.setdefault(route.path.replace(":path}", "}"), {})[route.method.lower()] = _operation(route, by_type)
    error = {"type": "object", "properties": {"error": {"type": "object"}}, "required": ["error"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "BOT-Orch", "version": __version__, "description": "Who should do it, learned as it goes."},
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: RouteSpec, by_type: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "summary": route.summary,
        "responses": {str(status): _response(route, status, by_type) for status in _statuses(route)},
    }
    names = re.findall(r"{(\w+)(?::path)?}", route.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}} for name in route.query
    ]
    if route.path in ("/v1/decisions", "/v1/tasks") and route.method == "POST":
        schema = {"type": "string", "minLength": 1, "maxLength": 256}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema})
    if parameters:
        operation["parameters"] = parameters
    if route.scope is not None:
        operation["security"] = [{"token": []}, {}]
    if route.body is not None:
        media = getattr(route.face, "media", "application/json")
        content = {media: {"schema": _schema(route.body, by_type)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _statuses(route: RouteSpec) -> list[int]:
    common = _COMMON if route.body is not None else (400, 401, 403, 405)
    return sorted({*route.statuses, *common})


def _response(route: RouteSpec, status: int, by_type: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    said: dict[str, Any] = {"description": _SUMMARIES[status]}
    if status >= 400:
        said["content"] = {"application/json": {"schema": {"$ref": _TEMPLATE.format(name="Error")}}}
    elif route.answer is not None:
        content = {"application/json": {"schema": _schema(route.answer, by_type)}}
        if route.large:  # what a model answers may be streamed
            content["text/event-stream"] = {"schema": {"type": "string"}}
        said["content"] = content
    else:
        said["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return said


def _alternatives(type_: Any) -> tuple[Any, ...]:
    """The members of a union of records, which msgspec cannot describe; else the type itself."""
    return get_args(type_) if isinstance(type_, UnionType) else (type_,)


def _schema(type_: Any, by_type: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
    found = [next(schema for each, schema in by_type if each == part) for part in _alternatives(type_)]
    return found[0] if len(found) == 1 else {"anyOf": found}
