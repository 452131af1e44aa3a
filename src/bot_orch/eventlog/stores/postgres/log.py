"""A log in PostgreSQL, for any number of writers.

A writer takes an advisory lock first, reads what others have appended, and only then numbers its rows; the lock
goes with the commit. So numbers have no gaps, a smaller number is always visible before a larger one, and a follower
that reads ``seq > last`` misses nothing.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.log import LogConflictError, Row, Snapshot
from bot_orch.eventlog.stores.postgres.connect import (
    QUERIES,
    SCHEMA,
    LogUnavailableError,
    channel,
    check_version,
    connect,
    driver,
    prepare,
    reaching,
)
from bot_orch.eventlog.stores.postgres.timing import split

__all__ = ["PostgresLog"]

_log = logging.getLogger("bot_orch.log")
_BATCH = 1000
_LOOKS = 6  # attempts to take the lock before we give up
_LOOKS_PER_HOLD = 3
_Q = QUERIES


class PostgresLog:
    """Rows in a PostgreSQL database, under a schema of their own.

    Parameters
    ----------
    url
        ``postgresql://user:password@host:port/database``, or anything libpq takes; ``hold_s`` and ``lease_s`` among
        its parameters are ours, see :class:`bot_orch.eventlog.stores.postgres.timing.Timing`.
    schema
        Where the tables are; made if missing, unless ``read_only``.
    read_only
        Change nothing.
    writer
        Number of this replica, kept beside every row it appends.
    """

    instant = False
    shared = True

    def __init__(self, url: str, *, schema: str = SCHEMA, read_only: bool = False, writer: int = 0) -> None:
        self.url, self.schema, self.writer = url, schema, writer
        self.timing = split(url)[1]
        self._psycopg = driver()
        self._read_only = read_only
        self._w: Any = None
        self._r: Any = None
        self._in_group = False
        self._next = 0
        # Readers may be in several threads; the connection takes one at a time.
        self._reading = threading.RLock()
        if not read_only:
            prepare(url, schema)
        try:
            with reaching():
                check_version(self._reader(), schema)
        except BaseException:
            self.close()
            raise

    def begin(self, after: int, time_us: int | None = None) -> list[Row]:
        """Take the lock, then read the rows after ``after``; no other writer appends until the next commit.

        ``after`` must be there, with the time ``time_us`` if that is given: a log that was restored, or that lost its
        end when a standby took over, does not go on where we are.
        """
        with reaching():
            w = self._locked()
            rows = self._more(w, after - 1)
            while len(rows) % _BATCH == 0 and rows and (more := self._more(w, rows[-1].seq)):
                rows += more
        if after > 0:
            known = rows.pop(0) if rows and rows[0].seq == after else None
            if known is None or (time_us is not None and known.time_us != time_us):
                raise LogConflictError(f"log: row {after} is not the one we know; it was restored or has lost rows")
        self._next = (rows[-1].seq if rows else after) + 1
        return rows

    def append(self, rows: Sequence[Row], snapshot: Snapshot | None = None) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        with reaching():
            if not self._in_group:
                self._begin_here()
            for offset, row in enumerate(rows):
                if row.seq != self._next + offset:
                    raise LogConflictError(
                        f"log: row {row.seq} does not follow {self._next + offset - 1}; read it again"
                    )
            try:
                with self._w.pipeline():
                    self._insert(rows, snapshot)
                # The last word must not be in a pipeline: the server would not notice if we hang from here on.
                self._w.execute(_Q["notify"], (channel(self.schema), f"{self.writer}:{self._next + len(rows) - 1}"))
            except self._psycopg.errors.UniqueViolation as error:
                raise LogConflictError("log: a number or a key is taken; read the log again") from error
        self._next += len(rows)

    def commit(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        if not self._in_group:
            return
        with reaching():
            # COMMIT of a transaction that has failed answers ROLLBACK, without an error.
            if self._w.info.transaction_status == self._psycopg.pq.TransactionStatus.INERROR:
                raise LogUnavailableError("log: the transaction has failed; roll it back")
            self._w.commit()
        self._in_group = False

    def rollback(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        self._in_group = False
        if self._w is not None:
            try:
                self._w.rollback()
            except self._psycopg.Error:
                with suppress(Exception):
                    self._w.close()
                self._w = None

    def probe(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        with reaching():
            self._writing().execute(_Q["probe"])
            self._w.commit()

    def read(self, after: int = 0) -> Iterator[Row]:
        """See :class:`bot_orch.eventlog.log.Log`."""
        while batch := self.batch(after):
            yield from batch
            after = batch[-1].seq

    def batch(self, after: int, most: int = _BATCH) -> list[Row]:
        """The next committed rows behind ``after``."""
        return [_row(found) for found in self._ask("read", after, most)]

    def about(self, ref: str) -> list[Row]:
        """See :class:`bot_orch.eventlog.log.Log`."""
        return [_row(found) for found in self._ask("about", _escape(ref))]

    def row(self, seq: int) -> Row | None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        return next((_row(found) for found in self._ask("row", seq)), None)

    def find(self, key: str) -> tuple[int, bytes] | None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        return next(((int(seq), bytes(digest)) for seq, digest in self._ask("find", _escape(key))), None)

    def keys(self, after: int, upto: int) -> dict[int, tuple[str, bytes]]:
        """Names used by the rows with ``after < seq <= upto``."""
        return {int(seq): (_unescape(key), bytes(digest)) for key, seq, digest in self._ask("keys", after, upto)}

    def owners(self, refs: Sequence[str]) -> dict[str, int]:
        """The replica that wrote last about each of ``refs``."""
        return {_unescape(ref): int(writer) for ref, writer in self._ask("owners", [_escape(ref) for ref in refs])}

    def last(self) -> tuple[int, int]:
        """See :class:`bot_orch.eventlog.log.Log`."""
        return next(((int(seq), int(time_us)) for seq, time_us in self._ask("last")), (0, 0))

    def snapshot(self) -> Snapshot | None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        return next((Snapshot(int(seq), bytes(body)) for seq, body in self._ask("snapshot")), None)

    def close(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        for connection in (self._r, self._w):
            if connection is not None:
                with suppress(self._psycopg.Error):
                    connection.close()
        self._r = self._w = None

    def _locked(self) -> Any:
        """Take the advisory lock; a holder that hangs is terminated.

        The server's own timeout ends a transaction that waits for its next statement, not one whose client has stopped
        within a statement, be it sending or reading.
        """
        for look in range(1, _LOOKS + 1):
            w = self._writing()
            try:
                with w.pipeline():  # BEGIN and the lock in one go
                    w.execute(_Q["lock"])
            except self._psycopg.errors.LockNotAvailable:
                w.rollback()
                if look == _LOOKS:
                    raise
                self._cut_off()
            else:
                break
        self._in_group = True
        return w

    def _cut_off(self) -> None:
        for pid, _ in self._ask("cut_off", self.timing.hold_s):
            _log.warning("cut off a writer that hangs", extra={"fields": {"backend": int(pid)}})

    def _begin_here(self) -> None:
        w = self._locked()
        found = w.execute(_Q["last"]).fetchone()
        self._next = 1 if found is None else int(found[0]) + 1

    def _insert(self, rows: Sequence[Row], snapshot: Snapshot | None) -> None:
        w = self._w
        if rows:
            table = [(*row[:3], _escape(row.ref), row.body) for row in rows]
            columns = [list(column) for column in zip(*table, strict=True)]
            w.execute(_Q["insert_events"], (self.writer, *columns))
        keyed = [(_escape(row.key), row.seq, row.digest or b"") for row in rows if row.key is not None]
        if keyed:
            w.execute(_Q["insert_keys"], [list(column) for column in zip(*keyed, strict=True)])
        if snapshot is not None:
            w.execute(_Q["insert_snapshot"], snapshot)
            w.execute(_Q["drop_old_snapshots"])

    def _more(self, connection: Any, after: int) -> list[Row]:
        return _rows(connection.cursor(binary=True).execute(_Q["read"], (after, _BATCH)))

    def _writing(self) -> Any:
        if self._read_only:
            raise InvalidInputError("log", "was opened to look at", "open it for writing")
        if self._w is None or self._w.closed:
            self._w = connect(self.url, self.schema)
            self._w.execute(f"SET lock_timeout = {round(1000 * self.timing.hold_s / _LOOKS_PER_HOLD)}")
            self._w.commit()
        return self._w

    def _reader(self) -> Any:
        if self._r is None or self._r.closed:
            self._r = connect(self.url, self.schema, autocommit=True, read_only=True)
        return self._r

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
        found: list[Any] = self._reader().cursor(binary=True).execute(_Q[query], arguments).fetchall()
        return found


def _rows(cursor: Any) -> list[Row]:
    return [_row(found) for found in cursor.fetchall()]


def _row(found: Any) -> Row:
    seq, time_us, kind, ref, body = found
    return Row(seq, time_us, kind, _unescape(ref), body)


def _escape(text: str) -> str:
    r"""Escape NUL characters, which PostgreSQL text cannot hold.

    Examples
    --------
    >>> _escape("a\x00b\\"), _unescape(_escape("a\x00b\\")) == "a\x00b\\"
    ('a\\0b\\\\', True)
    """
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda each: "\0" if each[1] == "0" else each[1], text) if "\\" in text else text
