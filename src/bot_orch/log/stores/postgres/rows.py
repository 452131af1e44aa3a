"""Conversion of rows between Python and PostgreSQL: escaped text, and results of cursors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bot_orch.log.log import Row
from bot_orch.log.lookups import ARCHIVED, Found, Wanted

__all__ = ["escape", "found_by", "row_of", "rows_of", "unescape"]


def found_by(wanted: Wanted, lookups: Sequence[Any]) -> Found:
    """Collect the results of a batch of cursors."""
    by_keys, by_refs = ([] if each is None else each.fetchall() for each in lookups)
    keys: dict[str, Row] = {}
    for key, digest, seq, time_us, kind, ref, body in by_keys:
        name, known = unescape(key), kind is not None  # else it was moved to an archive
        row = Row(seq, time_us, kind, unescape(ref), body) if known else Row(seq, 0, ARCHIVED, "", b"")
        keys[name] = row._replace(key=name, digest=bytes(digest))
    refs: dict[str, list[Row]] = {ref: [] for ref in wanted.refs}
    for row in map(row_of, by_refs):
        refs[row.ref].append(row)
    return Found(keys, refs)


def rows_of(cursor: Any) -> list[Row]:
    """All rows of a cursor."""
    return [row_of(found) for found in cursor.fetchall()]


def row_of(found: Any) -> Row:
    """Convert columns to a row."""
    seq, time_us, kind, ref, body = found
    return Row(seq, time_us, kind, unescape(ref), body)


def escape(text: str) -> str:
    r"""Escape NUL characters, which PostgreSQL text cannot hold.

    Examples
    --------
    >>> escape("a\x00b\\"), unescape(escape("a\x00b\\")) == "a\x00b\\"
    ('a\\0b\\\\', True)
    """
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def unescape(text: str) -> str:
    """The text as it was before :func:`escape`."""
    return re.sub(r"\\(.)", lambda each: "\0" if each[1] == "0" else each[1], text) if "\\" in text else text
