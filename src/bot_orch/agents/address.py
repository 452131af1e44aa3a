"""Address checks against server-side request forgery. Agent URLs come from configuration only; this is a second check.

A URL is checked when the configuration is read (:func:`check_url`), and every resolved address is checked again for
each connection (:func:`check_address`). The connection uses the checked addresses, which prevents DNS rebinding.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError

_IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?\Z"
)
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")
_LOCAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_UNIQUE_LOCAL = ipaddress.ip_network("fc00::/7")
_SHARED = ipaddress.ip_network("100.64.0.0/10")
_METADATA = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192")))


def address_problem(address: str, *, allow_private: bool = False) -> str | None:
    """The reason why this IP address is not allowed, or ``None`` if it is.

    ``allow_private`` allows loopback, private and shared (carrier-grade) addresses. Link-local, cloud metadata,
    multicast, reserved and unspecified addresses are never allowed.

    Examples
    --------
    >>> address_problem("93.184.215.14")
    >>> address_problem("127.0.0.1")
    'is private'
    >>> address_problem("127.0.0.1", allow_private=True)
    >>> address_problem("::ffff:169.254.169.254", allow_private=True)
    'is a cloud metadata address'
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "is not an IP address"
    if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None:
        return "has a zone"
    problems = [_problem(each, allow_private) for each in (ip, *_embedded(ip))]
    return next((problem for problem in problems if problem), None)


def check_address(address: str, *, allow_private: bool = False) -> None:
    """Raise :class:`CallFailure` if a resolved address is not allowed."""
    problem = address_problem(address, allow_private=allow_private)
    if problem:
        raise CallFailure(Ending.REFUSED_ADDRESS, f"the agent's host resolves to an address that {problem}")


def check_url(url: str, *, allow_private: bool = False, field: str = "base_url") -> str:
    """Validate an agent's URL; returns it without a trailing slash.

    Examples
    --------
    >>> check_url("https://api.example.com/v1/")
    'https://api.example.com/v1'
    >>> check_url("http://2130706433/")
    Traceback (most recent call last):
    ...
    bot_orch.errors.InvalidInputError: base_url: has the host '2130706433', ...
    """
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        raise InvalidInputError(field, "holds characters that URLs do not", "write plain ASCII (punycode for others)")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError as error:
        raise InvalidInputError(field, f"is not a URL ({error})", "write https://host/path") from None
    if parts.scheme not in ("http", "https"):
        raise InvalidInputError(field, f"has the scheme {parts.scheme!r}", "use http or https")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise InvalidInputError(field, "holds a user name", "pass the key through the environment instead")
    if parts.fragment or port == 0:
        raise InvalidInputError(field, "has a fragment or port 0", "write https://host:port/path")
    _check_host(host, bracketed="[" in parts.netloc, allow_private=allow_private, field=field)
    return parts._replace(path=parts.path.rstrip("/")).geturl()


def _check_host(host: str, *, bracketed: bool, allow_private: bool, field: str) -> None:
    allow = "set allow_private for an agent on this machine or network"
    bare = host.rstrip(".")
    if bracketed or _NUMERIC.match(bare.rpartition(".")[2]):
        problem = address_problem(host, allow_private=allow_private)
        if problem == "is not an IP address":  # inet_aton parses 2130706433, 0x7f.1 and 0177.0.0.1 as 127.0.0.1
            raise InvalidInputError(field, f"has the host {host!r}, an unusual number", "write a.b.c.d, or a name")
        if problem:
            raise InvalidInputError(field, f"has the host {host!r}, which {problem}", allow)
    elif not _NAME.match(host):
        raise InvalidInputError(field, f"has the host {host!r}, which is not a host name", "write https://host/path")
    elif not allow_private and any(bare == name or bare.endswith("." + name) for name in _LOCAL_NAMES):
        raise InvalidInputError(field, f"has the host {host!r}, a local name", allow)


def _embedded(ip: _IPAddress) -> list[_IPAddress]:
    """IPv4 addresses embedded in an IPv6 address: mapped, compatible, 6to4, Teredo, NAT64."""
    if isinstance(ip, ipaddress.IPv4Address):
        return []
    found: list[_IPAddress | None] = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64 or _is_compatible(ip):
        found.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def _is_compatible(ip: ipaddress.IPv6Address) -> bool:
    return int(ip) >> 32 == 0 and int(ip) > 1  # ::a.b.c.d, except :: and ::1


def _problem(ip: _IPAddress, allow_private: bool) -> str | None:
    if ip in _METADATA:
        return "is a cloud metadata address"
    for bad, what in (
        (ip.is_link_local, "link-local"),
        (ip.is_multicast, "multicast"),
        (ip.is_unspecified, "unspecified"),
    ):
        if bad:
            return f"is {what}"
    private = "is private" if not allow_private else None
    if isinstance(ip, ipaddress.IPv4Address):
        if ip.is_reserved or int(ip) >> 24 == 0:
            return "is reserved"
        return private if ip.is_private or ip in _SHARED or not ip.is_global else None
    if ip.ipv4_mapped is not None or ip in _NAT64 or _is_compatible(ip):
        return None  # the embedded IPv4 address decides
    if ip.is_loopback or ip.is_site_local or ip in _UNIQUE_LOCAL:
        return private
    if ip not in _GLOBAL_UNICAST:
        return "is reserved"
    return private if ip.is_private else None
