"""Logs in SQL databases: statements in ``.sql`` files, and what reading committed rows has in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from bot_orch.log.log import ArchiveRecord, Log, Row, Snapshot

BATCH = 1000


def schema_script(backend: str) -> str:
    """The script that makes the tables.

    Examples
    --------
    >>> schema_script("sqlite").startswith("-- Append-only")
    True
    """
    return (files("bot_orch.log.stores") / "sql" / f"{backend}_schema.sql").read_text()


def queries(backend: str) -> dict[str, str]:
    """The statements of ``{backend}_queries.sql`` by name.

    Examples
    --------
    >>> queries("sqlite")["find"]
    'SELECT seq, digest FROM keys WHERE key = ?'
    """
    text = (files("bot_orch.log.stores") / "sql" / f"{backend}_queries.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: statement.strip() for name, statement in zip(parts[1::2], parts[2::2], strict=True)}


class SqlLog(Log):
    """Committed rows of a log in a database, which both backends query by the same names."""

    @abstractmethod
    def _ask(self, query: str, *arguments: Any) -> list[Any]:
        """The rows that a named query finds."""

    @staticmethod
    @abstractmethod
    def _stored(text: str, /) -> Any:
        """A ref or a key as the database has it; :meth:`_text` is the inverse."""

    @staticmethod
    @abstractmethod
    def _text(stored: Any, /) -> str: ...

    def _rows(self, query: str, *arguments: Any) -> list[Row]:
        return [self._row(*found) for found in self._ask(query, *arguments)]

    def _row(self, seq: int, time_us: int, kind: str, ref: Any, body: bytes) -> Row:
        return Row(seq, time_us, kind, self._text(ref), body)

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        while batch := self.batch(after):
            yield from batch
            after = batch[-1].seq

    def batch(self, after: int, most: int = BATCH) -> list[Row]:
        """The next committed rows behind ``after``."""
        return self._rows("read", after, most)

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        return self._rows("about", self._stored(ref))

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.log.log.Log`."""
        return next(iter(self._rows("row", seq)), None)

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.log.log.Log`."""
        return next(((int(seq), bytes(digest)) for seq, digest in self._ask("find", self._stored(key))), None)

    def keys_between(self, after: int, upto: int) -> dict[int, tuple[str, bytes]]:
        """Names used by the rows with ``after < seq <= upto``."""
        found = self._ask("keys_between", after, upto)
        return {int(seq): (self._text(key), bytes(digest)) for key, seq, digest in found}

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.log.log.Log`."""
        return next(((int(seq), int(time_us)) for seq, time_us in self._ask("last")), (0, 0))

    def archived(self) -> ArchiveRecord | None:
        """See :class:`bot_orch.log.log.Log`."""
        for seq, time_us, folder, digest in self._ask("archived"):
            return ArchiveRecord(int(seq), int(time_us), self._text(folder), bytes(digest))
        return None

    def base(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        return next((Snapshot(int(seq), bytes(body)) for seq, body in self._ask("base")), None)
