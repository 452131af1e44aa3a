"""Conversion of a table's cells to numbers and words; each error names table, column, row and remedy."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.sheet import MISSING, Sheet

Kind = Literal["unit", "amount", "number", "flag"]

_YES = {"true", "yes", "y", "t", "pass", "passed", "correct", "resolved", "solved", "success", "✓", "✔", "✅"}
_NO = {"false", "no", "n", "f", "fail", "failed", "incorrect", "wrong", "unresolved", "unsolved", "failure"}
_NO |= {"✗", "✘", "❌"}
_ROUNDING = 1e-6


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty or contains a word for missing.

    Examples
    --------
    >>> is_missing(" N/A "), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if cell is None or (isinstance(cell, float | np.floating) and math.isnan(cell)):
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return type(cell).__name__ in ("NAType", "NaTType")


def looks_numeric(sheet: Sheet, column: str) -> bool | None:
    """Whether most of the column's cells are numbers or booleans; None if all are empty."""
    known = [cell for cell in sheet.columns[column] if not is_missing(cell)]
    if not known:
        return None
    return 2 * sum(_parsed(cell, comma=sheet.comma) is not None for cell in known) > len(known)


def numbers_of(sheet: Sheet, column: str, kind: Kind, *, hint: str = "") -> Floats:
    """The column as floats, NaN where missing.

    ``unit``: in [0, 1], also truth values and percentages written with a percent sign. ``amount``: zero or more.
    ``number``: any. ``flag``: a truth value, 0 or 1. ``hint`` is added to the remedy.
    """
    array = array_of(sheet.columns[column])
    if array is not None and array.ndim == 1 and _all_right(array, kind):
        return np.clip(array, 0.0, 1.0) if kind == "unit" else array
    found = np.full(sheet.n_rows, np.nan)
    for row, cell in enumerate(sheet.columns[column]):
        if is_missing(cell):
            continue
        value = _parsed(cell, comma=sheet.comma)
        problem = _problem(cell, value, kind)
        if problem is not None:
            raise InvalidInputError(sheet.place(column, row), problem[0], problem[1] + hint)
        assert value is not None  # noqa: S101 - no problem was found
        found[row] = min(max(value, 0.0), 1.0) if kind == "unit" else value
    return found


def array_of(cells: Any) -> Floats | None:
    """The cells as an array, if they are numbers or rows of numbers already."""
    try:
        array = np.asarray(cells)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(float) if array.dtype.kind in "biuf" else None


def _all_right(array: Floats, kind: Kind) -> bool:
    known = array[~np.isnan(array)]
    if not np.isfinite(known).all() or (kind == "flag" and not np.isin(known, (0.0, 1.0)).all()):
        return False
    low, high = {"unit": (0.0, 1.0), "amount": (0.0, math.inf)}.get(kind, (-math.inf, math.inf))
    return bool(((known >= low) & (known <= high)).all())


def _problem(cell: Any, value: float | None, kind: Kind) -> tuple[str, str] | None:
    shown = repr(cell if len(str(cell)) <= 30 else f"{str(cell)[:27]}...")
    if kind == "flag" and value not in (0.0, 1.0):
        return f"is {shown}", "write true or false"
    if value is None or not math.isfinite(value):
        return f"is {shown}, not a number", "write a number, and nothing where it is unknown"
    if kind == "unit" and not -_ROUNDING <= value <= 1.0 + _ROUNDING:
        return f"is {value:g}, outside [0, 1]", "divide percentages by 100, and scale other scores to [0, 1]"
    if kind == "amount" and value < 0.0:
        return f"is {value:g}", "write zero or more, and nothing where it is unknown"
    return None


def texts_of(sheet: Sheet, column: str) -> list[str]:
    """The column as texts, as they are; empty where missing."""
    return ["" if is_missing(cell) else str(cell) for cell in sheet.columns[column]]


def words_of(sheet: Sheet, column: str) -> list[str]:
    """The column as words, empty where missing; whole numbers without a decimal point."""
    return [_word(cell) for cell in sheet.columns[column]]


def _word(cell: Any) -> str:
    if is_missing(cell):
        return ""
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell).strip()


def _parsed(cell: Any, *, comma: bool) -> float | None:
    """A finite or infinite float, or None."""
    if isinstance(cell, str):
        return _from_word(cell.strip(), comma=comma)
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def _from_word(word: str, *, comma: bool) -> float | None:
    low = word.lower()
    if low in _YES or low in _NO:
        return float(low in _YES)
    scale = 1.0
    if word.endswith("%"):
        word, scale = word[:-1].rstrip(), 0.01
    word = word.removeprefix("$").strip()
    if comma and word.count(",") == 1 and "." not in word:
        word = word.replace(",", ".")
    try:
        value = scale * float(word)
    except ValueError:
        return None
    return None if math.isnan(value) or "_" in word else value
