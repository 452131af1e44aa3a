"""Authorisation: bearer tokens with scopes, kept as hashes; without tokens only loopback requests are answered."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from urllib.parse import unquote

from bot_orch.errors import InvalidInputError
from bot_orch.recent import Newest
from bot_orch.service.config import (
    SCOPES,
    LimitsConfig,
    TokenConfig,
    TokenLimitsConfig,
)
from bot_orch.service.problems import Problem
from bot_orch.service.web.keys import KeyRing

_log = logging.getLogger("bot_orch.login")
_PER_S = 60.0
_ADDRESSES, _KNOWN = 10_000, 10_000
_LINES = 60  # lines of the log per address and minute
_AUTHORITY = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<plain>[^\[\]:@/?#\s]+))(?::[0-9]{0,5})?", re.ASCII)
_SHORTEST = 16
TOKEN_COOKIE = "bot_orch_token"  # noqa: S105  its name


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: token name, permissions, and tags of its requests."""

    name: str
    scopes: frozenset[str]
    limits: TokenLimitsConfig | None = None
    _: KW_ONLY
    tags: tuple[str, ...] = ()


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
    keys
        Keys that were made while the service runs.
    """

    def __init__(
        self,
        tokens: tuple[TokenConfig, ...],
        environment: Mapping[str, str] | None = None,
        limits: LimitsConfig | None = None,
        *,
        keys: KeyRing | None = None,
    ) -> None:
        self._keys = keys
        variables = os.environ if environment is None else environment
        self._callers = {_digest(token, variables): _caller(token) for token in tokens}
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
        token = _bearer(headers)
        if not token:
            self._logins.refused(visit.address, visit.route, "no token")
            raise _unknown()
        digest = hashlib.sha256(token).hexdigest()
        self._logins.check(visit.address, digest, visit.route)
        caller = self._callers.get(digest) or self._of_key(digest)
        if caller is None:
            self._logins.failed(visit.address, visit.route)
            raise _unknown()
        self._logins.succeeded(visit.address, digest)
        if scope not in ("any", *caller.scopes) and "admin" not in caller.scopes:
            self._logins.refused(visit.address, visit.route, "missing scope", token=caller.name, scope=scope)
            message = f"this token lacks the scope {scope!r}; use another, or add the scope under tokens"
            raise Problem(403, "missing_scope", message)
        return caller

    async def look_up(self, headers: Mapping[bytes, bytes], visit: Visit = _NOWHERE) -> None:
        """Learn about the key of a request whose token is not configured, if another process has the keys."""
        token = _bearer(_with_cookie(headers))
        if self._keys is None or not self._callers or not token:
            return
        digest = hashlib.sha256(token).hexdigest()
        if digest not in self._callers:
            self._logins.check(visit.address, digest, visit.route)
            await self._keys.look_up(token)

    def _of_key(self, digest: str) -> Caller | None:
        key = None if self._keys is None else self._keys.find(digest)
        return None if key is None else _caller(key)

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


def _bearer(headers: Mapping[bytes, bytes]) -> bytes:
    """The token of a request; empty without one. Anthropic's clients send it as ``x-api-key``."""
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    if not kind and b"x-api-key" in headers:
        kind, token = b"bearer", headers[b"x-api-key"]
    return token.strip() if kind.lower() == b"bearer" else b""


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


def _caller(token: TokenConfig) -> Caller:
    return Caller(token.name, frozenset(token.scopes), token.limits, tags=tuple(dict.fromkeys(token.tags)))


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


class _Allowance:
    """A token bucket: so many at once, refilled at that number per minute."""

    __slots__ = ("at", "left", "silent")

    def __init__(self, most: int, now: float) -> None:
        self.left, self.at, self.silent = float(most), now, 0

    def take(self, most: int, now: float) -> bool:
        """Take one token; returns whether there was one."""
        self.left = min(float(most), self.left + (now - self.at) * most / _PER_S)
        self.at = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Logins:
    """Failed and successful logins by address, in bounded memory: one log line each, and a pause after many failures.

    While an address pauses, tokens that it has not used with success before are refused unread, so that a guess says
    nothing; callers with a token in use go on, also behind a proxy that gives all of them one address.

    Parameters
    ----------
    most
        Failed logins per address and minute; 0 for any number.
    clock
        Seconds that only grow.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._failures = Newest[str, _Allowance](_ADDRESSES)
        self._lines = Newest[str, _Allowance](_ADDRESSES)
        self._known = Newest[tuple[str, str], None](_KNOWN)

    def check(self, address: str, digest: str, route: str) -> None:
        """Refuse (429) an address that pauses, unless it has used this token before."""
        found = self._failures.get(address)
        if found is None or (address, digest) in self._known:
            return
        now = self._clock()
        missing = 1.0 - found.left - (now - found.at) * self._most / _PER_S
        if missing <= 0.0:
            return
        wait = {"retry-after": str(math.ceil(missing * _PER_S / self._most))}
        self.refused(address, route, "too many failed logins")
        message = "too many failed logins from this address; wait, then send a valid token"
        raise Problem(429, "too_many_logins", message, headers=wait)

    def failed(self, address: str, route: str) -> None:
        """Record an unknown token."""
        if self._most:
            _allowance(self._failures, address, self._most, now=self._clock()).take(self._most, self._clock())
        self.refused(address, route, "unknown token")

    def succeeded(self, address: str, digest: str) -> None:
        """Note a valid token; matters only for addresses with failures before or after."""
        self._known[address, digest] = None

    def refused(self, address: str, route: str, why: str, **more: str) -> None:
        """Log a refusal without the token; floods are summarised."""
        now = self._clock()
        lines = _allowance(self._lines, address, _LINES, now=now)
        if not lines.take(_LINES, now):
            lines.silent += 1
            return
        silent, lines.silent = lines.silent, 0
        fields = {"address": address, "route": route, "why": why, **more}
        _log.warning("login refused", extra={"fields": {**fields, "not_logged": silent} if silent else fields})


def _allowance(kept: Newest[str, _Allowance], address: str, most: int, *, now: float) -> _Allowance:
    kept[address] = found = kept.get(address) or _Allowance(most, now)
    return found
