"""Several routers behind one port: selection of a request's router, and pages under a router's path.

A path ``/r/NAME/...``, a model ``auto:NAME`` or the caller's token names the router. A request that names none goes to
the router that knows its decision or task, else to the default one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bot_orch.log.ids import is_id
from bot_orch.service.judging.completions import decision_of_completion
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.runtime import Runtime
from bot_orch.service.web.auth import Caller

ROUTER_PATH = "/r/"
NO_SUCH_PATH = (
    "there is no such path; OpenAI's clients take a base URL that ends with /v1, Anthropic's one without it; "
    "/openapi.json lists all paths"
)
_MODEL = "auto:"
_SHARED = r"(?!r/|static/|login|logout)"  # paths that are the same for all routers
_LINK = re.compile(rb'((?:href|action|src|data-live)=\\?")/' + _SHARED.encode())
_OWN = re.compile(rb"/" + _SHARED.encode())


def of_caller(runtime: Runtime, prefix: str, caller: Caller, *, people: str, path: str) -> Runtime:
    """The router of the caller's token, if it names one; refuses tokens of other routers.

    ``people`` is the method of a page: a person who opens a page of no router in particular is led to the right one.
    """
    wanted = caller.router
    if caller.may_use(runtime.config.name):
        return runtime
    if wanted is None:
        raise Problem(404, "unknown_path", NO_SUCH_PATH)
    if people and not prefix and people == "GET":
        raise Problem(
            303,
            "other_router",
            "this token is for another router",
            headers={"location": f"{ROUTER_PATH}{wanted}{path}"},
        )
    if people or prefix:
        raise _foreign(wanted)
    return runtime.peers[wanted]


async def of_request(
    runtime: Runtime, prefix: str, caller: Caller, *, body: Any, params: Mapping[str, str]
) -> Runtime | None:
    """The router that the request names: by its model, or by the id of a decision or task.

    ``None`` if it is about a decision or task that none here knows.
    """
    model = body.get("model") if isinstance(body, dict) else None
    if isinstance(model, str) and model.startswith(_MODEL):
        name = model.removeprefix(_MODEL)
        if name not in runtime.peers:
            raise Problem(404, "model_not_found", "there is no such router; see /v1/routers", param="model")
        if caller.router is not None and name != caller.router:
            raise _foreign(caller.router)
        if prefix and name != runtime.config.name:
            raise Problem(400, "other_router", "model: names another router than the path", param="model")
        body["model"] = "auto"
        return runtime.peers[name]
    if prefix or caller.router is not None:
        return runtime
    known_as = getattr(body, "decision_id", None) or params.get("id")
    completion_id = getattr(body, "completion_id", None)
    if not known_as and isinstance(completion_id, str):
        for each in _loaded(runtime, caller):
            known_as = known_as or await decision_of_completion(each, completion_id)
    if not known_as and isinstance(completion_id, str) and runtime.forwarder is not None:
        return None
    if isinstance(known_as, str) and is_id(known_as):
        return await _owner(runtime, known_as, caller)
    return runtime


async def _owner(runtime: Runtime, known_as: str, caller: Caller) -> Runtime | None:
    """The router whose log contains a decision, task or ticket."""
    every = _loaded(runtime, caller)
    for each in every:
        if known_as in each.ledger.pending or known_as in each.ledger.tasks:
            return each
    for each in every:
        if await each.writer.about(known_as):
            return each
    return None


def _loaded(runtime: Runtime, caller: Caller) -> list[Runtime]:
    """All loaded routers that the caller may use, the requested one first."""
    others = [each for name, each in runtime.peers.items() if each is not runtime and caller.may_use(name)]
    return [each for each in (runtime, *others) if each.loaded]


def _foreign(name: str) -> Problem:
    return Problem(403, "other_router", f"this token is for the router {name!r} alone; ask {ROUTER_PATH}{name}/")


def under(prefix: str, reply: Reply) -> Reply:
    """Rewrite the links, forms and redirects of a page to a prefix, except those shared by all routers."""
    start = prefix.encode()
    headers = [
        (name, start + value if name == b"location" and _OWN.match(value) else value) for name, value in reply.headers
    ]
    media = dict(reply.headers).get(b"content-type", b"")
    rewrites = media.startswith((b"text/html", b"application/json"))
    body = _LINK.sub(rb"\1" + start + b"/", reply.body) if rewrites else reply.body
    return Reply(reply.status, body, headers)
