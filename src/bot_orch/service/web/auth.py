"""Authorisation: bearer tokens with scopes, kept as hashes; without tokens only loopback requests are answered."""

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
    """The sender of a request: the name of its token and what that allows."""

    name: str
    scopes: frozenset[str]


_LOCAL_CALLER = Caller("local", frozenset(SCOPES))


class Gate:
    """Admits requests by token and scope.

    Parameters
    ----------
    tokens
        Those of the configuration.
    environment
        Variables that hold the tokens; by default the process environment.
    """

    def __init__(self, tokens: tuple[TokenConfig, ...], environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self._callers = {_digest(token, variables): Caller(token.name, frozenset(token.scopes)) for token in tokens}
        if len(self._callers) != len(tokens):
            raise InvalidInputError("config.tokens", "holds a token twice", "give every caller its own")

    @property
    def open(self) -> bool:
        """Whether no tokens are configured."""
        return not self._callers

    def admit(self, headers: Mapping[bytes, bytes], scope: str | None, method: str = "GET") -> Caller:
        """The caller of an API request; raises a :class:`Problem` if the token or scope is missing."""
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
        """The caller of a page: the token may be in a cookie, and POST needs an origin of this service (CSRF)."""
        caller = self.admit(_with_cookie(headers), scope)
        if method == "POST":
            _check_origin(headers)
        return caller

    @staticmethod
    def _admit_local(headers: Mapping[bytes, bytes]) -> Caller:
        """Check ``Host`` and ``Origin`` against DNS rebinding: a web page in a local browser must not get in."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not _is_local(host) or (origin and not _is_local(origin.partition("://")[2])):
            raise Problem(403, "not_local", "without tokens only requests to localhost are answered")
        return _LOCAL_CALLER


def is_loopback(host: str) -> bool:
    """Whether a host is ``localhost`` or a loopback address in full notation.

    Short forms (``127.1``, ``2130706433``, ``0x7f.1``) and names that begin like an address do not count: some resolver
    takes them for names, and a name may lead anywhere.

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
    """The headers, with a token from the cookie as ``authorization``."""
    if b"authorization" in headers:
        return headers
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == TOKEN_COOKIE and value:
            return {**headers, b"authorization": b"Bearer " + unquote(value).encode()}
    return headers


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a form sent from another site (CSRF)."""
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
