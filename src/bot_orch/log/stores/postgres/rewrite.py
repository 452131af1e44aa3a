"""Operations that change what a log has: purging texts, and deleting archived rows.

In PostgreSQL they bypass the triggers of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.log import ArchiveRecord, Row
from bot_orch.log.stores.postgres.connect import QUERIES, connect, reaching
from bot_orch.log.stores.postgres.log import PostgresLog, escape
from bot_orch.log.stores.sqlite.log import SqliteLog

_GROUP = 1000
_LONG_S = 3600.0
_Q = QUERIES


def check_unused(log: PostgresLog) -> None:
    """Refuse a log that a process owns."""
    with reaching(), connect(log.url) as connection:
        _check_unused(connection, log)


def rewrite(log: SqliteLog | PostgresLog, rows: Sequence[Row], keys: Sequence[int] = ()) -> None:
    """Replace refs and bodies of rows atomically, delete the keys of rows and all snapshots, and rewrite the tables.

    Other processes cannot append meanwhile. The server's write-ahead log and backups still hold the old bodies.
    """
    if isinstance(log, SqliteLog):
        log.rewrite(rows, keys)
        return
    with reaching(), connect(log.url) as connection:
        connection.limit(_LONG_S)
        connection.execute(_Q["lock"], (log.stream,))
        _check_unused(connection, log)
        connection.execute(_on(log, "open_events"))
        for start in range(0, len(rows), _GROUP):
            group = rows[start : start + _GROUP]
            refs, bodies = [escape(row.ref) for row in group], [row.body for row in group]
            connection.execute(_on(log, "update_rows"), ([row.seq for row in group], refs, bodies))
        if keys:
            connection.execute(_Q["drop_keys"], (log.stream, list(keys)))
        connection.execute(_on(log, "close_events"))
        connection.execute(_Q["drop_snapshots"], (log.stream,))
    with reaching(), connect(log.url, autocommit=True) as connection:
        connection.limit(_LONG_S)
        connection.execute(_on(log, "vacuum_events"))
        connection.execute(_Q["vacuum_snapshots"])


def _on(log: PostgresLog, query: str) -> str:
    """A query on the table of the stream itself."""
    return _Q[query].format(stream=log.stream)


def _check_unused(connection: Any, log: PostgresLog) -> None:
    found = connection.execute(_Q["owner"], (log.stream,)).fetchone()
    if found is not None:
        remedy = f"stop the service; a process that was killed counts for {log.timing.lease_s:g} seconds more"
        raise InvalidInputError("log", f"is in use by {found[0]}", remedy)


class RemovalBusyError(BotOrchError):
    """Another process is moving events of this log."""


class PostgresRemoval:
    """A connection of the only process that moves events of a log to files."""

    def __init__(self, connection: Any, stream: int) -> None:
        self._connection, self._stream = connection, stream

    def note_archive(self, record: ArchiveRecord, base: bytes) -> None:
        """Record that rows up to ``record.seq`` are archived and may be deleted."""
        with reaching():
            seq, time_us, folder, digest = record
            self._connection.execute(_Q["note_archive"], (self._stream, seq, time_us, escape(folder), digest, base))

    def drop_archived(self, upto: int, most: int) -> int:
        """Remove rows up to a number that are in an archive, at most so many; returns how many."""
        with reaching():
            statement = _Q["drop_archived"].format(stream=self._stream)
            return int(self._connection.execute(statement, (upto, most)).rowcount)

    def compact(self) -> None:
        """Let later rows use the space."""
        with reaching():
            self._connection.execute(_Q["reclaim_events"].format(stream=self._stream))


@contextmanager
def removal(log: SqliteLog | PostgresLog) -> Iterator[SqliteLog | PostgresRemoval]:
    """Delete rows of a log under a lock; raises :class:`RemovalBusyError` while another process holds it.

    A log in a file has one writer anyway.
    """
    if isinstance(log, SqliteLog):
        yield log
        return
    with reaching():
        connection = connect(log.url, autocommit=True)
    try:
        with reaching():
            connection.limit(_LONG_S)
            taken = connection.execute(_Q["lock_archive"], (log.stream,)).fetchone()[0]
        if not taken:
            raise RemovalBusyError("log: another process moves its events; wait until it has finished")
        yield PostgresRemoval(connection, log.stream)
    finally:
        connection.close()
