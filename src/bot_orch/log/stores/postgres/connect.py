"""Connections to PostgreSQL, and the schema behind them."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError, StateFormatError
from bot_orch.log.stores.postgres.deadlines import connected
from bot_orch.log.stores.postgres.timing import Timing, split
from bot_orch.log.stores.postgres.url import check_password, hidden, unquoted
from bot_orch.log.stores.sqlfiles import queries

__all__ = [
    "MAIN_STREAM",
    "LogUnavailableError",
    "check_version",
    "connect",
    "driver",
    "find_stream",
    "heed_the_driver",
    "hidden",
    "prepare",
    "reaching",
]

MAIN_STREAM = 1
_VERSION = 1
_SCHEMA_S = 60.0  # another process may make the schema, on a slow disk
_DEFAULTS = {
    "application_name": "bot-orch",
    "client_encoding": "UTF8",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class LogUnavailableError(BotOrchError):
    """PostgreSQL cannot be reached, or it refuses."""


def driver() -> Any:
    """The module ``psycopg``, imported when first needed."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError("a log in PostgreSQL", "postgres") from error
    return psycopg


def heed_the_driver() -> None:
    """Route log messages of the driver to our handler, if one is configured."""
    ours, theirs = logging.getLogger("bot_orch"), logging.getLogger("psycopg")
    if ours.handlers and not ours.propagate:
        theirs.handlers, theirs.propagate = ours.handlers, False


@contextmanager
def reaching() -> Iterator[None]:
    """Translate server and connection errors into one line with a remedy."""
    psycopg = driver()
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        remedy = "connect as the owner of the log, or grant the role what it needs"
        raise LogUnavailableError(f"log: PostgreSQL refuses ({_first_line(error)}); {remedy}") from error
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
        raise LogUnavailableError(f"log: PostgreSQL does not answer ({_first_line(error)})") from error


def connect(
    url: str, *, autocommit: bool = False, read_only: bool = False, ended: threading.Event | None = None
) -> Any:
    """A connection restricted to one schema that detects a dead server and waits for the disk at every commit.

    It gives up when the server is silent for ``query_s``, and at once when ``ended`` is set.
    """
    psycopg = driver()
    plain, timing, schema, _ = split(url)
    check_password(plain)
    try:
        given = psycopg.conninfo.conninfo_to_dict(plain)
    except psycopg.ProgrammingError as error:
        problem = f"cannot be read ({unquoted(_first_line(error))})"
        raise InvalidInputError("database", problem, "write postgresql://user@host:5432/name") from None
    defaults = _DEFAULTS | {"connect_timeout": str(math.ceil(timing.query_s))}
    missing = {name: value for name, value in defaults.items() if name not in given}
    if ended is not None and ended.is_set():
        raise LogUnavailableError("log: it is being closed")
    try:
        connection = connected(psycopg, ended, **given, **missing, autocommit=True)
    except psycopg.OperationalError as error:
        raise LogUnavailableError(f"log: PostgreSQL cannot be reached ({_first_line(error)})") from error
    connection.limit(timing.query_s, ended)
    try:
        _set_up(connection, schema, timing, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    connection.autocommit = autocommit
    return connection


def _set_up(connection: Any, schema: str, timing: Timing, *, read_only: bool) -> None:
    """Configure the session in one round trip."""
    with connection.pipeline():
        connection.execute(f"SET search_path = {schema}")
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
        else:
            _limit_waiting(connection, timing)
            fsync = connection.execute("SHOW fsync")
            synchronous = connection.execute("SHOW synchronous_commit")
    if not read_only:
        if fsync.fetchone()[0] != "on":
            raise InvalidInputError("database", "runs with fsync = off", "a crash would lose what was acknowledged")
        if synchronous.fetchone()[0] in ("off", "local"):
            connection.execute("SET synchronous_commit = on")


def _limit_waiting(connection: Any, timing: Timing) -> None:
    """Set server-side timeouts, so that a process that hangs in an append does not block the others."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {round(1000 * timing.query_s)}")
    connection.execute(f"SET lock_timeout = {round(2000 * timing.query_s)}")


def prepare(url: str) -> None:
    """Create the schema if it is missing; concurrent processes wait for each other."""
    schema = split(url).schema
    with reaching(), connect(url) as connection:
        if _version(connection) == _VERSION:
            return
        connection.limit(_SCHEMA_S)
        _insist_on_unicode(connection)
        connection.execute("SELECT pg_advisory_xact_lock(6451060, 0)")
        known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
        if known is None:
            connection.execute(f"CREATE SCHEMA {schema}")
        if _version(connection) == 0:
            connection.execute((files("bot_orch.log.stores") / "sql" / "postgres_schema.sql").read_text())
            connection.execute("INSERT INTO version VALUES (%s)", (_VERSION,))


def check_version(connection: Any, schema: str) -> None:
    """Refuse a schema without a log, or with a log of another release."""
    version = _version(connection)
    if version == 0:
        raise StateFormatError(f"log: schema {schema} is not a log, or this role may not see it; check URL and rights")
    if version != _VERSION:
        problem = f"log: schema {schema} has version {version}, this release reads {_VERSION}"
        raise StateFormatError(f"{problem}; use the release that wrote it, or another schema or database")


def find_stream(connection: Any, name: str, *, make: bool) -> int:
    """The number of a stream; creates it if it is missing and ``make`` is set."""
    streams = {each: int(number) for number, each in connection.execute(QUERIES["streams"]).fetchall()}
    if name in streams:
        return streams[name]
    if not make:
        others = ", ".join(sorted(filter(None, streams))) or "no others"
        raise InvalidInputError("database.stream", f"there is no {name!r}", f"there are the main one, and {others}")
    found = connection.execute(QUERIES["make_stream"], (name,)).fetchone()
    connection.commit()
    return int(found[0])


def _version(connection: Any) -> int:
    """The version of the schema; 0 without a log."""
    if connection.execute("SELECT to_regclass('version')").fetchone()[0] is None:
        return 0
    found = connection.execute("SELECT number FROM version").fetchone()
    return 0 if found is None else int(found[0])


def _insist_on_unicode(connection: Any) -> None:
    encoding = connection.execute("SHOW server_encoding").fetchone()[0]
    if encoding != "UTF8":
        raise InvalidInputError("database", f"has the encoding {encoding}", "make one with ENCODING 'UTF8'")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


QUERIES = queries("postgres")
