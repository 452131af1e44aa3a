"""Cost and requirements of a request, and the part of a chat that the encoder reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.agents.base import Usage
from bot_orch.agents.capabilities import Needs
from bot_orch.agents.tokens import letters_in, tokens_of

IMAGE_TOKENS, LOW_IMAGE_TOKENS = 1_000, 85
OUTPUT_TOKENS = 500
_LARGEST = 10**9
_TOOL_FIELDS = ("tools", "functions")
_READ = (*_TOOL_FIELDS, "response_format")
_IMAGE_PARTS = frozenset({"image_url", "input_image", "image"})
_LONGEST = 20_000  # characters; the built-in encoder reads as many bytes
_IMAGES = ("image_url", "input_image", "image", "input_audio", "file")


@dataclass(frozen=True, slots=True)
class RequestSize:
    """The parts of a request that cost something.

    Parameters
    ----------
    characters
        Of texts, tools and their calls.
    images, low_images
        Number of images (and sounds and files), and of those with ``detail: low``.
    output_tokens
        Limit of one answer; ``None`` if the request has none.
    answers
        How many answers are asked for (``n``).

    Examples
    --------
    >>> RequestSize(400, images=1, output_tokens=50, answers=2).usage()
    Usage(input_tokens=1100, output_tokens=100, estimated=False, cached_tokens=0, cache_write_tokens=0)
    """

    characters: int = 0
    images: int = 0
    low_images: int = 0
    _: KW_ONLY
    output_tokens: int | None = None
    answers: int = 1

    def usage(self) -> Usage:
        """Token estimate: 4 characters each, 1000 per image (85 at low detail), 500 per answer without a limit."""
        read = tokens_of(self.characters) + self.images * IMAGE_TOKENS
        written = OUTPUT_TOKENS if self.output_tokens is None else self.output_tokens
        return Usage(read + self.low_images * LOW_IMAGE_TOKENS, written * self.answers)


def size_of(params: Mapping[str, Any], *, text: str = "", messages: Iterable[Mapping[str, Any]] = ()) -> RequestSize:
    """The size of a request; malformed parts count as zero.

    ``max_completion_tokens`` counts before ``max_tokens``, as endpoints take it.
    """
    characters, images, low = len(text) + sum(letters_in(params.get(name)) for name in _READ), 0, 0
    for message in messages:
        content = message.get("content")
        characters += letters_in(message.get("tool_calls"))
        if isinstance(content, str):
            characters += len(content)
        elif isinstance(content, list):
            for part in content:
                if isinstance(part, str):
                    characters += len(part)
                elif isinstance(part, dict):
                    if isinstance(written := part.get("text"), str):
                        characters += len(written)
                        continue
                    image = part.get("image_url")
                    if isinstance(image, dict) and image.get("detail") == "low":
                        low += 1
                    else:
                        images += part.get("type") in _IMAGES
    most = _count(params.get("max_completion_tokens"))
    most = _count(params.get("max_tokens")) if most is None else most
    return RequestSize(characters, images, low, output_tokens=most, answers=_count(params.get("n")) or 1)


def _count(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, _LARGEST) if good else None


def needs_of(
    endpoint: str,
    size: RequestSize,
    *,
    params: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]] = (),
    only: str = "",
) -> Needs:
    """The requirements of a chat, regardless of its interface."""
    format_ = params.get("response_format")
    return Needs(
        endpoint,
        size.usage().input_tokens + (size.output_tokens or 0),
        vision=any(map(_has_image, messages)),
        tools=any(params.get(name) for name in _TOOL_FIELDS) or any(map(_has_tools, messages)),
        json=isinstance(format_, Mapping) and format_.get("type") in ("json_object", "json_schema"),
        only=only,
    )


def _has_image(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(isinstance(part, Mapping) and part.get("type") in _IMAGE_PARTS for part in content)


def _has_tools(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("tool", "function") or bool(message.get("tool_calls"))


def prompt_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The user's messages, newest first; without any, the texts of all messages.

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
    """The beginning of all parts, one per line, up to a maximum length."""
    found, length = [], 0
    for part in parts:
        found.append(part[: _LONGEST - length])
        length += len(found[-1]) + 1
        if length >= _LONGEST:
            break
    return "\n".join(found)
