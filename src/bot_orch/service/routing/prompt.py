"""The text of a chat that is context for the router's encoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["prompt_of"]

_LONGEST = 20_000  # characters; the built-in encoder reads as many bytes


def prompt_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the user has written, the newest message first; without one, the texts of all messages.

    Earlier messages count because the last one may only say "and now in French"; system prompts and answers do not:
    they are long and the same for many tasks.

    Examples
    --------
    >>> prompt_of([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 2 + 2?"}])
    'What is 2 + 2?'
    """
    asked = [each for each in messages if each.get("role") == "user"]
    return _joined(part for message in reversed(asked or messages) for part in _texts(message.get("content")))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            match part:
                case str():
                    yield part
                case {"text": str(text)}:
                    yield text


def _joined(parts: Iterable[str]) -> str:
    """The beginning of all parts, one per line."""
    found, length = [], 0
    for part in parts:
        found.append(part[: _LONGEST - length])
        length += len(found[-1]) + 1
        if length >= _LONGEST:
            break
    return "\n".join(found)
