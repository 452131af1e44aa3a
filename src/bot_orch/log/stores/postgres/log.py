"""A log in PostgreSQL, with one writer at a time.

The owner of a log appends under the epoch of its lease: rows and COMMIT are one message, whose first statement, the
fence, takes the log's lock and refuses as soon as another process has claimed the log. The second one refuses if the
log does not end where the rows begin. So numbers have no gaps, and a smaller one is visible before a larger one.

Without an epoch (an import, a copy) a log can be written while no process owns it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bot_orch.clock import Clock
from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.log import ARCHIVED, Found, LogConflictError, LogFencedError, Row, Snapshot, Wanted
from bot_orch.log.stores.postgres.connect import (
    MAIN_STREAM,
    QUERIES,
    LogUnavailableError,
    check_version,
    connect,
    driver,
    find_stream,
    prepare,
    reaching,
    split,
)
from bot_orch.log.stores.sql import SqlLog

_log = logging.getLogger("bot_orch.log")
_WAITS_PER_QUERY = 3  # for the lock: a process that hangs is looked for long before the server counts as silent
_OWNED, _FENCED, _ELSEWHERE = "BO001", "BO002", "BO003"  # raised by lock_stream, fence and check_end
_Q = QUERIES


class ClockAheadError(BotOrchError):
    """The clock of this machine is too far ahead of the database's.

    Events are stamped by the process that owns the log. One whose clock is ahead would pull the time of the log, and so
    that of the next owners, ahead: horizons and leases of tickets would end early, and time would stand still until the
    clocks have caught up.
    """


def clock_error(ahead_s: float, bound_s: float) -> ClockAheadError | None:
    """The error if a clock is ahead by more than the bound, else None.

    Examples
    --------
    >>> clock_error(1.5, 2.0)
    >>> str(clock_error(172800.0, 2.0))
    "clock: is 172800.0 seconds ahead of the database's; set it (NTP), or raise clock_s=2 in the URL"
    """
    if ahead_s <= bound_s:
        return None
    ahead = f"clock: is {ahead_s:.1f} seconds ahead of the database's"
    return ClockAheadError(f"{ahead}; set it (NTP), or raise clock_s={bound_s:g} in the URL")


def escape(text: str) -> str:
    r"""Escape NUL characters, which PostgreSQL text cannot hold.

    Examples
    --------
    >>> escape("a\x00b\\"), unescape(escape("a\x00b\\")) == "a\x00b\\"
    ('a\\0b\\\\', True)
    """
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def unescape(text: Any) -> str:
    """The text as it was before :func:`escape`."""
    return re.sub(r"\\(.)", lambda each: "\0" if each[1] == "0" else each[1], text) if "\\" in text else text


class PostgresLog(SqlLog):
    """Rows in a separate schema of a PostgreSQL database.

    Parameters
    ----------
    url
        ``postgresql://user:password@host:port/database``, or anything libpq takes; ``schema``, ``stream``, ``lease_s``,
        ``query_s`` and ``clock_s`` among its parameters are ours, see
        :func:`bot_orch.log.stores.postgres.connect.split`. Schema and stream are made if missing, unless
        ``read_only``.
    read_only
        Change nothing.
    epoch
        Of the lease under which this process owns the log; without one the log must have no owner.
    """

    _stored = staticmethod(escape)
    _text = staticmethod(unescape)

    def __init__(self, url: str, *, read_only: bool = False, epoch: int | None = None) -> None:
        self.url = url
        _, self.timing, self.schema, self.name = split(url)
        self.stream = MAIN_STREAM
        self.epoch = epoch
        self._read_only = read_only
        self._psycopg = driver()
        # Connections that were lost so far. After one loss the others are left too: each would be waited for in turn.
        self._losses = self._r_since = 0
        # Readers may be in several threads; the connection takes one at a time.
        self._reading = threading.RLock()
        self._ended = threading.Event()
        self._r: Any = None
        self._w: Any = None
        self._w_since = 0
        self._next = 0
        self._staged: list[Row] = []
        if not read_only:
            prepare(url)
        try:
            with reaching():
                self.stream = self._find_stream()
        except BaseException:
            self.close()
            raise

    def append(self, rows: Sequence[Row]) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        if self._next == 0:  # only the first append asks the server where the log ends
            self._next = self.last()[0] + 1
        self._check_order(rows)
        self._next += len(rows)
        self._staged += rows

    def commit(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        if not self._staged:
            return
        with reaching():
            w, errors = self._writing(), self._psycopg.errors
            try:
                # One message, with COMMIT: the lock is held for no further round trip. After an error the server skips
                # the rest of it.
                with w.pipeline():
                    w.execute("BEGIN")
                    if self.epoch is None:
                        w.execute(_Q["lock"], (self.stream,))
                    else:
                        w.execute(_Q["fence"], (self.stream, self.epoch))
                    w.execute(_Q["check_end"], (self.stream, self._staged[0].seq - 1))
                    self._insert(self._staged)
                    ended = w.execute("COMMIT")
                if ended.statusmessage != "COMMIT":
                    raise LogUnavailableError("log: the transaction has failed; roll it back")
            except errors.UniqueViolation as error:
                raise LogConflictError("log: a number or a key is taken; read the log again") from error
            except errors.LockNotAvailable:
                self._cut_off()
                raise
            except self._psycopg.DatabaseError as error:
                if error.sqlstate in (_OWNED, _FENCED):
                    raise LogFencedError("log: another process owns this log; ask that one") from error
                if error.sqlstate == _ELSEWHERE:
                    problem = f"log: row {self._staged[0].seq - 1} is not its last one; another writer was here, or"
                    raise LogConflictError(f"{problem} it was restored or has lost rows; read it again") from error
                raise
        self._staged = []

    def settle(self, rows: Sequence[Row]) -> None:
        """After an unanswered commit, ensure that the log continues with these rows.

        They may be there, or they are appended again. If other rows are there, :class:`LogConflictError` is raised.
        """
        self.rollback()
        if not rows:
            self.probe()
            return
        for attempt in (1, 2):
            found = self._end_before(rows)
            if found:
                self.rollback()
                if [each[:5] for each in found] != [each[:5] for each in rows]:
                    raise LogConflictError(f"log: row {rows[0].seq} is of another writer; read the log again")
                return
            try:
                self.append(rows)
                self.commit()
            except LogConflictError:  # the server has just written what we sent before
                self.rollback()
                if attempt == 2:
                    raise
            else:
                return

    def _end_before(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of the log where ``rows`` belong."""
        before = rows[0].seq - 1
        found = self.batch(before, len(rows))
        self._next = rows[0].seq
        if not found and before != self.last()[0]:
            raise LogConflictError(f"log: row {before} is gone; it was restored or has lost rows")
        return found

    def rollback(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self._staged, self._next = [], 0
        if self._w is not None:
            try:
                self._w.rollback()
            except self._psycopg.Error:
                with suppress(Exception):
                    self._w.close()
                self._w, self._losses = None, self._losses + 1

    def probe(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        with reaching():
            self._writing().execute(_Q["probe"], (self.stream,))

    def save(self, snapshot: Snapshot) -> None:
        """See :class:`bot_orch.log.log.Log`; not under the lock, which a commit waits for.

        An owner that was replaced in the meantime does no harm, as it saves committed events.
        """
        with reaching(), connect(self.url, ended=self._ended) as connection:
            connection.execute(_Q["insert_snapshot"], (self.stream, *snapshot))
            connection.execute(_Q["drop_old_snapshots"], (self.stream, self.stream))

    def close(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        for connection in (self._r, self._w):
            if connection is not None:
                with suppress(self._psycopg.Error):
                    connection.close()
        self._r = self._w = None

    def look_up(self, wanted: Wanted) -> Found:
        """Look up committed rows, all in one round trip."""
        with self._reading, reaching():
            r = self._reader()
            with r.pipeline():
                lookups = self._lookups(r, wanted)
            by_keys, by_refs = ([] if each is None else each.fetchall() for each in lookups)
        keys: dict[str, Row] = {}
        for key, digest, seq, *rest in by_keys:
            known = rest[1] is not None  # else it was moved to an archive
            row = self._row(seq, *rest) if known else Row(seq, 0, ARCHIVED, "", b"")
            name = unescape(key)
            keys[name] = row._replace(key=name, digest=bytes(digest))
        refs: dict[str, list[Row]] = {ref: [] for ref in wanted.refs}
        for found in by_refs:
            row = self._row(*found)
            refs[row.ref].append(row)
        return Found(keys, refs)

    def seconds_ahead(self, clock: Clock) -> float:
        """A lower bound of how far a clock is ahead: it is read first, so a slow answer of the server cannot count."""
        ours_us = clock.now_us()
        with self._reading, reaching():
            return (ours_us - int(self._reader().execute(_Q["clock"]).fetchone()[0])) / 1e6

    def abort(self) -> None:
        """Make every waiting and later query fail; may be called from any thread."""
        self._ended.set()

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

    def _cut_off(self) -> None:
        """Terminate a connection that hangs in an append, such as an earlier one of this process.

        The server's own timeout ends a transaction that waits for its next statement, not one whose client has stopped
        within a statement, be it sending or reading.
        """
        with self._reading:
            found = self._reader().execute(_Q["cut_off"], (self.name, self.timing.query_s)).fetchall()
        for pid, _ in found:
            _log.warning("cut off a writer that hangs", extra={"fields": {"backend": int(pid)}})

    def _find_stream(self) -> int:
        check_version(self._reader(), self.schema)
        if not self.name:
            return MAIN_STREAM
        return find_stream(self._reader() if self._read_only else self._writing(), self.name, make=not self._read_only)

    def _check_order(self, rows: Sequence[Row]) -> None:
        for offset, row in enumerate(rows):
            if row.seq != self._next + offset:
                raise LogConflictError(f"log: row {row.seq} does not follow {self._next + offset - 1}; read it again")

    def _insert(self, rows: Sequence[Row]) -> None:
        w = self._w
        table = [(*row[:3], escape(row.ref), row.body) for row in rows]
        columns = [list(column) for column in zip(*table, strict=True)]
        w.execute(_Q["insert_events"], (self.stream, *columns))
        keyed = [(escape(row.key), row.seq, row.digest or b"") for row in rows if row.key is not None]
        if keyed:
            w.execute(_Q["insert_keys"], [self.stream, *(list(column) for column in zip(*keyed, strict=True))])

    def _writing(self) -> Any:
        if self._read_only:
            raise InvalidInputError("log", "was opened to look at", "open it for writing")
        self._w = self._kept(self._w, self._w_since)
        if self._w is None:
            self._w_since = self._losses
            # transactions are begun and ended by statements, which can be sent together with others
            self._w = connect(self.url, autocommit=True, ended=self._ended)
            self._w.execute(f"SET lock_timeout = {round(1000 * self.timing.query_s / _WAITS_PER_QUERY)}")
        return self._w
