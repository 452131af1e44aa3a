"""Validation of arrays in a matrix file; each error names the array and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

Array = npt.NDArray[Any]
CELL = "a T x M array, one row per task and one column per agent"
_ROUNDING = 1e-6  # of a single-precision mean


def numbers(name: str, raw: Array) -> Floats:
    """``raw`` as floats, without infinities; NaN stays."""
    if raw.dtype.kind not in "fiub":
        raise InvalidInputError(name, f"holds {raw.dtype}, not numbers", "save it as a float or integer array")
    values = raw.astype(np.float64)
    if np.isinf(values).any():
        raise InvalidInputError(name, "holds infinity", "write NaN where a value is missing")
    return values


def known_mean(values: Floats, axis: int = 0) -> Floats:
    """The mean along an axis over known values; NaN where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def check_shape(name: str, values: Array, shape: tuple[int | None, ...], *, words: str) -> None:
    """Refuse other shapes; ``None`` allows any length. ``words`` describes the shape in the user's terms."""
    fits = values.ndim == len(shape) and all(
        n is None or n == have for n, have in zip(shape, values.shape, strict=True)
    )
    if not fits:
        raise InvalidInputError(name, f"has shape {values.shape}", f"save it as {words}")


def in_unit(name: str, values: Floats) -> Floats:
    """Check that values are in [0, 1] or NaN, but not all NaN; rounding errors are clipped.

    Examples
    --------
    >>> in_unit("reward", np.array([0.5, 1.0000001, -1e-9])).tolist()
    [0.5, 1.0, 0.0]
    """
    known = values[np.isfinite(values)]
    if not known.size:
        raise InvalidInputError(name, "holds no value", "at least one cell must be a number in [0, 1]")
    if known.min() < -_ROUNDING or known.max() > 1.0 + _ROUNDING:
        raise InvalidInputError(name, f"ranges from {known.min():g} to {known.max():g}", "rescale it to [0, 1]")
    return np.clip(values, 0.0, 1.0)


def non_negative(name: str, values: Floats) -> Floats:
    """Values of zero or more, or NaN."""
    if np.any(values < 0.0):
        raise InvalidInputError(name, "holds a negative number", "pass zero or more, NaN where it is missing")
    return values


def zero_or_one(name: str, values: Floats) -> Floats:
    """0, 1 or NaN."""
    odd = values[np.isfinite(values) & (values != 0.0) & (values != 1.0)]
    if odd.size:
        raise InvalidInputError(name, f"holds {odd.flat[0]:g}", "write 1 where completed, 0 where right-censored")
    return values


def words(name: str, raw: Array) -> npt.NDArray[np.str_]:
    """``raw`` as text: strings, bytes in UTF-8, numbers or dates as they are printed."""
    if raw.dtype.kind == "S":
        try:
            return np.char.decode(raw, "utf-8")
        except UnicodeDecodeError:
            raise InvalidInputError(name, "holds bytes that are not UTF-8", "save it as an array of strings") from None
    if raw.dtype.kind == "V":
        raise InvalidInputError(name, f"holds {raw.dtype}, not words", "save it as an array of strings")
    return raw.astype(str)


def names(name: str, raw: Array, n: int) -> tuple[str, ...]:
    """``n`` distinct names."""
    check_shape(name, raw, (n,), words=f"{n} names, one per agent")
    found = tuple(str(word) for word in words(name, raw))
    if len(set(found)) < n:
        twice = next(word for word in found if found.count(word) > 1)
        raise InvalidInputError(name, f"holds {twice!r} twice", "give every agent a name of its own")
    return found
