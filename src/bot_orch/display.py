"""Tables for people: HTML for notebooks, DataFrames where pandas is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bot_orch.errors import MissingExtraError


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A small HTML table; every cell is escaped.

    Examples
    --------
    >>> html_table("two < three", ["agent", "p"], [["a", 0.5]])
    '<table><caption>two &lt; three</caption><tr><th>agent</th><th>p</th></tr><tr><td>a</td><td>0.500</td></tr></table>'
    """
    lines = [f"<caption>{escape(caption)}</caption>", _row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def data_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A ``pandas.DataFrame`` with a row for each mapping."""
    return optional("pandas", "a DataFrame").DataFrame(list(rows))


def optional(module: str, what: str) -> Any:
    """A module of the extra ``notebook``, or an error that names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(what, "notebook") from error


def _row(tag: str, cells: Iterable[Any]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_text(cell))}</{tag}>' for cell in cells)}</tr>"


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
