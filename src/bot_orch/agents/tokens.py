"""Estimates of token counts, for streams whose endpoint does not report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot_orch.agents.base import CallRequest

_LETTERS_PER_TOKEN = 4
_NOT_WRITTEN = frozenset({"role", "id", "type", "index", "data", "url", "image_url", "input_audio", "file"})
_PARAMS = ("tools", "functions", "response_format")


def tokens_of(letters: int) -> int:
    """Estimated tokens of a text, at four characters each.

    Examples
    --------
    >>> tokens_of(0), tokens_of(1), tokens_of(9)
    (0, 1, 3)
    """
    return -(-letters // _LETTERS_PER_TOKEN)


def letters_in(value: Any) -> int:
    """Characters of all texts in a JSON value, without roles, ids, images and sound.

    Examples
    --------
    >>> letters_in({"role": "user", "content": [{"type": "text", "text": "four"}, {"image_url": {"url": "data:..."}}]})
    4
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(letters_in(part) for name, part in value.items() if name not in _NOT_WRITTEN)
    if isinstance(value, list | tuple):
        return sum(len(part) if type(part) is str else letters_in(part) for part in value)  # most are texts
    return 0


def prompt_tokens(request: CallRequest) -> int:
    """Estimated tokens of a request: its messages and the definitions of its tools."""
    return tokens_of(letters_in(request.chat()) + sum(letters_in(request.params.get(name)) for name in _PARAMS))
