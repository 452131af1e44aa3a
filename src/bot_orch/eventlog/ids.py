"""Identifiers that sort by time: the shape of a version 7 UUID, so that an index grows at its end."""

from __future__ import annotations

import os
import re

__all__ = ["is_id", "time_ordered_id"]

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

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
    """Eight random bytes; the operating system is asked for many at a time."""
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
