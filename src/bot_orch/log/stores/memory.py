"""A log in memory, for tests and trials, and as a baseline for the cost of durability."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from bot_orch.log.log import Log, LogConflictError, Row, Snapshot


class MemoryLog(Log):
    """Rows in a list; gone with the process.

    Examples
    --------
    >>> log = MemoryLog()
    >>> log.append([Row(1, 5, "kind", "ref", b"")])
    >>> log.last()
    (0, 0)
    >>> log.commit()
    >>> log.last()
    (1, 5)
    """

    instant = True

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._about: dict[str, list[int]] = {}
        self._keys: dict[str, tuple[int, bytes]] = {}
        self._open: list[Row] = []
        self._snapshot: Snapshot | None = None

    def append(self, rows: Sequence[Row]) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        expected = len(self._rows) + len(self._open) + 1
        fresh: set[str] = {row.key for row in self._open if row.key is not None}
        for offset, row in enumerate(rows):
            if row.seq != expected + offset:
                raise LogConflictError(
                    f"log: row {row.seq} does not follow {expected + offset - 1}; read the log again"
                )
            if row.key is not None:
                if row.key in self._keys or row.key in fresh:
                    raise LogConflictError(f"log: the key of row {row.seq} is taken; read the log again")
                fresh.add(row.key)
        self._open.extend(rows)

    def commit(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        for row in self._open:
            self._about.setdefault(row.ref, []).append(row.seq)
            if row.key is not None:
                self._keys[row.key] = (row.seq, row.digest or b"")
        self._rows.extend(self._open)
        self._open = []

    def rollback(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self._open = []

    def probe(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        return iter(self._rows[bisect_right(range(1, len(self._rows) + 1), after) :])

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        return [self._rows[seq - 1] for seq in self._about.get(ref, ())]

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self._rows[seq - 1] if 1 <= seq <= len(self._rows) else None

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self._keys.get(key)

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.log.log.Log`."""
        return (self._rows[-1].seq, self._rows[-1].time_us) if self._rows else (0, 0)

    def snapshot(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        return self._snapshot

    def save(self, snapshot: Snapshot) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self._snapshot = snapshot

    def close(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
