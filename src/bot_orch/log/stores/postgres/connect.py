"""Connections to PostgreSQL: URLs with settings of our own, deadlines, and the schema.

The server's own timeouts do not help where nothing arrives: a connection that acknowledges but does not deliver looks
alive to TCP. Every wait of a connection ends after ``query_s`` of silence, and at once if the log is closed; the
connection is closed then, because the state of the server is unknown.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import unquote

from bot_orch.errors import BotOrchError, InvalidInputError, MissingExtraError, StateFormatError
from bot_orch.log.stores.sql import queries, schema_script

MAIN_STREAM = 1
SCHEMA = "bot_orch"
_VERSION = 1
_SCHEMA_S = 60.0  # another process may make the schema, on a slow disk
_POLL_S = 0.1
_SETTING = re.compile(r"(?<=[?&\s])(lease_s|query_s|clock_s|schema|stream)=([^&\s]*)(?:[&\s]|\Z)")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
_LEAST_S, _MOST_S = 0.5, 3600.0
_LONGEST_STREAM = 200
_REMEDY = "write it percent-encoded (@ is %40, / is %2F, % is %25), or set PGPASSWORD instead"
_DEFAULTS = {
    "application_name": "bot-orch",
    "client_encoding": "UTF8",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


QUERIES = queries("postgres")


@dataclass(frozen=True, slots=True)
class Timing:
    """Deadlines in seconds.

    Parameters
    ----------
    lease_s
        The time base of leases: an owner that is silent for 0.6 of it may be replaced.
    query_s
        A server that is silent for so long is given up, and so is a client within a transaction. A request waits twice
        as long for its commit.
    clock_s
        A process whose clock is so far ahead of the server's owns nothing.
    """

    lease_s: float = 8.0
    query_s: float = 3.0
    clock_s: float = 2.0

    def __post_init__(self) -> None:
        for name in ("lease_s", "query_s", "clock_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and _LEAST_S <= value <= _MOST_S):
                raise InvalidInputError(f"database.{name}", f"is {value:g}", f"set {_LEAST_S:g} to {_MOST_S:g}")


class LogAddress(NamedTuple):
    """A log in PostgreSQL: the part for libpq, our deadlines, the service's schema, the router's stream."""

    plain: str
    timing: Timing = Timing()
    schema: str = SCHEMA
    stream: str = ""


def split(url: str) -> LogAddress:
    """Split a URL into the part for libpq and our own settings.

    Examples
    --------
    >>> found = split("postgresql://bot@db/orch?lease_s=5&sslmode=require&schema=shop&stream=support")
    >>> found.plain, found.timing
    ('postgresql://bot@db/orch?sslmode=require', Timing(lease_s=5.0, query_s=3.0, clock_s=2.0))
    >>> found.schema, found.stream
    ('shop', 'support')
    >>> split("host=db dbname=orch lease_s=4").plain
    'host=db dbname=orch'
    """
    found: dict[str, str] = dict(_SETTING.findall(url))
    if not found:
        return LogAddress(url)
    schema, stream = found.pop("schema", SCHEMA), unquote(found.pop("stream", ""))
    if not _SCHEMA_NAME.match(schema):
        raise InvalidInputError("database.schema", f"is {schema!r}", "use lower case letters, digits and _")
    if len(stream) > _LONGEST_STREAM or "\0" in stream:
        raise InvalidInputError("database.stream", f"is {stream[:40]!r}", f"use at most {_LONGEST_STREAM} characters")
    timing = Timing(**{name: _number(name, text) for name, text in found.items()})
    return LogAddress(_SETTING.sub("", url).rstrip("?& "), timing, schema, stream)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"database.{name}", f"is {text!r}", "write seconds") from None


def hidden(database: str) -> str:
    """A database URL without its password, for display.

    Examples
    --------
    >>> hidden("postgresql://ada:secret@db/log")
    'postgresql://ada:***@db/log'
    >>> hidden("log.sqlite")
    'log.sqlite'
    """
    password = _password(database)
    shown = database.replace(f":{password}@", ":***@", 1) if password else database
    return re.sub(r"(?i)([?&](?:ssl)?password=)[^&]*", r"\1***", shown)


def check_password(url: str) -> None:
    """Refuse a password that would be parsed as a host or a port, and would appear in an error message.

    Examples
    --------
    >>> check_password("postgresql://ada:se%2Fcret@db/log")
    >>> check_password("postgresql://ada:se/cret@db/log")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: database: has a password that is not percent-encoded; write it percent-encoded \
