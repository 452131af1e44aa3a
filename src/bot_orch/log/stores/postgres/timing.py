"""Extensions of the database URL beyond libpq: schema, stream and deadlines."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote

from bot_orch.errors import InvalidInputError

__all__ = ["SCHEMA", "LogAddress", "Timing", "split", "with_stream"]

SCHEMA = "bot_orch"
_SETTING = re.compile(r"(?<=[?&\s])(lease_s|query_s|clock_s|schema|stream)=([^&\s]*)(?:[&\s]|\Z)")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}\Z")
_LEAST_S, _MOST_S = 0.5, 3600.0
_LONGEST_STREAM = 200


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


def with_stream(url: str, stream: str) -> str:
    """The URL of another log of the same service.

    Examples
    --------
    >>> with_stream("postgresql://db/orch?lease_s=5", "support")
    'postgresql://db/orch?lease_s=5&stream=support'
    """
    return f"{url}{'&' if '?' in url else '?'}stream={quote(stream, safe='')}"


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"database.{name}", f"is {text!r}", "write seconds") from None
