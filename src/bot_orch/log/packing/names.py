"""Ids and keys in few bytes: what ends with a UUID, and decisions as an orchestrator numbers them."""

from __future__ import annotations

import re

__all__ = ["long_name", "short_name"]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_OF_A_ROUTER = re.compile(r"[0-9a-f]{16}-[0-9a-f]{12}\Z")  # random stream and number of a decision
_NUMBERED, _WHOLE = 14, 16


def short_name(text: str) -> bytes | str:
    """The bytes of the UUID at the end, then what stands before it; 14 bytes of a router's id; any other text as it is.

    The UUID comes first, so that names made one after another are neighbours in an index.

    Examples
    --------
    >>> [len(short_name(text)) for text in ("018bcfe5-6800-707b-8000-000000000000", "00000000000000ff-000000000001")]
    [16, 14]
    >>> short_name("acme:018bcfe5-6800-707b-8000-000000000000")[16:], short_name("ticket-1")
    (b'acme:', 'ticket-1')
    """
    if len(text) >= 36 and _UUID.match(text, len(text) - 36):
        return bytes.fromhex(text[-36:].replace("-", "")) + text[:-36].encode()
    if len(text) == 29 and _OF_A_ROUTER.match(text):
        return bytes.fromhex(text.replace("-", ""))
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
    text = stored[:_WHOLE].hex()
    if len(stored) == _NUMBERED:
        return f"{text[:16]}-{text[16:]}"
    return f"{stored[_WHOLE:].decode()}{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
