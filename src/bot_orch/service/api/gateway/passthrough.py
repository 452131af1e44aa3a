"""Paths that pass unchanged to one agent's endpoint: what a router cannot improve, such as embeddings and files."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from starlette.routing import Match, Route

from bot_orch.agents.base import CallFailure
from bot_orch.service.config.checks import PASSED_PATHS, is_own_path
from bot_orch.service.problems import Problem, Reply
from bot_orch.service.web.endpoint import Endpoint, JsonFace, Request, RouteSpec, Site
from bot_orch.service.web.messages import ClientGoneError, StreamedReply

_SENT = (b"accept", b"content-type", b"openai-beta", b"traceparent", b"tracestate", b"x-request-id")
_RETURNED = ("content-disposition", "retry-after", "x-request-id")


class _BytesFace(JsonFace):
    def takes_body(self, method: str) -> bool:
        return method in ("PATCH", "POST", "PUT")

    async def decode(self, raw: bytes | bytearray) -> bytes:
        return bytes(raw)


class _OtherPaths(Route):
    def matches(self, scope: Any) -> tuple[Match, Any]:  # the service's own paths keep their answer to a wrong method
        return (Match.NONE, {}) if is_own_path(scope.get("path", "")) else super().matches(scope)


def passthrough_route(site: Site) -> Route:
    """The route, to be put behind all others."""
    path = "/v1/{path:path}"
    spec = RouteSpec("POST", path, _passed, scope="decide", body=bytes, watch=True, large=True, face=_BytesFace)
    return _OtherPaths(path, Endpoint(site, spec), methods=["DELETE", "GET", "PATCH", "POST", "PUT"])


async def _passed(request: Request) -> Reply | StreamedReply:
    """Send the request to the agent of ``passthrough`` as it came; the answer comes as its endpoint gives it."""
    settings, path = request.runtime.config.passthrough, request.path
    listed = (*PASSED_PATHS, *(() if settings is None else settings.paths))
    known = any(path == each or path.startswith(f"{each}/") for each in listed) and ".." not in path.split("/")
    if settings is None or not known:
        remedy = "write passthrough: {agent: NAME}" if known else "name it in passthrough.paths"
        said = f"there is no such path; see /openapi.json, or {remedy} to pass it to an agent as it comes"
        raise Problem(404, "unknown_path", said)
    answer = _exchange(request, settings.agent)
    response = await anext(answer)
    request.headers_out["x-bot-orch-agent"] = settings.agent
    request.headers_out |= {name: response.headers[name] for name in _RETURNED if name in response.headers}
    if response.status in (401, 403, 407) or 300 <= response.status < 400:  # the first may quote the service's key
        await answer.aclose()
        raise Problem(502, "upstream_denied", f"the endpoint of {settings.agent} answered {response.status}")
    media = response.headers.get("content-type", "application/octet-stream").encode("latin-1")
    if response.status == 200:
        return StreamedReply(answer, media)
    return Reply(response.status, b"".join([piece async for piece in answer]), [(b"content-type", media)])


async def _exchange(request: Request, agent: str) -> Any:
    """The head of the endpoint's answer, then the pieces of its body, within the agent's time limits."""
    guard: Any = request.runtime.guards[agent]
    begun = False
    headers = {name.decode(): request.headers[name].decode("latin-1") for name in _SENT if name in request.headers}
    try:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(guard.limits.total_s):
                sent = guard.runner.passed(request.method, request.target, bytes(request.raw), headers)
                response = await stack.enter_async_context(sent)
            yield response
            begun = True
            while piece := await asyncio.wait_for(response.content.readany(), guard.limits.idle_s):
                yield piece
    except (CallFailure, TimeoutError) as error:
        if begun:
            raise ClientGoneError from error  # the connection is closed: the client sees an answer without its end
        raise Problem(504 if isinstance(error, TimeoutError) else 502, "no_answer", f"{agent} did not answer") from None
