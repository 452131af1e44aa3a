"""How long an endpoint asks to be left alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["retry_after_s"]


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds from ``retry-after-ms`` or ``Retry-After`` (a number or a date); ``None`` if there is neither.

    Examples
    --------
    >>> retry_after_s({"Retry-After": "7"}), retry_after_s({"retry-after-ms": "1500"}), retry_after_s({})
    (7.0, 1.5, None)
    >>> retry_after_s({"Retry-After": "Fri, 01 Jan 2027 00:00:30 GMT"}, datetime(2027, 1, 1, tzinfo=UTC))
    30.0
    """
    known = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds, seconds = _number(known.get("retry-after-ms", "")), _number(known.get("retry-after", ""))
    if milliseconds is not None:
        return milliseconds / 1e3
    if seconds is not None or "retry-after" not in known:
        return seconds
    try:
        until = parsedate_to_datetime(known["retry-after"])
    except (ValueError, TypeError, OverflowError):
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def _number(text: str) -> float | None:
    whole, _, part = text.partition(".")
    plain = text.isascii() and whole.isdecimal() and (not part or part.isdecimal())
    return float(text) if plain and len(text) < 12 else None
