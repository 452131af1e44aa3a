"""Validate a sweep file: unknown keys are refused, and the nearest known key is suggested."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from typing import Any

from bot_orch.errors import InvalidInputError


def check_keys(where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a key that is not known.

    Examples
    --------
    >>> check_keys("sweep", {"polices": []}, ["policies", "seeds"])
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: sweep.polices: is not known; did you mean policies?
    """
    for key in given:
        if key not in known:
            raise InvalidInputError(f"{where}.{key}", "is not known", nearest(str(key), known))


def nearest(word: str, known: Collection[str]) -> str:
    """The remedy for an unknown word: the nearest known one, or the list of all."""
    close = difflib.get_close_matches(word, [str(k) for k in known], n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"choose from {', '.join(sorted(known)) or 'none'}"


def mapping(where: str, value: Any) -> dict[str, Any]:
    """``value`` if it is a mapping with text keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidInputError(where, f"is {value!r}", "write keys and values, such as seeds: 20")
    return value


def listed(where: str, value: Any) -> list[Any]:
    """A list, or one thing as a list of one; never empty."""
    items = value if isinstance(value, list) else [value]
    if not items:
        raise InvalidInputError(where, "is empty", "name at least one")
    return items


def text(where: str, value: Any) -> str:
    """``value`` if it is text, not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(where, f"is {value!r}", "write a name")
    return value


def number(where: str, value: Any) -> float:
    """``value`` as a number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidInputError(where, f"is {value!r}", "write a number, 0 or more, such as 0.5 or 1.0e+3")
    return float(value)


def count(where: str, value: Any, most: float = math.inf) -> int:
    """``value`` if it is a whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        range_ = "1 or more" if most == math.inf else f"1 to {most:,}"
        raise InvalidInputError(where, f"is {value!r}", f"write a whole number, {range_}")
    return value