(@ is %40, / is %2F, % is %25), or set PGPASSWORD instead
    """
    if re.search(r"[@/]|%(?![0-9a-fA-F]{2})", _password(url)):
        raise InvalidInputError("database", "has a password that is not percent-encoded", _REMEDY)


def unquoted(problem: str) -> str:
    """A libpq error message without quoted parts of the URL, as they may contain the password.

    Examples
    --------
    >>> unquoted('forbidden value %00 in percent-encoded value: "secret%00"')
    'forbidden value %00 in percent-encoded value: ***'
    >>> unquoted('invalid URI query parameter: "hold"')
    'invalid URI query parameter: "hold"'
    """
    return problem if problem.startswith("invalid URI query parameter") else re.sub(r'".*"', "***", problem)


def _password(url: str) -> str:
    """From the first colon to the last @ before the parameters, as an unescaped password may contain either."""
    before = re.split(r"\?(?=\w+=)", url.partition("://")[2], maxsplit=1)[0]
    return before.rpartition("@")[0].partition(":")[2]


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
        connection = _connected(psycopg, ended, **given, **missing, autocommit=True)
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
            connection.execute(schema_script("postgres"))
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


def _connected(psycopg: Any, ended: threading.Event | None, **options: Any) -> Any:
    """A new connection; abandoned once ``ended`` is set, while a thread waits for ``connect_timeout``."""
    if ended is None:
        return limited(psycopg).connect(**options)
    made: Future[Any] = Future()

    def make() -> None:
        try:
            made.set_result(limited(psycopg).connect(**options))
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=make, name="connect", daemon=True).start()
    while not ended.is_set():
        with suppress(TimeoutError):
            return made.result(_POLL_S)
    made.add_done_callback(_close)
    raise psycopg.OperationalError("given up, as the log is being closed")


def _close(made: Future[Any]) -> None:
    if made.exception() is None:
        made.result().close()


@cache
def limited(psycopg: Any) -> Any:
    """The driver's connection with a deadline for every wait; the class is made once."""

    class SilentServerError(psycopg.OperationalError):  # type: ignore[misc]
        """The server did not answer in time."""

    class LimitedConnection(psycopg.Connection):  # type: ignore[misc]
        """A connection that gives up on a silent server."""

        query_s = 5.0
        ended = threading.Event()

        def limit(self, query_s: float, ended: threading.Event | None = None) -> None:
            """Time out after ``query_s`` of silence, or when ``ended`` is set."""
            self.query_s = query_s
            if ended is not None:
                self.ended = ended

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            """See psycopg."""
            try:
                return super().wait(self._watched(gen), *arguments, **options)
            except SilentServerError:
                self.pgconn.finish()  # what the server still does is not known
                raise

        def _watched(self, gen: Any) -> Generator[Any, Any, Any]:
            end = monotonic() + self.query_s
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        end = monotonic() + self.query_s
                    elif self.ended.is_set():
                        raise SilentServerError("given up, as the log is being closed")
                    elif monotonic() > end:
                        raise SilentServerError(f"no answer within {self.query_s:g} seconds")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return LimitedConnection


class KeptConnection:
    """A connection that is opened when needed, and again after it was lost; not thread-safe.

    Parameters
    ----------
    url
        See :class:`bot_orch.log.stores.postgres.log.PostgresLog`; its schema must exist.
    statements
        The statements by name.
    """

    def __init__(self, url: str, statements: dict[str, str]) -> None:
        self._url, self._statements = url, statements
        self._connection: Any = None

    def close(self) -> None:
        """Close the connection; a new one is opened when needed."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def _open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, autocommit=True)
            self._begin(self._connection)
        return self._connection

    def _begin(self, connection: Any) -> None:
        """Set up a new connection."""

    def _run(self, query: str, *arguments: Any) -> Any:
        """The cursor of a statement; raises the driver's errors, which :func:`reaching` translates."""
        try:
            return self._open().execute(self._statements[query], arguments)
        except driver().OperationalError:
            self.close()
            raise
