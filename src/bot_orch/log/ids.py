"""Identifiers that sort by time: the shape of a version 7 UUID, so that an index grows at its end."""

from __future__ import annotations

import os
import re

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

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
    >>> time_of("018bcfe5-6800-707b-8000-000000000000"), time_of("t-1")
    (1700000000000123, None)
    """
    if not is_id(text):
        return None
    return 1000 * int(text[:8] + text[9:13], 16) + min(int(text[15:18], 16), 999)


def short_name(text: str) -> bytes | str:
    """The bytes of the trailing UUID, then the prefix; any other text unchanged.

    The UUID comes first, so that names made one after another are neighbours in an index.

    Examples
    --------
    >>> len(short_name("018bcfe5-6800-707b-8000-000000000000"))
    16
    >>> short_name("audit-018bcfe5-6800-707b-8000-000000000000")[16:], short_name("ticket-1")
    (b'audit-', 'ticket-1')
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
