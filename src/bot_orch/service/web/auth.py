"""Authorisation: bearer tokens with scopes, kept as hashes; without tokens only loopback requests are answered."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from urllib.parse import unquote

from bot_orch.errors import InvalidInputError
from bot_orch.service.config import (
    SCOPES,
    LimitsConfig,
    TenantConfig,
    TokenConfig,
    TokenLimitsConfig,
    taken_by_others,
)
from bot_orch.service.problems import Problem
from bot_orch.service.web.logins import Logins

__all__ = ["TOKEN_COOKIE", "Caller", "Gate", "Visit", "is_loopback", "single"]

_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<plain>[^\[\]:@/?#\s]+))(?::[0-9]{0,5})?", re.ASCII)
_SHORTEST = 16
TOKEN_COOKIE = "bot_orch_token"  # noqa: S105  its name


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: token name, permissions, and tags of its requests.

    A caller with a ``tenant`` has ids of its own (:mod:`bot_orch.log.ids`), shares ``shared_limits`` with the
    other tokens of the tenant, and may not use the routers in ``barred``, which other tenants have for themselves.
    """

    name: str
    scopes: frozenset[str]
    limits: TokenLimitsConfig | None = None
    _: KW_ONLY
    tags: tuple[str, ...] = ()
    router: str | None = None
    tenant: str = ""
    shared_limits: TokenLimitsConfig | None = None
    barred: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """A key of the caller that is unique across tenants, for data in memory."""
        return f"{self.tenant}\0{self.name}"

    def may_use(self, router: str) -> bool:
        """Whether the caller may use the router of this name."""
        return router not in self.barred and (self.router is None or router == self.router)


@dataclass(frozen=True, slots=True)
class Visit:
    """Source and target of a request, for logging and counting failed logins."""

    address: str = ""
    route: str = ""


_LOCAL_CALLER = Caller("local", frozenset(SCOPES))
_NOWHERE = Visit()
# Headers on which an answer depends: of two, a proxy in front may have checked the other one.
_ONCE = frozenset({b"authorization", b"x-api-key", b"host", b"origin", b"cookie", b"idempotency-key", b"content-type"})


def single(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; refuses repetition of a header that must be unique."""
    headers = dict(pairs)
    if len(headers) != len(pairs):
        seen: set[bytes] = set()
        for name, _ in pairs:
            if name in seen and name in _ONCE:
                shown = name.decode("latin-1")
                raise Problem(400, "repeated_header", f"{shown}: was sent more than once; send it once", param=shown)
            seen.add(name)
    return headers


class Gate:
    """Admits requests by token and scope.

    Parameters
    ----------
    tokens
        The configured tokens.
    environment
        Variables that hold the tokens; by default the process environment.
    limits
        How many logins of an address may fail.
    tenants
        The configured tenants.
    """

    def __init__(
        self,
        tokens: tuple[TokenConfig, ...],
        environment: Mapping[str, str] | None = None,
        limits: LimitsConfig | None = None,
        *,
        tenants: Mapping[str, TenantConfig] | None = None,
    ) -> None:
        variables = os.environ if environment is None else environment
        self._callers = {_digest(token, variables): _caller(token, tenants or {}) for token in tokens}
        if len(self._callers) != len(tokens):
            raise InvalidInputError("config.tokens", "holds a token twice", "give every caller its own")
        self._logins = Logins((limits or LimitsConfig()).failed_logins)

    def adopt(self, other: Gate) -> None:
        """Replace the admitted callers by those of another gate."""
        self._callers = other._callers

    @property
    def open(self) -> bool:
        """Whether no tokens are configured."""
        return not self._callers

    def admit(self, headers: Mapping[bytes, bytes], scope: str | None, visit: Visit = _NOWHERE) -> Caller:
        """The caller of an API request; raises a :class:`Problem` if the token or scope is missing."""
        if not self._callers:
            return self._admit_local(headers, visit)
        if scope is None:
            return _LOCAL_CALLER
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        if not kind and b"x-api-key" in headers:  # as Anthropic's clients send it
            kind, token = b"bearer", headers[b"x-api-key"]
        if kind.lower() != b"bearer" or not token.strip():
            self._logins.refused(visit.address, visit.route, "no token")
            raise _unknown()
        digest = hashlib.sha256(token.strip()).hexdigest()
        self._logins.check(visit.address, digest, visit.route)
        caller = self._callers.get(digest)
        if caller is None:
            self._logins.failed(visit.address, visit.route)
            raise _unknown()
        self._logins.succeeded(visit.address, digest)
        if scope not in caller.scopes and "admin" not in caller.scopes:
            self._logins.refused(visit.address, visit.route, "missing scope", token=caller.name, scope=scope)
            message = f"this token lacks the scope {scope!r}; use another, or add the scope under tokens"
            raise Problem(403, "missing_scope", message)
        return caller

    def admit_person(
        self, headers: Mapping[bytes, bytes], scope: str | None, visit: Visit = _NOWHERE, *, posts: bool = False
    ) -> Caller:
        """Authenticate the caller of a page: the token may be in a cookie, and POST must be same-origin (CSRF)."""
        caller = self.admit(_with_cookie(headers), scope, visit)
        if posts:
            _check_origin(headers)
        return caller

    def _admit_local(self, headers: Mapping[bytes, bytes], visit: Visit) -> Caller:
        """Check ``Host`` and ``Origin`` against DNS rebinding: a web page in a local browser must not get in."""
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not _is_local(host) or (origin and not _is_local(origin.partition("://")[2])):
            self._logins.refused(visit.address, visit.route, "not local")
            message = "without tokens only requests to localhost are answered; configure tokens, or ask localhost"
            raise Problem(403, "not_local", message)
        return _LOCAL_CALLER


def _unknown() -> Problem:
    message = "a valid bearer token is needed; send the header Authorization: Bearer TOKEN"
    return Problem(401, "invalid_token", message, headers={"www-authenticate": "Bearer"})


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


def _caller(token: TokenConfig, tenants: Mapping[str, TenantConfig]) -> Caller:
    tenant = TenantConfig() if token.tenant is None else tenants[token.tenant]
    return Caller(
        token.name,
        frozenset(token.scopes),
        token.limits,
        tags=tuple(dict.fromkeys((*tenant.tags, *token.tags))),
        router=token.router or tenant.router,
        tenant=token.tenant or "",
        shared_limits=tenant.limits,
        barred=frozenset() if token.tenant is None else taken_by_others(tenants, token.tenant),
    )


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
