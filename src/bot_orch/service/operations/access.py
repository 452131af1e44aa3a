"""The access log: one line of JSON per request, without prompts, queries or secrets.

The file may be rotated at any time: once a second, and at a reload (SIGHUP), the log looks whether its file is still
the one at the path, and opens a new one if not.
"""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

from bot_orch.errors import InvalidInputError

__all__ = ["AccessLog"]

_log = logging.getLogger("bot_orch.access")
_LOOK_S = 1.0


class AccessLog:
    """Appends lines to a file; on write errors lines are dropped, with one warning.

    Parameters
    ----------
    path
        The file; made if missing, with mode 0600.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            self._file: TextIOWrapper | None = _open(self._path)
        except OSError as error:
            problem = f"{self._path} cannot be written ({error.strerror})"
            raise InvalidInputError("config.access_log", problem, "name a file in a folder that exists") from error
        self._looked_at, self._broken = time.monotonic(), False

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
        try:
            if time.monotonic() - self._looked_at >= _LOOK_S or self._file is None:
                self.reopen()
            if self._file is not None:
                self._file.write(json.dumps(line) + "\n")
                self._broken = False
        except OSError as error:
            self._give_up(error)

    def reopen(self) -> None:
        """Open a new file if the old one was moved away."""
        self._looked_at = time.monotonic()
        try:
            if self._file is None or not _same(self._file, self._path):
                self.close()
                self._file = _open(self._path)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _give_up(self, error: OSError) -> None:
        if not self._broken:
            _log.warning("access log not written", extra={"fields": {"detail": str(error.strerror or error)}})
        self._broken = True


def _open(path: Path) -> TextIOWrapper:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")


def _same(file: TextIOWrapper, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
