"""Connections to PostgreSQL, and the schema behind them."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError, StateFormatError
from bot_orch.eventlog.postgres_timing import Timing, split
from bot_orch.eventlog.sqlfiles import migrations, queries

__all__ = ["SCHEMA", "LogUnavailableError", "channel", "connect", "driver", "hidden", "prepare", "schema_version"]

SCHEMA = "bot_orch"
_DEFAULTS = {
    "connect_timeout": "5",
    "application_name": "bot-orch",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")


class LogUnavailableError(BotOrchError):
    """PostgreSQL cannot be reached, or it refuses."""


def driver() -> Any:
    """The module ``psycopg``, imported when first needed."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtraError("a log in PostgreSQL", "postgres") from error
    return psycopg


def connect(url: str, schema: str = SCHEMA, *, autocommit: bool = False, read_only: bool = False) -> Any:
    """A connection that sees ``schema`` only, notices a dead server, and waits for the disk at every commit."""
    psycopg = driver()
    if not _NAME.match(schema):
        raise InvalidInputError("schema", f"is {schema!r}", "use lower case letters, digits and _")
    plain, timing = split(url)
    try:
        given = psycopg.conninfo.conninfo_to_dict(plain)
    except psycopg.ProgrammingError as error:
        problem = f"cannot be read ({_first_line(error)})"
        raise InvalidInputError("database", problem, "write postgresql://user@host:5432/name") from None
    missing = {name: value for name, value in _DEFAULTS.items() if name not in given}
    try:
        connection = psycopg.connect(**given, **missing, autocommit=True)
    except psycopg.OperationalError as error:
        raise LogUnavailableError(f"log: PostgreSQL cannot be reached ({_first_line(error)})") from error
    connection.execute(f"SET search_path = {schema}")
    if read_only:
        connection.execute("SET default_transaction_read_only = on")
    else:
        _insist_on_the_disk(connection)
        _limit_waiting(connection, timing)
    connection.autocommit = autocommit
    return connection


def prepare(url: str, schema: str = SCHEMA) -> None:
    """Bring the schema to this release's version; replicas that start together wait for each other."""
    with connect(url, schema) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(6451060, 0)")
        known = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
        if known is None:
            connection.execute(f"CREATE SCHEMA {schema}")
        version = schema_version(connection)
        scripts = migrations("postgres")
        if version == 0:
            connection.execute("CREATE TABLE IF NOT EXISTS version (number INTEGER NOT NULL)")
            connection.execute("INSERT INTO version VALUES (0)")
            connection.execute(_fresh())
        for script in scripts[version:] if version else ():
            connection.execute(script)
        if version < len(scripts):
            connection.execute("UPDATE version SET number = %s", (len(scripts),))
    connection.close()
    if version > len(scripts):
        raise StateFormatError(f"log: has version {version}, this release reads 1 to {len(scripts)}; upgrade")


def schema_version(connection: Any) -> int:
    """How many migrations the schema has seen; 0 where there is no log."""
    if connection.execute("SELECT to_regclass('version')").fetchone()[0] is None:
        return 0
    found = connection.execute("SELECT number FROM version").fetchone()
    return 0 if found is None else int(found[0])


def channel(schema: str) -> str:
    """Where commits are announced."""
    return f"{schema}_events"


def hidden(database: str) -> str:
    """A database as it may be shown: without its password.

    Examples
    --------
    >>> hidden("postgresql://ada:secret@db/log")
    'postgresql://ada:***@db/log'
    >>> hidden("log.sqlite")
    'log.sqlite'
    """
    shown = re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", database)
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&]*", r"\1***", shown)


def _fresh() -> str:
    return (files("bot_orch.eventlog") / "sql" / "postgres_schema.sql").read_text()


def _insist_on_the_disk(connection: Any) -> None:
    if connection.execute("SHOW fsync").fetchone()[0] != "on":
        connection.close()
        raise InvalidInputError("database", "runs with fsync = off", "a crash would lose what was acknowledged")
    if connection.execute("SHOW synchronous_commit").fetchone()[0] in ("off", "local"):
        connection.execute("SET synchronous_commit = on")


def _limit_waiting(connection: Any, timing: Timing) -> None:
    """A replica that hangs in the middle of an append must not stop the others for ever."""
    connection.execute(f"SET idle_in_transaction_session_timeout = {round(1000 * timing.hold_s)}")
    connection.execute(f"SET lock_timeout = {round(2000 * timing.hold_s)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


QUERIES = queries("postgres")
