"""Who may do what: bearer tokens with scopes, kept as hashes; without any token only this machine may ask."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from bot_orch.errors import InvalidInputError
from bot_orch.service.config import SCOPES, TokenConfig
from bot_orch.service.problems import Problem

__all__ = ["TOKEN_COOKIE", "Caller", "Gate", "is_loopback"]

_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<plain>[^\[\]:@/?#\s]+))(?::[0-9]{0,5})?", re.ASCII)
_SHORTEST = 16
TOKEN_COOKIE = "bot_orch_token"  # noqa: S105  its name


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request."""

    name: str
    scopes: frozenset[str]


_LOCAL_CALLER = Caller("local", frozenset(SCOPES))


class Gate:
    """Decides by token and scope.

    Parameters
    ----------
    tokens
        From the configuration.
    environment
        Where tokens are; the process environment unless given.
    """

    def __init__(self, tokens: tuple[TokenConfig, ...], environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self._callers = {_digest(token, variables): Caller(token.name, frozenset(token.scopes)) for token in tokens}
        if len(self._callers) != len(tokens):
            raise InvalidInputError("config.tokens", "holds a token twice", "give every caller its own")

    @property
    def open(self) -> bool:
        """Whether there are no tokens."""
        return not self._callers

    def admit(self, headers: Mapping[bytes, bytes], scope: str | None, method: str = "GET") -> Caller:
        """The caller, if allowed; what a program does (``method``) makes no difference."""
        if not self._callers:
            return self._admit_local(headers)
        if scope is None:
            return _LOCAL_CALLER
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        caller = self._callers.get(hashlib.sha256(token.strip()).hexdigest()) if kind.lower() == b"bearer" else None
        if caller is None:
            raise Problem(
                401, "invalid_token", "a valid bearer token is needed", headers={"www-authenticate": "Bearer"}
            )
        if scope not in caller.scopes and "admin" not in caller.scopes:
            raise Problem(403, "missing_scope", f"this token lacks the scope {scope!r}")
        return caller

    def admit_person(self, headers: Mapping[bytes, bytes], scope: str | None, method: str = "GET") -> Caller:
        """Whoever uses a browser, if allowed: a token in the cookie counts, and forms come from pages of ours."""
        caller = self.admit(_with_cookie(headers), scope)
        if method == "POST":
            _check_origin(headers)
        return caller

    @staticmethod
    def _admit_local(headers: Mapping[bytes, bytes]) -> Caller:
        """Without tokens a web page in a local browser must not get in by a name that points here."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not _is_local(host) or (origin and not _is_local(origin.partition("://")[2])):
            raise Problem(403, "not_local", "without tokens only requests to localhost are answered")
        return _LOCAL_CALLER


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: ``localhost`` by name, a loopback address by its number, nothing else.

    Numbers are read as written in full: ``127.1``, ``2130706433`` and ``0x7f.1`` are names to somebody, and a name may
    lead anywhere. So is everything that only begins like an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("127.evil.example")
    (True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        mapped = ip.ipv4_mapped
        return ip.scope_id is None and (ip.is_loopback if mapped is None else mapped.is_loopback)
    return ip.is_loopback


def _is_local(authority: str) -> bool:
    """Whether ``host``, ``host:port`` or ``[address]:port`` is this machine."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    bracketed = match["bracketed"]
    return is_loopback(match["plain"]) if bracketed is None else ":" in bracketed and is_loopback(bracketed)


def _with_cookie(headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """The token in the cookie counts like one in the header."""
    if b"authorization" in headers:
        return headers
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == TOKEN_COOKIE and value:
            return {**headers, b"authorization": b"Bearer " + unquote(value).encode()}
    return headers


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """A form of another site must not act for a person who is signed in here."""
    origin = headers.get(b"origin", b"").decode("latin-1").partition("://")[2]
    if not origin or origin != headers.get(b"host", b"").decode("latin-1"):
        raise Problem(403, "wrong_origin", "this form was not sent from a page of this service")


def _digest(token: TokenConfig, environment: Mapping[str, str]) -> str:
    if token.sha256 is not None:
        return token.sha256
    value = environment.get(token.env or "", "")
    if not value:
        raise InvalidInputError(
            f"config.tokens.{token.name}", f"needs the environment variable {token.env}", "set it before starting"
        )
    if len(value) < _SHORTEST:
        raise InvalidInputError(f"config.tokens.{token.name}", "is short", f"use {_SHORTEST} characters or more")
    return hashlib.sha256(value.encode()).hexdigest()
