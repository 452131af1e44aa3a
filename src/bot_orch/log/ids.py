"""Identifiers that sort by time: the shape of a version 7 UUID, so that an index grows at its end.

In the log, the ids of a tenant's decisions, tasks and tickets begin with its name: ``acme:018bcfe5-...``. The same id
of another tenant is a different id, so tenants cannot find each other's records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

#: What the name of a tenant may be.
TENANT = r"[a-z0-9][a-z0-9_-]{0,63}"

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

_OWNED = re.compile(rf"(?P<tenant>{TENANT}):{_SHAPE.pattern}")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")

_pool = b""


def time_ordered_id(time_us: int, noise: bytes | None = None) -> str:
    """An id whose first 60 bits are the time: milliseconds, then the fraction of a millisecond in 12 bits.

    Parameters
    ----------
    time_us
        Microseconds since 1970; strictly increasing stamps give strictly increasing ids.
    noise
        Eight bytes; drawn from the operating system unless given.

    Examples
    --------
    >>> time_ordered_id(1_700_000_000_000_123, bytes(8))
    '018bcfe5-6800-707b-8000-000000000000'
    """
    millis, micros = divmod(time_us, 1000)
    tail = (int.from_bytes(noise or _noise(), "big") & 0x3FFFFFFFFFFFFFFF) | 0x8000000000000000
    head, low = f"{millis:012x}", f"{tail:016x}"
    return f"{head[:8]}-{head[8:12]}-7{micros:03x}-{low[:4]}-{low[4:]}"


def _noise() -> bytes:
    """Eight random bytes, read from the operating system in batches."""
    global _pool
    if len(_pool) < 8:
        _pool = os.urandom(2048)
    noise, _pool = _pool[:8], _pool[8:]
    return noise


def is_id(text: str) -> bool:
    """Whether ``text`` has the shape of our ids.

    Examples
    --------
    >>> is_id("018bcfe5-6800-707b-8000-000000000000"), is_id("t-1")
    (True, False)
    """
    return _SHAPE.match(text) is not None


def time_of(text: str) -> int | None:
    """The time of one of our ids, in microseconds; ``None`` for other formats.

    Examples
    --------
    >>> time_of("acme:018bcfe5-6800-707b-8000-000000000000"), time_of("t-1")
    (1700000000000123, None)
    """
    plain = outside(text)
    if not is_id(plain):
        return None
    return 1000 * int(plain[:8] + plain[9:13], 16) + min(int(plain[15:18], 16), 999)


def inside(tenant: str, text: str) -> str:
    """An id or a session of a tenant as the log has it; unchanged without a tenant.

    Examples
    --------
    >>> inside("acme", "s-1"), inside("", "s-1")
    ('acme:s-1', 's-1')
    """
    return f"{tenant}:{text}" if tenant else text


def outside(text: str, tenant: str | None = None) -> str:
    """Convert an id to the tenant's form, the inverse of :func:`inside`, for any tenant or the given one.

    Examples
    --------
    >>> outside("acme:018bcfe5-6800-707b-8000-000000000000"), outside("acme:s-1"), outside("acme:s-1", "acme")
    ('018bcfe5-6800-707b-8000-000000000000', 'acme:s-1', 's-1')
    """
    owner = tenant_of(text) if tenant is None else tenant
    return text.removeprefix(f"{owner}:") if owner else text


def tenant_of(text: str) -> str:
    """The tenant in the log id of a decision, task or ticket; empty without one.

    Examples
    --------
    >>> tenant_of("acme:018bcfe5-6800-707b-8000-000000000000"), tenant_of("018bcfe5-6800-707b-8000-000000000000")
    ('acme', '')
    """
    if ":" not in text:
        return ""
    found = _OWNED.match(text)
    return "" if found is None else found["tenant"]


def count_of(tenant: str, known: Collection[str]) -> int:
    """Count the ids that belong to a tenant, or without one, to no tenant.

    Examples
    --------
    >>> known = ["acme:018bcfe5-6800-707b-8000-000000000000", "018bcfe5-6800-707b-8000-000000000000", "d-1"]
    >>> count_of("acme", known), count_of("", known)
    (1, 2)
    """
    if not tenant and not any(":" in each for each in known):
        return len(known)
    return sum(tenant_of(each) == tenant for each in known)


def short_name(text: str) -> bytes | str:
    """The bytes of the trailing UUID, then the prefix; any other text unchanged.

    The UUID comes first, so that names made one after another are neighbours in an index.

    Examples
    --------
    >>> len(short_name("018bcfe5-6800-707b-8000-000000000000"))
    16
    >>> short_name("acme:018bcfe5-6800-707b-8000-000000000000")[16:], short_name("ticket-1")
    (b'acme:', 'ticket-1')
    """
    if len(text) >= 36 and _UUID.match(text, len(text) - 36):
        return bytes.fromhex(text[-36:].replace("-", "")) + text[:-36].encode()
    return text


def long_name(stored: bytes | str) -> str:
    """The inverse of :func:`short_name`.

    Examples
    --------
    >>> texts = ("f:x-018bcfe5-6800-407b-8000-000000000000", "00000000000000ff-000000000001", "ticket-1", "")
    >>> all(long_name(short_name(text)) == text for text in texts)
    True
    """
    if isinstance(stored, str):
        return stored
    text = stored[:16].hex()
    return f"{stored[16:].decode()}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
