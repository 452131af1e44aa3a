"""A small reader of ARFF files, the table format of ASlib scenarios."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

__all__ = ["Table", "parse_arff", "read_arff"]


@dataclass(frozen=True, slots=True)
class Table:
    """Column names in lower case and rows of words; ``None`` where the file says ``?``."""

    columns: tuple[str, ...]
    rows: list[list[str | None]]

    def words(self, column: str) -> list[str | None]:
        """A column as it is written."""
        return [row[self._index(column)] for row in self.rows]

    def numbers(self, column: str) -> Floats:
        """A column as numbers; NaN where the file says ``?``."""
        try:
            return np.array([np.nan if word is None else float(word) for word in self.words(column)], dtype=float)
        except ValueError as error:
            raise InvalidInputError(column, str(error), "the column must hold numbers or ?") from error

    def _index(self, column: str) -> int:
        if column not in self.columns:
            raise InvalidInputError(column, "is not a column", f"the file has {', '.join(self.columns)}")
        return self.columns.index(column)


def read_arff(path: Path) -> Table:
    """The table in a file; errors name file and line."""
    try:
        return parse_arff(path.read_text(encoding="utf-8", errors="replace"))
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error.field}", error.problem, error.remedy) from error


def parse_arff(text: str) -> Table:
    r"""Parse dense ARFF.

    Examples
    --------
    >>> table = parse_arff("@attribute 'a b' string\n@attribute x numeric\n@data\n'it, is',1.5\nq,?\n")
    >>> table.columns, table.rows
    (('a b', 'x'), [['it, is', '1.5'], ['q', None]])
    """
    columns: list[str] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        bare = line.strip()
        word = bare.split(None, 1)[0].lower() if bare else ""
        if word == "@attribute":
            columns.append(_attribute(bare, number))
        elif word == "@data":
            break
        elif bare and not bare.startswith("%") and word != "@relation":
            raise InvalidInputError(f"line {number}", f"is {bare[:40]!r}", "expected @attribute or @data")
    else:
        raise InvalidInputError("@data", "is missing", "an ARFF file has a line @data before its rows")
    return Table(tuple(columns), list(_rows(lines, len(columns))))


def _attribute(line: str, number: int) -> str:
    rest = line.split(None, 1)[1].strip() if len(line.split(None, 1)) == 2 else ""
    if rest[:1] in ("'", '"'):
        end = rest.find(rest[0], 1)
        name = rest[1:end] if end > 0 else ""
    else:
        name = rest.split(None, 1)[0] if rest else ""
    if not name:
        raise InvalidInputError(f"line {number}", "names no attribute", "write @attribute NAME TYPE")
    return name.lower()


def _rows(lines: Iterator[tuple[int, str]], width: int) -> Iterator[list[str | None]]:
    for number, line in lines:
        bare = line.strip()
        if not bare or bare.startswith("%"):
            continue
        quote = "'" if "'" in bare else '"'
        words = [w.strip() for w in next(csv.reader([bare], quotechar=quote, escapechar="\\", skipinitialspace=True))]
        if len(words) != width:
            raise InvalidInputError(
                f"line {number}", f"has {len(words)} values", f"expected {width}, one per attribute"
            )
        yield [None if word == "?" else word for word in words]
