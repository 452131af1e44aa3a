"""Daily archiving of old events: another process writes Parquet files, the service then deletes rows in batches."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from bot_orch.clock import seconds_of
from bot_orch.errors import BotOrchError
from bot_orch.log.archiving import BUSY, Job, Moved
from bot_orch.log.log import ArchiveRecord, Log
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.config import Config
from bot_orch.service.storage.writer import Writer

_log = logging.getLogger("bot_orch.retention")
_LOOK_S, _DAY_S = 60.0, 86_400.0
_BATCH, _PAUSE_S = 500, 0.02


class RetentionFailedError(BotOrchError):
    """Old events could not be moved; they stay in the log."""


class Retention:
    """Moves events of one log older than ``age_s``, at the start and daily; only one process at a time does so.

    Parameters
    ----------
    writer
        Of the log.
    database, folder
        Where the log is, and where the files go unless the log has some elsewhere.
    age_s
        How old events become in the log; None only notes what others move.
    count
        Called with the names of metrics and their increments.
    """

    def __init__(
        self, writer: Writer, database: str, folder: Path, *, age_s: float | None, count: Callable[[str, int], None]
    ) -> None:
        self._writer, self._database, self._folder = writer, database, folder
        self._age_s, self._count = age_s, count
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        """Check periodically until cancelled."""
        moved_us = None
        while True:
            try:
                await self._note()
                now_us = self._writer.now_us()
                if self._age_s is not None and (moved_us is None or now_us - moved_us >= _DAY_S * 1e6):
                    moved_us = now_us
                    await self.once(now_us - round(self._age_s * 1e6))
            except (BotOrchError, OSError) as error:
                self._count("bot_orch_archive_failures_total", 1)
                _log.warning("events not archived", extra={"fields": {"detail": str(error)}})
            await asyncio.sleep(_LOOK_S)

    async def _note(self) -> ArchiveRecord | None:
        """Note the current archive record; other processes may move events too."""
        record = await self._writer.read(lambda log: log.archived())
        self._writer.archived_us = 0 if record is None else record.time_us
        return record

    async def once(self, before_us: int) -> int:
        """Move old events; returns their number."""
        log, record = self._writer.log, await self._note()
        if record is not None and not self._folder.exists():
            self._folder = Path(record.folder)
        moved = Moved()
        if await self._writer.read(partial(_is_due, before_us=before_us)):
            moved = await self._copied(before_us) or moved
            if isinstance(log, SqliteLog) and moved.events and moved.record is not None:
                await self._writer.on_log(partial(log.note_archive, moved.record, moved.base))
            if moved.held_by:
                _log.warning("later events are not archived", extra={"fields": {"because_of": moved.held_by}})
        record = await self._note()
        if isinstance(log, SqliteLog) and record is not None:
            batch: Callable[[], int] = partial(log.drop_archived, record.seq, _BATCH)
            while await self._writer.on_log(batch) > 0:  # requests are answered between batches
                await asyncio.sleep(_PAUSE_S)
        if moved.events:
            self._count("bot_orch_archived_events_total", moved.events)
            _log.info("events archived", extra={"fields": {"events": moved.events, "folder": str(self._folder)}})
        return moved.events

    async def _copied(self, before_us: int) -> Moved | None:
        """Events that the subprocess moved, or on SQLite only copied; ``None`` if another process is doing so."""
        job = Job(self._database, str(self._folder), before_us, delete=not isinstance(self._writer.log, SqliteLog))
        working = asyncio.ensure_future(asyncio.to_thread(self._work, msgspec.json.encode(job)))
        try:
            status, answer, said = await asyncio.shield(working)
        except asyncio.CancelledError:
            if self._process is not None:
                self._process.kill()
            await working
            raise
        if status == BUSY:
            return None
        if status != 0:
            raise RetentionFailedError((answer or said).decode(errors="replace").strip()[-500:] or f"status {status}")
        return msgspec.json.decode(answer, type=Moved)

    def _work(self, job: bytes) -> tuple[int, bytes, bytes]:
        command = [sys.executable, "-m", "bot_orch.log.archiving"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603
            self._process = process
            answer, said = process.communicate(job)
        return process.returncode, answer, said


def retention_of(writer: Writer, config: Config, count: Callable[[str, int], None]) -> Retention | None:
    """The retention job of a router; without a retention setting it only tracks what others move."""
    given, log = config.retention, writer.log
    age_s = None if given.events is None else seconds_of(given.events, "config.retention.events")
    if not isinstance(log, PostgresLog) and not (isinstance(log, SqliteLog) and age_s is not None):
        return None
    if age_s is not None:  # a counter that is there before its first event can be alerted on
        count("bot_orch_archived_events_total", 0)
        count("bot_orch_archive_failures_total", 0)
    return Retention(writer, config.database, Path(given.archive or ""), age_s=age_s, count=count)


def _is_due(log: Log, *, before_us: int) -> bool:
    """Whether the first event in the log is old enough to move."""
    record = log.archived()
    row = log.row(1 if record is None else record.seq + 1)
    return row is not None and row.time_us < before_us
