"""The access log: one line of JSON per request, without prompts, queries or secrets; the file may be rotated."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

from bot_orch.errors import InvalidInputError

__all__ = ["AccessLog"]

_log = logging.getLogger("bot_orch.access")


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
