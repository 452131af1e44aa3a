"""Variants of a model: a prefix for the system's instructions, and fixed parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot_orch.agents.base import CallRequest

__all__ = ["as_variant"]

_INSTRUCTIONS = {"responses": "instructions", "messages": "system"}


def as_variant(request: CallRequest, system: str, params: Mapping[str, Any]) -> CallRequest:
    """The request as the variant asks it: its prefix first, its parameters before those of the caller.

    Examples
    --------
    >>> asked = CallRequest("r-1", text="2 + 2?", params={"temperature": 1.0, "seed": 7})
    >>> variant = as_variant(asked, "Be brief.", {"temperature": 0.2})
    >>> variant.chat()[0], dict(variant.params)
    ({'role': 'system', 'content': 'Be brief.'}, {'temperature': 0.2, 'seed': 7})
    """
    if not system and not params:
        return request
    messages = _with_prefix(request.chat(), system) if system else request.chat()
    document = request.document
    if document is not None:
        document = {**document, **params}
        field = _INSTRUCTIONS.get(request.endpoint)
        if field is not None and system:
            document[field] = _joined(system, document.get(field))
    return replace(request, messages=tuple(messages), params={**request.params, **params}, document=document)


def _with_prefix(messages: tuple[Mapping[str, Any], ...], system: str) -> list[Mapping[str, Any]]:
    first = messages[0]
    if first.get("role") in ("system", "developer") and isinstance(first.get("content"), str):
        return [{**first, "content": _joined(system, first["content"])}, *messages[1:]]
    return [{"role": "system", "content": system}, *messages]


def _joined(system: str, own: Any) -> Any:
    if isinstance(own, list):
        return [{"type": "text", "text": system}, *own]
    return f"{system}\n\n{own}" if isinstance(own, str) and own else system
