"""Errors of endpoints: parsing, and whether another agent may serve a rejected request.

A 4xx is the caller's own fault unless :data:`CODES` or :data:`PHRASES` says that it depends on the agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

from bot_orch.agents.endings import Ending
from bot_orch.codec import decode_json

_LONGEST_MESSAGE = 2_000
_LONGEST_NAME = 128
_DENIED = frozenset({401, 402, 403, 407})
_MISSING = frozenset({404, 405, 410})
_ELSEWHERE = frozenset({408, 409, 413, 425, 451})
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

CODES: Mapping[str, str] = MappingProxyType(
    {
        "context_length_exceeded": "context length",
        "string_above_max_length": "context length",
        "max_tokens_exceeded": "context length",
        "content_filter": "content filter",
        "content_policy_violation": "content filter",
        "invalid_prompt": "content filter",
        "unsupported_parameter": "unsupported parameter",
        "unsupported_value": "unsupported parameter",
        "unknown_parameter": "unsupported parameter",
        "unsupported_country_region_territory": "unsupported parameter",
        "model_not_found": "unknown model",
        "invalid_model": "unknown model",
        "model_not_available": "unknown model",
        "unsupported_model": "unknown model",
    }
)
"""Error codes (or types) that depend on the agent, and why."""

OWN_FAULT = frozenset(
    {"invalid_type", "invalid_value", "invalid_json", "missing_required_parameter", "empty_array", "invalid_image"}
)
"""Error codes of a request that is wrong whatever the agent; then a message about support does not count."""

PHRASES: Mapping[str, str] = MappingProxyType(
    {
        "context length": r"context (length|window|size)|too many (input |prompt )?tokens|(prompt|input) is too long"
        r"|reduce the length of|maximum (number of )?(input )?tokens|supports at most",
        "content filter": r"content.(filter|policy|management)|safety (system|filter|policy)|responsible ai"
        r"|flagged by|moderation",
        "unsupported parameter": r"(is|are) not supported|not supported (by|with|for)|does( not|n't) support"
        r"|unsupported|un(recognized|known|expected) (request )?(argument|parameter|field|keyword)"
        r"|extra (inputs|fields)",
        "unknown model": r"model.{0,120}(not found|not exist|not available)|no such model|unknown model",
    }
)
"""What messages of endpoints without error codes say in such cases, as regular expressions."""

_PHRASES = {why: re.compile(pattern, re.IGNORECASE | re.DOTALL) for why, pattern in PHRASES.items()}


@dataclass(frozen=True, slots=True)
class UpstreamError:
    """An endpoint's error document, in the terms of OpenAI's API.

    Parameters
    ----------
    message, type, code, param
        As received, shortened; ``None`` where missing. A numeric ``code`` is ``status``.
    status
        HTTP status inside the document, if any: some endpoints report errors inside a stream.
    """

    message: str
    type: str | None = None
    code: str | None = None
    _: KW_ONLY
    param: str | None = None
    status: int | None = None


def read_error(raw: bytes | None) -> UpstreamError | None:
    """Read an error document; ``None`` if it has no message.

    Examples
    --------
    >>> read_error(b'{"error": {"message": "too long", "code": "context_length_exceeded"}}').code
    'context_length_exceeded'
    >>> read_error(b'{"detail": "no such field"}').message, read_error(b"<html>")
    ('no such field', None)
    """
    try:
        document = decode_json(raw or b"")
    except ValueError:
        return None
    found = document.get("error", document) if isinstance(document, dict) else None
    if isinstance(found, str):
        found = {"message": found}
    if not isinstance(found, dict):
        return None
    message = found.get("message") or found.get("detail") or found.get("msg")
    if not isinstance(message, str):
        return None
    kind, code, param = (_name(found.get(name)) for name in ("type", "code", "param"))
    return UpstreamError(message[:_LONGEST_MESSAGE], kind, code, param=param, status=_status(found))


def unsuited_because(error: UpstreamError) -> str | None:
    """Why another agent may serve the request: the first matching entry of the tables, else ``None``."""
    for name in (error.code, error.type):
        if name is not None and name.lower() in CODES:
            return CODES[name.lower()]
    found = next((why for why, phrase in _PHRASES.items() if phrase.search(error.message)), None)
    return None if error.code in OWN_FAULT and found == "unsupported parameter" else found


def ending_of(status: int, error: UpstreamError | None) -> Ending:
    """The ending of an attempt that got this status and error document.

    Examples
    --------
    >>> ending_of(400, UpstreamError("messages: must be a list")), ending_of(400, UpstreamError("prompt is too long"))
    (<Ending.UPSTREAM_4XX: 'upstream_4xx'>, <Ending.UNSUITED: 'unsuited'>)
    """
    if status >= 500 or status < 400:
        return Ending.UPSTREAM_5XX
    if status == 429:
        broke = error is not None and not _NO_CREDIT.isdisjoint((error.code, error.type))
        return Ending.UPSTREAM_DENIED if broke else Ending.RATE_LIMITED
    if status in _ELSEWHERE:
        return Ending.UNSUITED
    if status not in (401, 407) and error is not None and unsuited_because(error) is not None:
        return Ending.UNSUITED
    if status in _DENIED:
        return Ending.UPSTREAM_DENIED
    return Ending.UPSTREAM_MISSING if status in _MISSING else Ending.UPSTREAM_4XX


def _name(value: Any) -> str | None:
    return value[:_LONGEST_NAME] if isinstance(value, str) and value else None


def _status(found: Mapping[str, Any]) -> int | None:
    values = (found.get("status"), found.get("code"))
    return next((each for each in values if type(each) is int and 400 <= each < 600), None)
