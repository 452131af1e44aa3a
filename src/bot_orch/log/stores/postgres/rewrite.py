"""Replace bodies of rows of a log in PostgreSQL that no process owns: the only way around its trigger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot_orch.errors import InvalidInputError
from bot_orch.log.log import Snapshot
from bot_orch.log.stores.postgres.connect import QUERIES, connect, reaching
from bot_orch.log.stores.postgres.log import PostgresLog

__all__ = ["check_unused", "rewrite"]

_GROUP = 1000
_LONG_S = 3600.0
_Q = QUERIES


def check_unused(log: PostgresLog) -> None:
    """Refuse a log that a process owns."""
    with reaching(), connect(log.url) as connection:
        _check_unused(connection, log)


def rewrite(log: PostgresLog, bodies: Sequence[tuple[int, bytes]], snapshot: Snapshot | None) -> None:
    """Replace the bodies of rows, all or none, and all snapshots by this one; then rewrite the tables without the old.

    Nobody can append meanwhile. The server's write-ahead log and backups still hold the old bodies.
    """
    with reaching(), connect(log.url) as connection:
        connection.limit(_LONG_S)
        connection.execute(_Q["lock"], (log.stream,))
        _check_unused(connection, log)
        connection.execute(_on(log, "open_events"))
        for start in range(0, len(bodies), _GROUP):
            numbers, written = zip(*bodies[start : start + _GROUP], strict=True)
            connection.execute(_on(log, "update_bodies"), (list(numbers), list(written)))
        connection.execute(_on(log, "close_events"))
        connection.execute(_Q["drop_snapshots"], (log.stream,))
        connection.execute(_Q["drop_pieces"], (log.stream,))
        if snapshot is not None:
            connection.execute(_Q["insert_snapshot"], (log.stream, *snapshot[:2]))
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
