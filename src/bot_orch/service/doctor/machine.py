"""Checks of what the service needs on this machine: its log, the disk below, the port.

A check makes findings; none changes anything.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import shutil
import socket
import sqlite3
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot_orch.errors import BotOrchError, MissingExtraError, StateFormatError
from bot_orch.log.stores.open import is_url, open_log
from bot_orch.log.stores.postgres.connect import check_version, connect, hidden, reaching, split
from bot_orch.service.config import ListenConfig

_LITTLE_BYTES, _LEAST_BYTES = 1_000_000_000, 100_000_000
_SLOW_S = 0.1
_WRITES = 5
_TIMEOUT_S = 3.0
State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check; ``remedy`` is empty if it is ok."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def ok(check: str, detail: str) -> CheckFinding:
    """A finding that needs no action."""
    return CheckFinding(check=check, state="ok", detail=detail)


def warning(check: str, detail: str, remedy: str) -> CheckFinding:
    """A finding that deserves attention; the service works."""
    return CheckFinding(check=check, state="warning", detail=detail, remedy=remedy)


def failed(check: str, detail: str, remedy: str) -> CheckFinding:
    """The service does not work as configured."""
    return CheckFinding(check=check, state="failed", detail=detail, remedy=remedy)


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


def check_folder(folder: Path) -> CheckFinding:
    """Write and sync a few pages next to the log; a missing folder is created at the first start."""
    place = folder
    try:
        place = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(place).free
        sync_s = statistics.median(_sync_s(place) for _ in range(_WRITES))
    except OSError as error:
        problem = f"{place} cannot be written ({error.strerror or error})"
        return failed("disk", problem, "free some space, or let the database be in a folder of this user")
    detail = f"{place}: {free / 1e9:.1f} GB free, a write is on disk after {1000 * sync_s:.1f} ms"
    if free < _LEAST_BYTES:
        return failed("disk", detail, "free at least 1 GB: the log is only appended to")
    if free < _LITTLE_BYTES:
        return warning("disk", detail, "free at least 1 GB: the log is only appended to")
    if sync_s > _SLOW_S:
        return warning("disk", detail, "every acknowledged request waits for it: use a local disk")
    return ok("disk", detail)


def _sync_s(folder: Path) -> float:
    with tempfile.NamedTemporaryFile(prefix=".bot-orch-doctor-", dir=folder) as file:
        begun = time.perf_counter()
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
        return time.perf_counter() - begun


def check_port(listen: ListenConfig) -> CheckFinding:
    """Bind the address briefly; if that fails, find out what is listening."""
    at = f"{listen.host}:{listen.port}"
    if listen.port == 0:
        return ok("port", f"{at}: the system chooses one")
    try:
        family, kind, _, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(1)
    except OSError as error:
        if _is_ours(listen):
            return ok("port", f"{at}: a running service answers")
        problem = f"{at} cannot be used ({error.strerror or error})"
        return failed("port", problem, "end the program that has it, or choose another with listen.port or --port")
    return ok("port", f"{at}: free")


def _is_ours(listen: ListenConfig) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)  # noqa: S104  to reach it
    connection = http.client.HTTPConnection(host, listen.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health/live")
        found = json.loads(connection.getresponse().read(1000))
        return isinstance(found, dict) and found.get("status") == "live"
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
