"""What ``database: postgresql://...`` stands for; ``postgres://`` is found in the module of that name."""

from __future__ import annotations

from bot_orch.eventlog.postgres import PostgresLog, connect_log, open_log

__all__ = ["PostgresLog", "connect_log", "open_log"]
