"""Validation of public arguments; each error names the field and the remedy."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.errors import InvalidInputError


def is_number(value: Any) -> bool:
    """Whether the value is a Python or NumPy number; booleans and numeric strings are not.

    Examples
    --------
    >>> import numpy as np
    >>> [is_number(value) for value in (1, 0.5, np.float32(2.0), True, "1", None, np.bool_(True))]
    [True, True, True, False, False, False, False]
    """
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def check_number(name: str, value: Any, remedy: str, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return the number as a float; raise an error unless it is finite and in [low, high]."""
    if not (is_number(value) and low <= value <= high and _finite(value)):  # nan compares false
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return float(value)


def check_count(name: str, value: Any, remedy: str, *, low: int = 0) -> int:
    """Return the integer; raise an error for other types or values below ``low``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return int(value)


def check_text(name: str, value: Any, remedy: str) -> str:
    """Return the text; raise an error for any other value."""
    if not isinstance(value, str):
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return value


def check_seconds(name: str, value: Any) -> None:
    """Raise an error unless the value is a positive number of seconds, or None for no limit."""
    if value is not None and not (is_number(value) and 0 < value < math.inf):
        raise InvalidInputError(name, f"is {_shown(value)}", "pass seconds, more than zero, or None")


def check_callable(name: str, value: Any, remedy: str) -> None:
    """Raise an error unless the value can be called or is None."""
    if value is not None and not callable(value):
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)


def check_array(name: str, value: Any, remedy: str) -> npt.NDArray[np.float64]:
    """Convert to a new float array; raise an error for text and None.

    Examples
    --------
    >>> check_array("values", "0.5", "pass a list of numbers")
    Traceback (most recent call last):
    bot_orch.errors.InvalidInputError: values: is '0.5'; pass a list of numbers
    """
    try:
        found = np.asarray(value)
        if found.dtype.kind == "O":
            found = np.array([float(each) for each in found.ravel()]).reshape(found.shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(name, f"is {_shown(value)}", remedy) from error
    if found.dtype.kind not in "biuf":
        raise InvalidInputError(name, f"is {_shown(value)}", remedy)
    return np.array(found, dtype=float)


def _finite(value: Any) -> bool:
    """Whether a number is finite as a float: integers may be too large."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    """The ``repr`` of the value, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
