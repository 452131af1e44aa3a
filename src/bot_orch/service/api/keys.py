"""Keys of callers, by API: create, list, rotate and revoke them while the service runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot_orch.core.events import Noted
from bot_orch.service.api.bodies import KeyRequest, KeyView, NewKeyView
from bot_orch.service.problems import Problem, Reply, json_reply
from bot_orch.service.web.endpoint import Request, RouteSpec
from bot_orch.service.web.keys import KEY_PATH, active, created, revoked

_DAY_US = 86_400_000_000
_PLACE = "/v1/admin/keys"


async def _create(request: Request) -> Reply:
    """``POST /v1/admin/keys``."""
    body: KeyRequest = request.body
    config, now_us = request.runtime.config, request.runtime.clock.now_us()
    if not config.tokens:
        message = "this service answers everybody on this machine; configure a token with the scope admin first"
        raise Problem(409, "no_tokens", message)
    names = {each.name for each in config.tokens} | {each["name"] for each in _active(request).values()}
    if body.name in names:
        message = f"name: {body.name!r} is taken; rotate that key, or choose another name"
        raise Problem(409, "name_taken", message, param="name")
    document = {
        "name": body.name,
        "scopes": list(body.scopes),
        "tags": list(body.tags),
        "expires_us": None if body.days is None else now_us + round(body.days * _DAY_US),
    }
    return await _issue(request, document)


async def _list(request: Request) -> Reply:
    """``GET /v1/admin/keys``."""
    return json_reply([_view(each) for each in _active(request).values()])


async def _rotate(request: Request) -> Reply:
    """``POST /v1/admin/keys/{id}/rotate``: a new key with the same rights; the old one works for a day."""
    digest, key = _one(request)
    document = {name: key.get(name) for name in ("name", "scopes", "tags", "expires_us")}
    return await _issue(request, document, replaces=digest)


async def _revoke(request: Request) -> Reply:
    """``POST /v1/admin/keys/{id}/revoke``."""
    digest, key = _one(request)
    await _note(request, revoked(digest, request.caller.name))
    return json_reply(_view(key))


async def _whose(request: Request) -> Reply:
    """``GET /v1/key``: the rights of the token that asks."""
    caller = request.caller
    found = {"name": caller.name, "scopes": sorted(caller.scopes), "tags": caller.tags}
    return json_reply(found)


async def _issue(request: Request, document: Mapping[str, Any], replaces: str = "") -> Reply:
    token, note = created(document, by=request.caller.name, replaces=replaces)
    await _note(request, note)
    return json_reply(NewKeyView(**_fields(note.data), token=token))


async def _note(request: Request, note: Noted) -> None:
    writer = request.runtime.writer
    await writer.stage(writer.stamp(), note, note.ref).durable()


def _active(request: Request) -> Mapping[str, Mapping[str, Any]]:
    runtime = request.runtime
    return active(runtime.ledger.rollout.keys, runtime.clock.now_us())


def _one(request: Request) -> tuple[str, Mapping[str, Any]]:
    for digest, key in _active(request).items():
        if key["id"] == request.params["id"]:
            return digest, key
    raise Problem(404, "unknown_key", f"there is no such key; see {_PLACE}")


def _view(key: Mapping[str, Any]) -> KeyView:
    return KeyView(**_fields(key))


def _fields(key: Mapping[str, Any]) -> dict[str, Any]:
    return {name: key.get(name) for name in KeyView.__struct_fields__}


KEY_ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec(
        "POST",
        _PLACE,
        _create,
        scope="admin",
        summary="A new key, shown once",
        body=KeyRequest,
        answer=NewKeyView,
        statuses=(200, 409, 422, 503),
    ),
    RouteSpec("GET", _PLACE, _list, scope="admin", summary="Keys in use", answer=list[KeyView], statuses=(200, 404)),
    RouteSpec(
        "POST",
        f"{_PLACE}/{{id}}/rotate",
        _rotate,
        scope="admin",
        summary="A new key with the same rights; the old one works for a day",
        answer=NewKeyView,
        statuses=(200, 404, 503),
    ),
    RouteSpec(
        "POST",
        f"{_PLACE}/{{id}}/revoke",
        _revoke,
        scope="admin",
        summary="End a key",
        answer=KeyView,
        statuses=(200, 404, 503),
    ),
    RouteSpec(
        "GET",
        KEY_PATH,
        _whose,
        scope="any",
        summary="The rights of this token",
        answer=dict[str, Any],
        everywhere=True,
    ),
)
