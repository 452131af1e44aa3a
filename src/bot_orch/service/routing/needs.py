"""What a chat needs of an agent: images, tools, JSON, a region, the length of its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot_orch.agents.capabilities import Needs
from bot_orch.agents.tokens import letters_in, tokens_of
from bot_orch.service.routing.estimates import RequestSize

__all__ = ["needs_of"]

_TOOL_FIELDS = ("tools", "functions")
_IMAGES = frozenset({"image_url", "input_image", "image"})


def needs_of(
    endpoint: str,
    size: RequestSize,
    *,
    params: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]] = (),
    region: str | None = None,
    only: str = "",
) -> Needs:
    """The needs of a chat, whatever interface it came by."""
    extra = tokens_of(sum(letters_in(params.get(name)) for name in (*_TOOL_FIELDS, "response_format")))
    format_ = params.get("response_format")
    return Needs(
        endpoint,
        size.usage().input_tokens + extra + (size.output_tokens or 0),
        vision=any(map(_has_image, messages)),
        tools=any(params.get(name) for name in _TOOL_FIELDS) or any(map(_has_tools, messages)),
        json=isinstance(format_, Mapping) and format_.get("type") in ("json_object", "json_schema"),
        region=region,
        only=only,
    )


def _has_image(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(isinstance(part, Mapping) and part.get("type") in _IMAGES for part in content)


def _has_tools(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function") or bool(message.get("tool_calls"))
