"""Checks of arguments at the public interface; each raises an error that names the field and the remedy."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from bot_orch.errors import InvalidInputError

__all__ = ["check_callable", "check_count", "check_number", "check_seconds", "check_text", "is_number"]


def is_number(value: Any) -> bool:
    """Whether it is a Python or NumPy number; booleans and text that looks like a number are not.

    Examples
    --------
    >>> import numpy as np
    >>> [is_number(value) for value in (1, 0.5, np.float32(2.0), True, "1", None, np.bool_(True))]
    [True, True, True, False, False, False, False]
    """
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def check_number(name: str, value: Any, remedy: str, *, low: float = 0.0, high: float = math.inf) -> float:
    """The number as a float if it is finite and in [low, high]."""
    if not (is_number(value) and low <= value <= high and math.isfinite(value)):  # nan compares false
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return float(value)


def check_count(name: str, value: Any, remedy: str, *, low: int = 0) -> int:
    """The integer, if it is one and at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return int(value)


def check_text(name: str, value: Any, remedy: str) -> str:
    """The text, if it is one."""
    if not isinstance(value, str):
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return value


def check_seconds(name: str, value: Any) -> None:
    """Refuse what is not a positive number of seconds; None means no limit."""
    if value is not None and not (is_number(value) and 0 < value < math.inf):
        raise InvalidInputError(name, f"is {_shown(value)}", "pass seconds, more than zero, or None")


def check_callable(name: str, value: Any, remedy: str) -> None:
    """Refuse what cannot be called; None means none."""
    if value is not None and not callable(value):
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)


def _shown(value: Any) -> str:
    """The value, or its beginning if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
