"""Remove archived rows of a log in PostgreSQL, while its owner goes on: nothing waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bot_orch.errors import BotOrchError
from bot_orch.log.archive.record import ArchiveRecord
from bot_orch.log.stores.postgres.connect import QUERIES, connect, reaching
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.postgres.rows import escape

__all__ = ["ArchiveBusyError", "PostgresRemoval", "removal"]

_LONG_S = 3600.0
_Q = QUERIES


class ArchiveBusyError(BotOrchError):
    """Another process is archiving this log."""


class PostgresRemoval:
    """A connection of the only process that archives a log."""

    def __init__(self, connection: Any, stream: int) -> None:
        self._connection, self._stream = connection, stream

    def note_archive(self, record: ArchiveRecord, base: bytes) -> None:
        """Note that rows up to ``record.seq`` are in an archive; they may be removed from now on."""
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
def removal(log: PostgresLog) -> Iterator[PostgresRemoval]:
    """Remove rows of a log as the only one who does; raises :class:`ArchiveBusyError` while another does."""
    with reaching():
        connection = connect(log.url, autocommit=True)
    try:
        with reaching():
            connection.limit(_LONG_S)
            taken = connection.execute(_Q["lock_archive"], (log.stream,)).fetchone()[0]
        if not taken:
            raise ArchiveBusyError("log: another process is archiving it; wait until it has finished")
        yield PostgresRemoval(connection, log.stream)
    finally:
        connection.close()
