"""Tables as columns of cells, from CSV, Parquet and DataFrames."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.errors import InvalidInputError, MissingExtraError


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Cells by column: words, numbers, booleans, or None for missing cells.

    ``first_row`` is the number of the first row of cells in messages: 2 in a CSV, whose header is row 1; 0 in Parquet
    files and DataFrames. ``comma`` says that numbers are written with a decimal comma. ``theirs`` is what the file
    calls the columns that were renamed.
    """

    name: str
    columns: Mapping[str, Any]
    _: KW_ONLY
    first_row: int = 0
    comma: bool = False
    notes: tuple[str, ...] = ()
    theirs: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows, without the header."""
        return len(next(iter(self.columns.values()), ()))

    def place(self, column: str, row: int | None = None) -> str:
        """The field of an error: table, column and row (from 0 here, as ``first_row`` counts in the message)."""
        where = f"{self.name}: column {self.theirs.get(column, column)!r}"
        return where if row is None else f"{where}, row {row + self.first_row}"

    def renamed(self, names: Mapping[str, str]) -> Sheet:
        """The table with columns under our names, ``{ours: theirs}``; these are read as nothing else."""
        for theirs in names.values():
            if theirs not in self.columns:
                found = ", ".join(list(self.columns)[:20])
                raise InvalidInputError(f"{self.name}: column {theirs!r}", "no such column", f"columns found: {found}")
        mapped = {ours: self.columns[theirs] for ours, theirs in names.items()}
        rest = {name: cells for name, cells in self.columns.items() if name not in (*names, *names.values())}
        return replace(self, columns=mapped | rest, theirs={**self.theirs, **names})


def named_columns(name: str, header: Sequence[str]) -> list[str]:
    """Stripped column names; empty for unnamed columns. Refuses duplicates."""
    found = [word.strip() for word in header]
    for word in found:
        if word and found.count(word) > 1:
            raise InvalidInputError(f"{name}: column {word!r}", "occurs twice", "give every column a name of its own")
    return found


def sheet_of_frame(frame: Any, name: str) -> Sheet:
    """The cells of a DataFrame (pandas, polars), an Arrow table or a mapping of arrays.

    Where the index has a name, it is a column too.
    """
    header = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
    if header is None or isinstance(header, str):
        remedy = "pass a DataFrame, an Arrow table or a mapping of arrays"
        raise InvalidInputError(name, f"is no DataFrame ({type(frame).__name__})", remedy)
    named_columns(name, words := [str(each) for each in header])
    try:
        cells = {word: _cells(frame[each]) for word, each in zip(words, header, strict=True)}
        labels = getattr(getattr(frame, "index", None), "names", None) or ()
        for level in (each for each in labels if each is not None and str(each) not in cells):
            cells = {str(level): list(frame.index.get_level_values(level)), **cells}
        lengths = {word: len(column) for word, column in cells.items()}
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InvalidInputError(name, f"cannot be read: {str(error)[:80]}", "pass a DataFrame") from error
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{word} {length}" for word, length in list(lengths.items())[:8])
        raise InvalidInputError(name, f"has columns of different lengths: {shown}", "pass one entry per row")
    if not any(lengths.values()):
        raise InvalidInputError(name, "has no rows", "pass a DataFrame with a row per task, or per task and agent")
    return Sheet(name, cells)


def _cells(column: Any) -> Any:
    """The column itself where it is an array of numbers; else its cells, those of Arrow as values of Python."""
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return column if isinstance(column, np.ndarray) else list(column)


#: Words for a missing cell.
MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>", "nat", "-", "–", "—", "?", "."}
_SEPARATORS = ",;\t|"
_MOST_CHARACTERS = 100_000_000  # of one cell


def sheet_of_csv(path: Path) -> Sheet:
    """The cells of a CSV file as words; a malformed file raises an error that names the row."""
    return sheet_of_text(path.name, _decoded(path))


def sheet_of_text(name: str, text: str) -> Sheet:
    r"""The cells of a CSV text.

    Examples
    --------
    >>> dict(sheet_of_text("toy.csv", "task;small\n1;0,5\n").columns)
    {'task': ['1'], 'small': ['0,5']}
    """
    text, separator = _separator(text)
    rows = _rows(name, text, separator)
    if not rows:
        raise InvalidInputError(name, "is empty", "write a header and one row per task, or per task and agent")
    (_, header), body = rows[0], rows[1:]
    names = named_columns(name, header)
    for row, cells in body:
        if len(cells) != len(names):
            problem = f"has {len(cells)} fields, the header has {len(names)}"
            remedy = f"put fields that contain {_word(separator)} or a line break in double quotes"
            raise InvalidInputError(f"{name}: row {row}", problem, remedy)
    if not body:
        raise InvalidInputError(name, "has a header and no rows", "add one row per task, or per task and agent")
    columns, notes = {}, []
    for index, column in enumerate(names):
        values = [cells[index] for _, cells in body]
        if column:
            columns[column] = values
        elif any(value.strip() for value in values):
            notes.append(f"column {index + 1} has no name: not read")
    if not columns:
        raise InvalidInputError(f"{name}: row 1", "names no column", "begin with a header, such as task,agent,reward")
    return Sheet(name, columns, first_row=2, comma=separator != ",", notes=tuple(notes))


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        remedy = "save it as UTF-8 (in a spreadsheet: CSV UTF-8)"
        raise InvalidInputError(f"{path.name}: line {line}", "is not UTF-8", remedy) from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InvalidInputError(f"{path.name}: line {line}", "holds a zero byte", "save the table as text, CSV UTF-8")
    return text


def _separator(text: str) -> tuple[str, str]:
    """The text without a ``sep=;`` line, and the separator: the most frequent one in the unquoted header."""
    told = re.match(r"sep=(.)\r?\n", text)
    if told:
        return text[told.end() :], told.group(1)
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n").split("\n", 1)[0])
    return text, max(_SEPARATORS, key=lambda each: (header.count(each), -_SEPARATORS.index(each)))


def _rows(name: str, text: str, separator: str) -> list[tuple[int, list[str]]]:
    """(row, fields) of every row that is not blank; the header is row 1."""
    before = csv.field_size_limit(_MOST_CHARACTERS)
    found: list[tuple[int, list[str]]] = []
    row = 0
    try:
        for row, cells in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 1):
            if any(cell.strip() for cell in cells):
                found.append((row, cells))
    except csv.Error as error:
        problem = f"is not CSV: {error}"
        remedy = "put fields with quotes or line breaks in double quotes, and double the quotes inside"
        raise InvalidInputError(f"{name}: row {row + 1}", problem, remedy) from error
    finally:
        csv.field_size_limit(before)
    return found


def _word(separator: str) -> str:
    return {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}.get(separator, repr(separator))


def sheet_of_parquet(path: Path) -> Sheet:
    """The cells of a Parquet file."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Parquet", "parquet") from error
    try:
        table = pyarrow.parquet.read_table(path)
        header = named_columns(path.name, table.column_names)
        columns = {name: _values(pyarrow, table.column(index)) for index, name in enumerate(header) if name}
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        problem = f"is no Parquet file that can be read: {str(error).splitlines()[0][:80]}"
        raise InvalidInputError(path.name, problem, "write it again with to_parquet") from error
    if not columns or not table.num_rows:
        raise InvalidInputError(path.name, "has no rows", "write a row per task, or per task and agent")
    return Sheet(path.name, columns)


def _values(pyarrow: Any, column: Any) -> list[Any]:
    """The cells; times with nanoseconds, which would need pandas, in microseconds."""
    if pyarrow.types.is_timestamp(column.type):
        column = column.cast(pyarrow.timestamp("us", tz=column.type.tz), safe=False)
    return list(column.to_pylist())
