"""Open whatever ``database`` may say, to look at."""

from __future__ import annotations

from pathlib import Path

from bot_orch.eventlog.log import Log
from bot_orch.eventlog.postgres import PostgresLog
from bot_orch.eventlog.sqlite import SqliteLog

__all__ = ["open_log"]


def open_log(database: str | Path) -> Log:
    """An existing log: a SQLite file, or a URL of PostgreSQL."""
    if str(database).startswith(("postgresql://", "postgres://")):
        return PostgresLog(str(database), read_only=True)
    return SqliteLog(database, read_only=True)
