"""What a request will probably use, before it is sent: characters, images and answers as tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.agents.base import Usage

__all__ = ["RequestSize", "size_of"]

CHARACTERS_PER_TOKEN = 4
IMAGE_TOKENS, LOW_IMAGE_TOKENS = 1_000, 85
OUTPUT_TOKENS = 500
_LARGEST = 10**9
_IMAGES = ("image_url", "input_image", "image", "input_audio", "file")


@dataclass(frozen=True, slots=True)
class RequestSize:
    """The parts of a request that cost something.

    Parameters
    ----------
    characters
        Of texts.
    images, low_images
        Number of images (and sounds and files), and of those with ``detail: low``.
    output_tokens
        Limit of one answer; ``None`` if the request has none.
    answers
        How many answers are asked for (``n``).

    Examples
    --------
    >>> RequestSize(400, images=1, output_tokens=50, answers=2).usage()
    Usage(input_tokens=1100, output_tokens=100...)
    """

    characters: int = 0
    images: int = 0
    low_images: int = 0
    _: KW_ONLY
    output_tokens: int | None = None
    answers: int = 1

    def usage(self) -> Usage:
        """Tokens: four characters each, 1000 an image (85 with low detail), 500 an answer without a limit."""
        read = self.characters // CHARACTERS_PER_TOKEN + self.images * IMAGE_TOKENS
        written = OUTPUT_TOKENS if self.output_tokens is None else self.output_tokens
        return Usage(read + self.low_images * LOW_IMAGE_TOKENS, written * self.answers)


def size_of(params: Mapping[str, Any], *, text: str = "", messages: Iterable[Mapping[str, Any]] = ()) -> RequestSize:
    """The size of a request; parts that are not as they should be count as nothing.

    ``max_completion_tokens`` counts before ``max_tokens``, as endpoints take it.
    """
    characters, images, low = len(text), 0, 0
    for message in messages:
        content = message.get("content")
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
