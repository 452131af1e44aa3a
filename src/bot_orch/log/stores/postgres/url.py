"""Database URLs without their passwords, for messages and logs."""

from __future__ import annotations

import re

from bot_orch.errors import InvalidInputError

__all__ = ["check_password", "hidden", "unquoted"]

_REMEDY = "write it percent-encoded (@ is %40, / is %2F, % is %25), or set PGPASSWORD instead"


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
