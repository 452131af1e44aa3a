"""A table with named columns, whatever it was read from, and where its errors point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from bot_orch.errors import InvalidInputError

__all__ = ["Sheet", "named_columns", "sheet_of_frame"]


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Cells by column: words, numbers, truth values, or None where a cell is missing.

    ``first_row`` is the number of the first row of cells in messages: 2 in a CSV, whose header is row 1; 0 in Parquet
    files and DataFrames. ``comma`` says that numbers are written with a decimal comma.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    _: KW_ONLY
    first_row: int = 0
    comma: bool = False
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows, without the header."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, column: str, row: int | None = None) -> str:
        """The field of an error: table, column and row (from 0 here, as ``first_row`` counts in the message)."""
        where = f"{self.name}: column {column!r}"
        return where if row is None else f"{where}, row {row + self.first_row}"


def named_columns(name: str, header: Sequence[str]) -> list[str]:
    """Names of the columns, stripped; empty where a column has none. Refuses a name that occurs twice."""
    found = [word.strip() for word in header]
    for word in found:
        if word and found.count(word) > 1:
            raise InvalidInputError(f"{name}: column {word!r}", "occurs twice", "give every column a name of its own")
    return found


def sheet_of_frame(frame: Any, name: str) -> Sheet:
    """The cells of a DataFrame (pandas, polars, or anything with ``columns`` and ``frame[column]``).

    Where the index has a name, it is a column too.
    """
    try:
        header = [str(column) for column in frame.columns]
        if len(set(header)) < len(header):
            named_columns(name, header)
        cells = {str(column): list(frame[column]) for column in frame.columns}
        labels = getattr(getattr(frame, "index", None), "names", None) or ()
        for level, label in enumerate(labels):
            if label is not None and str(label) not in cells:
                cells = {str(label): list(frame.index.get_level_values(level)), **cells}
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(name, f"is no DataFrame ({type(frame).__name__})", "pass a pandas DataFrame") from error
    if len({len(column) for column in cells.values()}) > 1 or not cells or not len(next(iter(cells.values()))):
        raise InvalidInputError(name, "has no rows", "pass a DataFrame with a row per task, or per task and agent")
    return Sheet(name, cells)
