"""Read access to a log in PostgreSQL: committed rows, keys and snapshots, over a read-only connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from bot_orch.log.log import ArchiveRecord, Row, Snapshot
from bot_orch.log.lookups import Found, Wanted
from bot_orch.log.stores.postgres.connect import MAIN_STREAM, QUERIES, connect, driver, reaching
from bot_orch.log.stores.postgres.rows import escape, found_by, row_of, unescape
from bot_orch.log.stores.postgres.timing import split

__all__ = ["BATCH", "CommittedRows"]

BATCH = 1000
_Q = QUERIES


class CommittedRows:
    """The committed rows of one stream.

    Parameters
    ----------
    url
        See :class:`bot_orch.log.stores.postgres.log.PostgresLog`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        _, self.timing, self.schema, self.name = split(url)
        self.stream = MAIN_STREAM
        self._psycopg = driver()
        self._r: Any = None
        # Connections that were lost so far. After one loss the others are left too: each would be waited for in turn.
        self._losses = self._r_since = 0
        # Readers may be in several threads; the connection takes one at a time.
        self._reading = threading.RLock()
        self._ended = threading.Event()

    def look_up(self, wanted: Wanted) -> Found:
        """Look up committed rows, all in one round trip."""
        with self._reading, reaching():
            r = self._reader()
            with r.pipeline():
                lookups = self._lookups(r, wanted)
            return found_by(wanted, lookups)

    def clock_us(self) -> int:
        """The server's time."""
        with self._reading, reaching():
            return int(self._reader().execute(_Q["clock"]).fetchone()[0])

    def abort(self) -> None:
        """Make every waiting and later query fail; may be called from any thread."""
        self._ended.set()

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        while batch := self.batch(after):
            yield from batch
            after = batch[-1].seq

    def batch(self, after: int, most: int = BATCH) -> list[Row]:
        """The next committed rows behind ``after``."""
        return [row_of(found) for found in self._ask("read", after, most)]

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.log.log.Log`."""
        return [row_of(found) for found in self._ask("about", escape(ref))]

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.log.log.Log`."""
        return next((row_of(found) for found in self._ask("row", seq)), None)

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.log.log.Log`."""
        return next(((int(seq), bytes(digest)) for seq, digest in self._ask("find", escape(key))), None)

    def archived(self) -> ArchiveRecord | None:
        """See :class:`bot_orch.log.log.Log`."""
        found = self._ask("archived")
        return next((ArchiveRecord(seq, at, unescape(folder), digest) for seq, at, folder, digest in found), None)

    def base(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        found = self._ask("base")
        return next((Snapshot(int(seq), bytes(body)) for seq, body in found), None)

    def keys_between(self, after: int, upto: int) -> dict[int, tuple[str, bytes]]:
        """Names used by the rows with ``after < seq <= upto``."""
        return {int(seq): (unescape(key), bytes(digest)) for key, seq, digest in self._ask("keys", after, upto)}

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.log.log.Log`."""
        return next(((int(seq), int(time_us)) for seq, time_us in self._ask("last")), (0, 0))

    def snapshot(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        found = self._ask("snapshot")
        return next((Snapshot(int(seq), bytes(body)) for seq, body in found), None)

    def _lookups(self, connection: Any, wanted: Wanted) -> list[Any]:
        names = zip(("by_keys", "by_refs"), wanted, strict=True)
        return [
            connection.cursor(binary=True).execute(_Q[name], (self.stream, [escape(each) for each in asked]))
            if asked
            else None
            for name, asked in names
        ]

    def _reader(self) -> Any:
        self._r = self._kept(self._r, self._r_since)
        if self._r is None:
            self._r_since = self._losses
            self._r = connect(self.url, autocommit=True, read_only=True, ended=self._ended)
        return self._r

    def _kept(self, connection: Any, since: int) -> Any:
        """The connection, unless it or a later one was lost (``since``: number of losses when it was made)."""
        if connection is None or connection.closed:
            self._losses += connection is not None
            return None
        if since == self._losses:
            return connection
        with suppress(self._psycopg.Error):
            connection.close()
        return None

    def _ask(self, query: str, *arguments: Any) -> list[Any]:
        """Run a read query; retry once on a new connection if the old one is dead."""
        with self._reading, reaching():
            try:
                return self._fetch(query, arguments)
            except self._psycopg.OperationalError:
                if self._r is not None and not self._r.closed:
                    raise
                return self._fetch(query, arguments)

    def _fetch(self, query: str, arguments: tuple[Any, ...]) -> list[Any]:
        found: list[Any] = self._reader().cursor(binary=True).execute(_Q[query], (self.stream, *arguments)).fetchall()
        return found
