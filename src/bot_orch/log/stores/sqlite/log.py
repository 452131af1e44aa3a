"""A log in one SQLite file: write-ahead log, ``synchronous=FULL``, so that a committed group survives power loss."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.files import sync, write_atomically
from bot_orch.log.ids import long_name, short_name
from bot_orch.log.log import ArchiveRecord, LogConflictError, Row, Snapshot
from bot_orch.log.stores.sql import SqlLog, queries, schema_script
from bot_orch.log.stores.sqlite.lock import Hold, hold

Connect = Callable[[str], Any]
"""Opens a connection in autocommit mode that may be used from any thread, one at a time."""

_VERSION = 1
_Q = queries("sqlite")


def connect(path: str) -> sqlite3.Connection:
    """A connection that leaves transactions to us."""
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)


def watch(path: str) -> sqlite3.Connection:
    """A read-only connection: closing it leaves the write-ahead log of a copy unchanged."""
    name = f"{Path(path).absolute().as_uri()}?mode=ro"
    return sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=5.0, uri=True)


class SqliteLog(SqlLog):
    """Rows in a SQLite file. :mod:`bot_orch.log.stores.sqlite.lock` ensures a single writing process.

    Parameters
    ----------
    path
        The file; made if missing, unless ``read_only``.
    read_only
        Take no lock and write no event; safe while a service is running.
    synchronous
        ``FULL`` syncs the write-ahead log at every commit. Anything else loses acknowledged events at a power cut.
    opener
        How to connect; tests hand in a connection with a file system that fails.
    """

    _stored = staticmethod(short_name)
    _text = staticmethod(long_name)

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        synchronous: str = "FULL",
        opener: Connect = connect,
    ) -> None:
        self.path = Path(path)
        real = Path(os.path.realpath(self.path))
        self._snapshots = real.with_name(f"{real.name}.snapshot")
        if read_only and not self.path.exists():
            raise InvalidInputError("log", f"{self.path} does not exist", "pass the path of an existing log")
        if read_only and self.path.is_dir():
            raise InvalidInputError("log", f"{self.path} is a folder", "pass the path of a log")
        self._hold: Hold = hold(self.path, writing=not read_only)
        self._writer: Any = None
        try:
            if not read_only:
                self._writer = opener(str(self.path))
                self._prepare(synchronous)
            self._reader: Any = (watch if read_only and opener is connect else opener)(str(self.path))
            _check_version(self._reader, self.path)
            self._reader.execute("PRAGMA query_only = ON")
            self._hold.check()
        except BaseException as error:
            self.close()
            if "not a database" in str(error):
                raise StateFormatError(f"log: {self.path} is not a log; pass another file") from error
            raise
        # Readers may be in several threads; the connection takes one at a time.
        self._reading = threading.Lock()
        self._in_group = False

    def append(self, rows: Sequence[Row]) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        w = self._writer
        if not self._in_group:
            w.execute("BEGIN IMMEDIATE")
            self._in_group = True
            found = w.execute(_Q["last"]).fetchone()
            self._next = 1 if found is None else int(found[0]) + 1
        for offset, row in enumerate(rows):
            if row.seq != self._next + offset:
                raise LogConflictError(f"log: row {row.seq} does not follow {self._next + offset - 1}; read it again")
        w.executemany(_Q["insert_event"], [(*row[:3], short_name(row.ref), row.body) for row in rows])
        keyed = [(short_name(row.key), row.seq, row.digest or b"") for row in rows if row.key is not None]
        if keyed:
            self._insert_keys(keyed)
        self._next += len(rows)

    def _insert_keys(self, keyed: Sequence[tuple[bytes | str, int, bytes]]) -> None:
        try:
            self._writer.executemany(_Q["insert_key"], keyed)
        except Exception as error:
            if "UNIQUE" in str(error):
                raise LogConflictError("log: a key is taken; read the log again") from error
            raise

    def commit(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        if self._in_group:
            self._writer.execute("COMMIT")
            self._in_group = False

    def rollback(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self._in_group = False
        if _in_transaction(self._writer):
            self._writer.execute("ROLLBACK")

    def probe(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        self._writer.execute(_Q["probe"])

    def rewrite(self, rows: Sequence[Row], keys: Sequence[int] = ()) -> None:
        """Delete the snapshot, replace refs and bodies of rows atomically, and erase remnants of the old ones.

        ``keys`` are the numbers of rows whose keys are deleted. The only way around the triggers that keep the log
        append-only; for what must not be kept.
        """
        w = self._writer
        self._snapshots.unlink(missing_ok=True)
        w.execute("PRAGMA secure_delete = ON").fetchall()
        w.execute("BEGIN IMMEDIATE")
        try:
            (guard,) = w.execute(_Q["guard"]).fetchone()
            w.execute(_Q["drop_guard"])
            w.executemany(_Q["update_row"], [(short_name(row.ref), row.body, row.seq) for row in rows])
            if keys:
                w.execute(_Q["drop_keys"], (json.dumps(list(keys)),))
            w.execute(guard)
        except BaseException:
            w.execute("ROLLBACK")
            raise
        w.execute("COMMIT")
        w.execute("VACUUM")
        w.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def note_archive(self, record: ArchiveRecord, base: bytes) -> None:
        """Record that rows up to ``record.seq`` are archived and may be deleted."""
        self._writer.execute(_Q["note_archive"], (*record, base))

    def drop_archived(self, upto: int, most: int) -> int:
        """Remove rows up to a number that are in an archive, at most so many; returns how many."""
        dropped = max(int(self._writer.execute(_Q["drop_events"], (upto, most)).rowcount), 0)
        self._writer.executescript("PRAGMA incremental_vacuum")  # execute would free a single page
        return dropped

    def compact(self) -> None:
        """Return unused pages to the file system; takes as long as copying the file."""
        self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
        self._writer.execute("VACUUM")
        self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def snapshot(self) -> Snapshot | None:
        """See :class:`bot_orch.log.log.Log`."""
        try:
            found = self._snapshots.read_bytes()
        except FileNotFoundError:
            return None
        return Snapshot(int.from_bytes(found[:8], "big"), found[8:])

    def save(self, snapshot: Snapshot) -> None:
        """See :class:`bot_orch.log.log.Log`; a file next to the log."""
        write_atomically(self._snapshots, snapshot.seq.to_bytes(8, "big") + snapshot.body, mode=0o600)

    def close(self) -> None:
        """See :class:`bot_orch.log.log.Log`."""
        for connection in (getattr(self, "_reader", None), self._writer):
            if connection is not None:
                connection.close()
        self._hold.release()

    def _ask(self, query: str, *arguments: Any) -> list[Any]:
        with self._reading:
            found: list[Any] = self._reader.execute(_Q[query], arguments).fetchall()
        return found

    def _prepare(self, synchronous: str) -> None:
        w = self._writer
        w.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()  # applies to new files only
        w.execute("PRAGMA journal_mode = WAL").fetchall()
        w.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
        w.execute("PRAGMA cache_size = -16000").fetchall()
        if int(w.execute("PRAGMA user_version").fetchone()[0]) == 0:
            w.execute("BEGIN IMMEDIATE")
            for statement in _statements(schema_script("sqlite")):
                w.execute(statement)
            w.execute(f"PRAGMA user_version = {_VERSION}").fetchall()
            w.execute("COMMIT")
        sync(self.path.parent)


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _check_version(connection: Any, path: Path) -> None:
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise StateFormatError(f"log: {path} is not a log ({error}); pass a file written by the service") from error
    if version == 0:
        raise StateFormatError(f"log: {path} is not a log (it holds none); pass a file written by the service")
    if version != _VERSION:
        raise StateFormatError(f"log: {path} has version {version}, this release reads {_VERSION}; upgrade")


def _in_transaction(connection: Any) -> bool:
    flag = connection.in_transaction
    return bool(flag() if callable(flag) else flag)
