"""Checks that the log can be opened, which process holds it, and its clock."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from bot_orch.errors import BotOrchError, MissingExtraError, StateFormatError
from bot_orch.log.stores.open import is_url, open_log
from bot_orch.log.stores.postgres.connect import check_version, connect, hidden, reaching
from bot_orch.log.stores.postgres.timing import split
from bot_orch.service.doctor.disk import check_folder
from bot_orch.service.doctor.findings import CheckFinding, failed, ok, warning

__all__ = ["DatabaseSeen", "see_database"]


@dataclass(frozen=True, slots=True)
class DatabaseSeen:
    """Findings about a log; ``ahead_s`` is how far our clock is ahead of the server's or of the newest event."""

    findings: tuple[CheckFinding, ...]
    ahead_s: float | None = None
    held: bool = False


def see_database(database: str) -> DatabaseSeen:
    """Inspect a log without changing it."""
    if database == ":memory:":
        return DatabaseSeen((warning("database", "in memory", "name a file, or all is forgotten at the end"),))
    return _postgres(database) if is_url(database) else _sqlite(Path(database))


def _sqlite(path: Path) -> DatabaseSeen:
    disk = check_folder(path.parent)
    try:
        if path.is_file() and not os.access(path, os.W_OK):
            problem = f"{path} cannot be written"
            return DatabaseSeen((disk, failed("database", problem, "give this user the right to write it")))
        if not path.exists():
            return DatabaseSeen((disk, ok("database", f"{path}: made at the first start")))
        log = open_log(path)
        try:
            events, time_us = log.last()
        finally:
            log.close()
    except (BotOrchError, OSError, sqlite3.Error) as error:
        return DatabaseSeen((disk, failed("database", _short(error), "name a log of this service, or another file")))
    held = _is_held(path)
    by = ", in use by a running service" if held else ""
    ahead_s = min(time.time() - time_us / 1e6, 0.0) if events else None  # an old event says nothing
    return DatabaseSeen((disk, ok("database", f"{path}: {events:,} events{by}")), ahead_s, held)


def _is_held(path: Path) -> bool:
    """Whether a process holds the lock file of the log."""
    try:
        descriptor = os.open(os.path.realpath(path) + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _postgres(url: str) -> DatabaseSeen:
    begun = time.monotonic()
    shown = hidden(url)
    try:
        with reaching(), connect(url, autocommit=True, read_only=True) as connection:
            (server_s,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            (known,) = connection.execute("SELECT to_regclass('version') IS NOT NULL").fetchone()
            if known:
                check_version(connection, split(url).schema)
        connection.close()
    except MissingExtraError as error:
        return DatabaseSeen((failed("database", f"{shown}: the driver is missing", str(error).partition("; ")[2]),))
    except StateFormatError as error:
        return DatabaseSeen((failed("database", _short(error), "upgrade this release, or use another database"),))
    except BotOrchError as error:
        return DatabaseSeen((failed("database", f"{shown}: {_short(error)}", "check host, user, password and rights"),))
    elapsed_s = time.monotonic() - begun
    what = "log found" if known else "no log yet, made at the first start"
    return DatabaseSeen((ok("database", f"{shown}: {what}, {elapsed_s:.2f} s"),), time.time() - float(server_s))


def _short(error: Exception) -> str:
    return str(error).removeprefix("log: ").partition("; ")[0]
