"""A log in PostgreSQL, for any number of writers that take turns, or for one owner.

A writer takes an advisory lock first, reads what others have appended, and only then numbers its rows; the lock
goes with the commit. So numbers have no gaps, a smaller number is always visible before a larger one, and a follower
that reads ``seq > last`` misses nothing.

The owner of a log appends under its epoch, in one message for each commit: the fence refuses it as soon as another
process has claimed the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.log import LogConflictError, LogFencedError, PieceKeeper, Row, Snapshot, SnapshotPiece
from bot_orch.eventlog.lookups import NOTHING, Found, Wanted
from bot_orch.eventlog.stores.postgres.connect import (
    MAIN_STREAM,
    QUERIES,
    LogUnavailableError,
    check_version,
    connect,
    find_stream,
    prepare,
    reaching,
)
from bot_orch.eventlog.stores.postgres.reading import BATCH, CommittedRows
from bot_orch.eventlog.stores.postgres.rows import escape, found_by, rows_of

__all__ = ["PostgresLog"]

_log = logging.getLogger("bot_orch.log")
_LOOKS = 6  # attempts to take the lock before we give up
_LOOKS_PER_HOLD = 3
_FIRST_WITH_STREAMS, _FIRST_WITH_ARCHIVES = 3, 4
_OWNED, _FENCED = "BO001", "BO002"  # raised by lock_stream and fence
_Q = QUERIES


class PostgresLog(CommittedRows):
    """Rows in a PostgreSQL database, under a schema of their own.

    Parameters
    ----------
    url
        ``postgresql://user:password@host:port/database``, or anything libpq takes; ``schema``, ``stream``, ``hold_s``
        and ``lease_s`` among its parameters are ours, see :func:`bot_orch.eventlog.stores.postgres.timing.split`.
        Schema and stream are made if missing, unless ``read_only``.
    read_only
        Change nothing.
    writer
        Number of this replica, kept beside every row it appends.
    epoch
        Of the lease under which this process owns the log; without one it takes turns with others.
    """

    instant = False
    shared = True
    folder: PieceKeeper | None = None

    def __init__(self, url: str, *, read_only: bool = False, writer: int = 0, epoch: int | None = None) -> None:
        super().__init__(url)
        self.writer, self.epoch = writer, epoch
        self._read_only = read_only
        self._w: Any = None
        self._w_since = 0
        self._in_group = False
        self._next = 0
        self._lock_s = self.timing.hold_s / _LOOKS_PER_HOLD
        self._staged: list[Row] = []
        self._staged_snapshot: Snapshot | None = None
        if not read_only:
            prepare(url)
        try:
            with reaching():
                self.stream = self._find_stream()
        except BaseException:
            self.close()
            raise

    def begin(self, after: int, time_us: int | None = None) -> list[Row]:
        """Take the lock, then read the rows after ``after``; no other writer appends until the next commit.

        ``after`` must be there, with the time ``time_us`` if that is given: a log that was restored, or that lost its
        end when a standby took over, does not go on where we are.
        """
        return self.begin_with(after, time_us)[0]

    def begin_with(self, after: int, time_us: int | None = None, wanted: Wanted = NOTHING) -> tuple[list[Row], Found]:
        """Begin, and look up what is ``wanted``: the lock, the rows and the lookups in one round trip."""
        with reaching():
            w, tail, lookups = self._locked(partial(self._ask_for, after - 1, wanted))
            rows = rows_of(tail)
            while len(rows) % BATCH == 0 and rows and (more := self._more(w, rows[-1].seq)):
                rows += more
            found = found_by(wanted, lookups)
        if after > 0:
            known = rows.pop(0) if rows and rows[0].seq == after else None
            if known is None or (time_us is not None and known.time_us != time_us):
                raise LogConflictError(f"log: row {after} is not the one we know; it was restored or has lost rows")
        self._next = (rows[-1].seq if rows else after) + 1
        return rows, found

    def append(self, rows: Sequence[Row], snapshot: Snapshot | None = None) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        if self.epoch is None and not self._in_group:
            with reaching():
                self._begin_here()
        elif self._next == 0:  # only the owner's first append asks the server where the log ends
            self._next = self.last()[0] + 1
        self._check_order(rows)
        self._next += len(rows)
        self._staged += rows
        self._staged_snapshot = snapshot or self._staged_snapshot

    def commit(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        if not self._in_group and not self._staged and self._staged_snapshot is None:
            return
        with reaching():
            w = self._writing() if self.epoch is not None else self._w
            if self._in_group and w.info.transaction_status != self._psycopg.pq.TransactionStatus.INTRANS:
                raise LogUnavailableError("log: the transaction has failed; roll it back")
            try:
                # One message, with COMMIT: the lock is held for no further round trip. After an error the server skips
                # the rest of it.
                with w.pipeline():
                    if self.epoch is not None:
                        w.execute("BEGIN")
                        w.execute(_Q["fence"], (self.stream, self.epoch))
                    self._insert(self._staged, self._staged_snapshot)
                    if self.epoch is None and self._staged:
                        w.execute(_Q["notify"], (self.channel, f"{self.writer}:{self._staged[-1].seq}"))
                    ended = w.execute("COMMIT")
                if ended.statusmessage != "COMMIT":
                    raise LogUnavailableError("log: the transaction has failed; roll it back")
            except self._psycopg.errors.UniqueViolation as error:
                raise LogConflictError("log: a number or a key is taken; read the log again") from error
            except self._psycopg.DatabaseError as error:
                _heed_the_fence(error)
                raise
        self._in_group = False
        self._staged, self._staged_snapshot = [], None

    def settle(self, rows: Sequence[Row], snapshot: Snapshot | None = None) -> None:
        """After a commit without an answer: make sure that the log goes on with these rows.

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
                self.append(rows, snapshot)
                self.commit()
            except LogConflictError:  # the server has just written what we sent before
                self.rollback()
                if attempt == 2:
                    raise
            else:
                return

    def _end_before(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of the log where ``rows`` belong; in a turn, unless this process owns the log."""
        before = rows[0].seq - 1
        if self.epoch is not None:
            found = self.batch(before, len(rows))
            self._next = rows[0].seq
        else:
            found = self.begin(before)
        if not found and before != (self.last()[0] if self.epoch is not None else before):
            raise LogConflictError(f"log: row {before} is gone; it was restored or has lost rows")
        return found[: len(rows)]

    def rollback(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        self._in_group = False
        self._staged, self._staged_snapshot, self._next = [], None, 0
        if self._w is not None:
            try:
                self._w.rollback()
            except self._psycopg.Error:
                with suppress(Exception):
                    self._w.close()
                self._w, self._losses = None, self._losses + 1

    def probe(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        with reaching():
            self._writing().execute(_Q["probe"], (self.stream,))

    def keep(self, pieces: Sequence[SnapshotPiece], kept: Collection[bytes]) -> None:
        """See :class:`bot_orch.eventlog.log.PieceKeeper`; not under the lock, which others wait for."""
        names, bodies = [piece.digest for piece in pieces], [piece.body for piece in pieces]
        with reaching(), connect(self.url, ended=self._ended) as connection:
            connection.execute(_Q["insert_pieces"], (self.stream, names, bodies))
            connection.execute(_Q["drop_other_pieces"], (self.stream, [*kept, *names]))

    def claim_saving(self, lease_s: float) -> int | None:
        """Be the only replica that writes a snapshot; the number of the newest one, None if another one is at it."""
        with reaching(), connect(self.url, ended=self._ended) as connection:
            found = connection.execute(_Q["claim_saving"], (self.stream, lease_s)).fetchone()
        return None if found is None else int(found[0])

    def end_saving(self) -> None:
        """Let other replicas write snapshots again."""
        with reaching(), connect(self.url, ended=self._ended) as connection:
            connection.execute(_Q["end_saving"], (self.stream,))

    def close(self) -> None:
        """See :class:`bot_orch.eventlog.log.Log`."""
        for connection in (self._r, self._w):
            if connection is not None:
                with suppress(self._psycopg.Error):
                    connection.close()
        self._r = self._w = None

    def _locked(self, more: Callable[[Any], tuple[Any, Any]] | None = None) -> tuple[Any, Any, Any]:
        """Take the advisory lock, and ask for ``more`` in the same breath; a holder that hangs is terminated.

        The server's own timeout ends a transaction that waits for its next statement, not one whose client has stopped
        within a statement, be it sending or reading.
        """
        answers: tuple[Any, Any] = None, None
        for look in range(1, _LOOKS + 1):
            w = self._writing()
            try:
                with w.patience(self._lock_s), w.pipeline():  # BEGIN, the lock and the rest in one go
                    w.execute("BEGIN")
                    w.execute(_Q["lock"], (self.stream,))
                    if more is not None:
                        answers = more(w)
            except self._psycopg.errors.LockNotAvailable:
                w.rollback()
                if look == _LOOKS:
                    raise
                self._cut_off()
            except self._psycopg.DatabaseError as error:
                _heed_the_fence(error)
                raise
            else:
                break
        self._in_group = True
        return w, *answers

    def _ask_for(self, after: int, wanted: Wanted, w: Any) -> tuple[Any, Any]:
        tail = w.cursor(binary=True).execute(_Q["read"], (self.stream, after, BATCH))
        return tail, self._lookups(w, wanted)

    def _cut_off(self) -> None:
        for pid, _ in self._ask("cut_off", self.timing.hold_s):  # the lock of our stream
            _log.warning("cut off a writer that hangs", extra={"fields": {"backend": int(pid)}})

    def _find_stream(self) -> int:
        version = check_version(self._reader(), self.schema)
        self._has_streams, self._has_archives = version >= _FIRST_WITH_STREAMS, version >= _FIRST_WITH_ARCHIVES
        if not self.name:
            return MAIN_STREAM
        if not self._has_streams:
            raise InvalidInputError("database.stream", f"there is no {self.name!r}", "this log is of an older release")
        return find_stream(self._reader() if self._read_only else self._writing(), self.name, make=not self._read_only)

    def _check_order(self, rows: Sequence[Row]) -> None:
        for offset, row in enumerate(rows):
            if row.seq != self._next + offset:
                raise LogConflictError(f"log: row {row.seq} does not follow {self._next + offset - 1}; read it again")

    def _begin_here(self) -> None:
        w, *_ = self._locked()
        found = w.execute(_Q["last"], (self.stream,)).fetchone()
        self._next = 1 if found is None else int(found[0]) + 1

    def _insert(self, rows: Sequence[Row], snapshot: Snapshot | None) -> None:
        w = self._w
        if rows:
            table = [(*row[:3], escape(row.ref), row.body) for row in rows]
            columns = [list(column) for column in zip(*table, strict=True)]
            w.execute(_Q["insert_events"], (self.stream, self.writer, *columns))
        keyed = [(escape(row.key), row.seq, row.digest or b"") for row in rows if row.key is not None]
        if keyed:
            w.execute(_Q["insert_keys"], [self.stream, *(list(column) for column in zip(*keyed, strict=True))])
        if snapshot is not None:
            w.execute(_Q["insert_snapshot"], (self.stream, *snapshot[:2]))
            w.execute(_Q["drop_old_snapshots"], (self.stream, self.stream, snapshot.seq))
            if snapshot.pieces:
                w.execute(_Q["insert_pieces"], (self.stream, *map(list, zip(*snapshot.pieces, strict=True))))

    def _more(self, connection: Any, after: int) -> list[Row]:
        return rows_of(connection.cursor(binary=True).execute(_Q["read"], (self.stream, after, BATCH)))

    def _writing(self) -> Any:
        if self._read_only:
            raise InvalidInputError("log", "was opened to look at", "open it for writing")
        self._w = self._w if self._in_group else self._kept(self._w, self._w_since)
        if self._w is None:
            self._w_since = self._losses
            # transactions are begun and ended by statements, which can be sent together with others
            self._w = connect(self.url, autocommit=True, ended=self._ended)
            self._w.execute(f"SET lock_timeout = {round(1000 * self._lock_s)}")
        return self._w


def _heed_the_fence(error: Exception) -> None:
    """Raise the reason if the server refused because of the log's owner."""
    if getattr(error, "sqlstate", None) in (_OWNED, _FENCED):
        raise LogFencedError("log: another process owns this log; ask that one") from error
