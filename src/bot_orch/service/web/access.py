"""The access log: one line of JSON per request, also for unknown paths; no prompts, queries or secrets."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.service.cluster.forwarding import PASSED

_log = logging.getLogger("bot_orch.access")
CALLER, REQUEST = "bot_orch.caller", "bot_orch.request"
"""Keys of an ASGI scope: the name of the caller's token, and the request, once they are known."""


class AccessLog(WatchedFileHandler):
    """Appends lines to a file; on write errors lines are dropped, with one warning.

    Parameters
    ----------
    path
        The file; made if missing, with mode 0600, also after it was moved away.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            _make(path)
            super().__init__(path, encoding="utf-8")
        except OSError as error:
            problem = f"{path} cannot be written ({error.strerror})"
            raise InvalidInputError("config.access_log", problem, "name a file in a folder that exists") from error
        self._broken = False

    def write(
        self,
        *,
        method: str,
        path: str,
        status: int,
        seconds: float,
        token: str = "",
        decision: str = "",
        agent: str = "",
    ) -> None:
        """Write one line; fields without a value are omitted."""
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "method": method,
            "path": path,
            "status": status,
            "ms": round(1e3 * seconds, 2),
            **{key: value for key, value in (("token", token), ("decision", decision), ("agent", agent)) if value},
        }
        self.handle(logging.makeLogRecord({"msg": json.dumps(line)}))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line to the file that is at the path now."""
        try:
            _make(self.baseFilename)
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  of logging
        """Warn once that lines are lost."""
        if not self._broken:
            _log.warning("access log not written", extra={"fields": {"detail": str(sys.exc_info()[1])}})
        self._broken = True


def _make(path: str | Path) -> None:
    if not Path(path).exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


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
