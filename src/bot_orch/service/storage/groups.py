"""Groups of rows committed together, and lookups that include uncommitted rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from bot_orch.core.events import Event
from bot_orch.log.log import ARCHIVED, Row
from bot_orch.service.problems import StorageError

_PATIENCE_S = 15.0
_MANY = 10_000


class Group:
    """Rows committed together; ``taken`` are keys that the log had already, so that their rows went without them."""

    __slots__ = ("done", "error", "keys", "patience_s", "rows", "taken")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.keys: dict[str, Row] = {}
        self.taken: set[str] = set()
        self.done = asyncio.Event()
        self.error: Exception | None = None
        self.patience_s = _PATIENCE_S

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows.append(row)
        if row.key is not None:
            self.keys[row.key] = row

    def leave_out(self, keys: Iterable[str]) -> None:
        """Write the rows with these keys without them."""
        self.taken.update(keys)
        for key in self.taken:
            self.keys.pop(key, None)
        self.rows = [row._replace(key=None, digest=None) if row.key in self.taken else row for row in self.rows]

    async def durable(self) -> None:
        """Wait until the rows are on disk; raises an error on failure or timeout."""
        if not self.done.is_set():
            try:
                async with asyncio.timeout(self.patience_s):
                    await self.done.wait()
            except TimeoutError:
                waited = f"storage: not confirmed after {self.patience_s:g} seconds, it may still be written"
                raise StorageError(f"{waited}; repeat the request with its key, or look it up") from None
        if self.error is not None:
            raise StorageError(f"storage: {self.error}; try again later") from self.error


class Known(NamedTuple):
    """The event that used a key, and its group if uncommitted."""

    row: Row
    group: Group | None

    @property
    def archived(self) -> bool:
        """Whether the event was archived."""
        return self.row.kind == ARCHIVED

    def event(self) -> Event | None:
        """The event; None if it was archived."""
        return None if self.archived else self.row.event()

    def by_now(self) -> Known | None:
        """The event without its group if that was committed meanwhile; None if it was refused."""
        if self.group is None or not self.group.done.is_set():
            return self
        return None if self.group.error is not None or self.row.key in self.group.taken else Known(self.row, None)

    def used_for(self, digest: bytes | None) -> bool:
        """Whether the key was used with the same content."""
        return self.row.digest == digest


class Look:
    """Result of a lookup of keys and refs; valid until the caller awaits something else."""

    __slots__ = ("_keys", "_refs")

    def __init__(self, keys: Mapping[str, Known | None], refs: Mapping[str, list[Row]]) -> None:
        self._keys, self._refs = keys, refs

    def find(self, key: str | None) -> Known | None:
        """The event that used ``key``, committed or not."""
        return None if key is None else self._keys[key]

    def about(self, ref: str) -> list[Row]:
        """Every row about ``ref``; all are committed."""
        return self._refs[ref]


EMPTY = Look({}, {})


class RecentWrites:
    """Keys and refs written during lookups, which may have missed them.

    Examples
    --------
    >>> recent = RecentWrites()
    >>> with recent.lookup() as since:
    ...     recent.wrote(Row(1, 5, "kind", "a", b""), None)
    ...     recent.touched(["b"], since), recent.touched(["a", "b"], since)
    (False, True)
    """

    def __init__(self) -> None:
        self._number = 0
        self._under_way: dict[int, int] = {}
        self._refs: dict[str, int] = {}
        self._keys: dict[str, tuple[int, Known]] = {}

    @contextmanager
    def lookup(self) -> Iterator[int]:
        """Record writes inside the ``with`` block; yields its start as a counter."""
        self._number += 1
        since = self._number
        self._under_way[since] = since
        try:
            yield since
        finally:
            del self._under_way[since]
            if not self._under_way:
                self._refs.clear()
                self._keys.clear()

    def wrote(self, row: Row, group: Group | None) -> None:
        """Note a row."""
        if not self._under_way:
            return
        self._number += 1
        self._refs[row.ref] = self._number
        if row.key is not None:
            self._keys[row.key] = self._number, Known(row, group)
        if len(self._refs) > _MANY:
            oldest = min(self._under_way)
            self._refs = {ref: number for ref, number in self._refs.items() if number > oldest}
            self._keys = {key: each for key, each in self._keys.items() if each[0] > oldest}

    def touched(self, refs: Iterable[str], since: int) -> bool:
        """Whether a row about one of ``refs`` was written since then."""
        return any(self._refs.get(ref, 0) > since for ref in refs)

    def find(self, key: str) -> Known | None:
        """The event that used ``key`` since the oldest lookup began."""
        found = self._keys.get(key)
        return None if found is None else found[1].by_now()
