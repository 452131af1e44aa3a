"""Writes the access log around the application, so that unknown paths are logged too."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from bot_orch.service.cluster.forwarding import PASSED
from bot_orch.service.operations.access import AccessLog

__all__ = ["CALLER", "REQUEST", "logged"]

CALLER, REQUEST = "bot_orch.caller", "bot_orch.request"
"""Keys of an ASGI scope: the name of the caller's token, and the request, once they are known."""


async def logged(log: AccessLog, serve: Callable[..., Awaitable[None]], scope: Any, *, receive: Any, send: Any) -> None:
    """Serve one request and write its access log line; the status is 499 if the client left early."""
    started, status = time.perf_counter(), 499

    async def noting(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    try:
        await serve(scope, receive, noting)
    finally:
        if not scope.get(PASSED):
            _write(log, scope, status, seconds=time.perf_counter() - started)


def _write(log: AccessLog, scope: Any, status: int, *, seconds: float) -> None:
    request = scope.get(REQUEST)
    out = {} if request is None else {**request.headers_out, **request.noted}
    log.write(
        method=scope["method"],
        path=scope["path"],
        status=status,
        seconds=seconds,
        token=scope.get(CALLER, ""),
        decision=out.get("x-bot-orch-decision-id", ""),
        agent=out.get("x-bot-orch-agent", ""),
    )
