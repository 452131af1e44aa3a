"""Addresses that no agent may have: those of the link, where clouds keep secrets."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending
from bot_orch.errors import InvalidInputError

_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))


def is_forbidden(address: str) -> bool:
    """Whether an address is link-local, of cloud metadata, multicast or unspecified; names of hosts are none.

    Examples
    --------
    >>> is_forbidden("::ffff:169.254.169.254"), is_forbidden("127.0.0.1"), is_forbidden("localhost")
    (True, False, False)
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip in _METADATA


def check_address(address: str) -> None:
    """Raise :class:`CallFailure` if a resolved address is forbidden."""
    if is_forbidden(address):
        raise CallFailure(Ending.REFUSED_ADDRESS, "the agent's host resolves to an address that is link-local")


def check_url(url: str, *, field: str = "base_url") -> str:
    """Validate the URL of an endpoint; returns it without a trailing slash.

    Examples
    --------
    >>> check_url("https://api.example.com/v1/")
    'https://api.example.com/v1'
    """
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        raise InvalidInputError(field, "holds characters that URLs do not", "write plain ASCII (punycode for others)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInputError(field, f"is not a URL ({error})", "write https://host/path") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.fragment:
        raise InvalidInputError(field, f"is {url!r}", "write https://host/path or http://host:port/path")
    if is_forbidden(parts.hostname):
        raise InvalidInputError(field, f"has the host {parts.hostname}, a link-local address", "name the agent's own")
    if "@" in parts.netloc:
        raise InvalidInputError(field, "holds a user name", "pass the key through the environment instead")
    return parts._replace(path=parts.path.rstrip("/")).geturl()
