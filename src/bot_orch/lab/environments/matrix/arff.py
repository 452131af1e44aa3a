"""A small reader of ARFF files, the table format of ASlib scenarios."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

__all__ = ["Table", "parse_arff", "read_arff"]

_QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_NAME = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(\{{?)", re.IGNORECASE)
_FIELD = re.compile(rf"\s*({_QUOTED}|(?:\\.|[^,\\])*?)\s*(,|$)")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Table:
    """Column names in lower case and rows of words; ``None`` where the file says ``?``.

    ``nominal`` are the columns declared as a list of levels; ``source`` is what errors call the file.
    """

    columns: tuple[str, ...]
    rows: list[list[str | None]]
    nominal: frozenset[str] = frozenset()
    _: KW_ONLY
    source: str = ""

    def words(self, column: str) -> list[str | None]:
        """A column as it is written."""
        index = self._index(column)
        return [row[index] for row in self.rows]

    def numbers(self, column: str) -> Floats:
        """A column as numbers; NaN where the file says ``?``."""
        try:
            return np.array([np.nan if word is None else float(word) for word in self.words(column)], dtype=float)
        except ValueError as error:
            raise InvalidInputError(self.place(column), str(error), "the column must hold numbers or ?") from error

    def place(self, column: str) -> str:
        """File and column, for errors."""
        return f"{self.source}: {column}" if self.source else column

    def _index(self, column: str) -> int:
        if column not in self.columns:
            raise InvalidInputError(self.place(column), "is not a column", f"the file has {', '.join(self.columns)}")
        return self.columns.index(column)


def read_arff(path: Path) -> Table:
    """The table in a file; errors name file and line."""
    try:
        return replace(parse_arff(path.read_text(encoding="utf-8-sig", errors="replace")), source=path.name)
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
    written: list[str] = []
    columns: list[str] = []
    nominal: set[str] = set()
    lines = iter(enumerate(_LINE_END.split(text), 1))
    for number, line in lines:
        bare = line.strip()
        word = bare.split(None, 1)[0].lower() if bare else ""
        if word == "@attribute":
            name, levels = _attribute(bare, number)
            if name in written:
                raise InvalidInputError(f"line {number}", f"names {name!r} again", "give every column its own name")
            written.append(name)
            low = name.lower()
            columns.append(low if low not in columns else f"{low} ({len(columns) + 1})")  # apart by case only
            nominal |= {columns[-1]} if levels else set()
        elif word == "@data":
            break
        elif bare and not bare.startswith("%") and word != "@relation":
            raise InvalidInputError(f"line {number}", f"is {bare[:40]!r}", "expected @attribute or @data")
    else:
        raise InvalidInputError("@data", "is missing", "an ARFF file has a line @data before its rows")
    return Table(tuple(columns), list(_rows(lines, len(columns))), frozenset(nominal))


def _attribute(line: str, number: int) -> tuple[str, bool]:
    """Name of a column, and whether it is declared as a list of levels."""
    found = _NAME.match(line)
    name = _unquoted(found[1]) if found else ""
    if found is None or not name:
        raise InvalidInputError(f"line {number}", "names no attribute", "write @attribute NAME TYPE")
    return name, bool(found[2])


def _rows(lines: Iterator[tuple[int, str]], width: int) -> Iterator[list[str | None]]:
    for number, line in lines:
        bare = line.strip()
        if not bare or bare.startswith("%"):
            continue
        words = _fields(bare)
        if len(words) != width:
            raise InvalidInputError(
                f"line {number}", f"has {len(words)} values", f"expected {width}, one per attribute"
            )
        yield [None if word == "?" else word for word in words]


def _fields(line: str) -> list[str]:
    r"""Words between commas, each of them bare or in quotes of either kind.

    Examples
    --------
    >>> _fields('''"it's, one", 'two \\'2\\'' , 3''')
    ["it's, one", "two '2'", '3']
    """
    quotes = [mark for mark in "'\"" if mark in line]
    if len(quotes) < 2 and "\\" not in line and len(line) < csv.field_size_limit():  # fast
        rows = csv.reader([line], quotechar=quotes[0] if quotes else "'", doublequote=False, skipinitialspace=True)
        return [word.strip() for word in next(rows)]
    words: list[str] = []
    at = 0
    while at <= len(line):
        found = _FIELD.match(line, at)
        if found is None:  # a backslash at the end of the line
            return [*words, line[at:].strip()]
        words.append(_unquoted(found[1]))
        at = found.end() + (0 if found[2] else 1)
    return words


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    return re.sub(r"\\(.)", r"\1", word).strip()
