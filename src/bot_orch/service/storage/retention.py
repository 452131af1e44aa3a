"""Old events move to the archive while the service runs: written by another process, removed in small batches."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from bot_orch.errors import BotOrchError, InvalidInputError
from bot_orch.log.archive import copying
from bot_orch.log.archive.folder import ArchiveFolder
from bot_orch.log.archive.job import BUSY, ArchiveJob, JobDone
from bot_orch.log.archive.record import ArchiveRecord, archived, archived_us
from bot_orch.log.log import Log
from bot_orch.log.purging import seconds_of
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.config import Config
from bot_orch.service.storage.writer import Writer

__all__ = ["Retention", "RetentionFailedError", "place_of", "retention_of"]

_log = logging.getLogger("bot_orch.retention")
_LOOK_S = 60.0
_BATCH, _PAUSE_S = 500, 0.02


class RetentionFailedError(BotOrchError):
    """Old events could not be archived; they stay in the log."""


class Retention:
    """Archives the events of one log that are older than ``age_s``; one process at a time does.

    Parameters
    ----------
    writer
        Of the log.
    database, folder
        Where the log is, and where its archive goes.
    age_s, every_s
        How old events become in the log, and how often to look.
    count
        Told the names of metrics and by how much they grow.
    """

    def __init__(
        self,
        writer: Writer,
        database: str,
        folder: Path,
        *,
        age_s: float | None,
        every_s: float,
        count: Callable[[str, int], None],
    ) -> None:
        self._writer, self._database, self._folder = writer, database, folder
        self._age_s, self._every_s, self._count = age_s, every_s, count
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        if self._age_s is not None:
            await self._say_where()
        waited_s = self._every_s
        while True:
            await asyncio.sleep(min(_LOOK_S, self._every_s))
            waited_s += min(_LOOK_S, self._every_s)
            try:
                self._writer.archived_us = await self._writer.read(archived_us)  # others archive, too
                if self._age_s is not None and waited_s >= self._every_s:
                    waited_s = 0.0
                    await self.once()
            except (BotOrchError, OSError) as error:
                self._count("bot_orch_archive_failures_total", 1)
                _log.warning("events not archived", extra={"fields": {"detail": str(error)}})

    async def _say_where(self) -> None:
        """Say so at the start if the archive is elsewhere than the settings say."""
        try:
            record = await self._writer.read(archived)
            folder = await asyncio.to_thread(place_of, record, self._folder)
        except (BotOrchError, OSError) as error:
            _log.warning("events will not be archived", extra={"fields": {"detail": str(error)}})
            return
        if folder != self._folder:
            fields = {"folder": str(folder), "retention": str(self._folder)}
            _log.warning("the archive continues in the folder that the log notes", extra={"fields": fields})

    async def once(self) -> int:
        """Archive what is old; returns how many events were moved."""
        log, age_s = self._writer.log, self._age_s or 0.0
        before_us = self._writer.now_us() - round(age_s * 1e6)
        moved, folder = 0, self._folder
        if await self._writer.read(partial(_is_due, before_us=before_us)):
            noted = await self._writer.read(archived)
            folder = await asyncio.to_thread(place_of, noted, self._folder)
            asked = ArchiveJob(self._database, str(folder), before_us, copy_only=isinstance(log, SqliteLog))
            done = await self._done(asked)
            moved = 0 if done is None else done.events
            if done is not None and done.seq and isinstance(log, SqliteLog):
                record = ArchiveRecord(done.seq, done.time_us, done.folder, done.digest)
                base = await asyncio.to_thread(copying.read_state, folder, record.digest)
                await self._writer.on_log(partial(log.note_archive, record, base))
            if done is not None and done.held_by:
                _log.warning("later events are not archived", extra={"fields": {"because_of": done.held_by}})
        if isinstance(log, SqliteLog):
            await self._remove(log)
        self._writer.archived_us = await self._writer.read(archived_us)
        if moved:
            self._count("bot_orch_archived_events_total", moved)
            _log.info("events archived", extra={"fields": {"events": moved, "folder": str(folder)}})
        return moved

    async def _remove(self, log: SqliteLog) -> None:
        """Remove archived rows, also those that an earlier run has left; requests are answered between batches."""
        record = archived(log)
        if record is None:
            return
        batch: Callable[[], int] = partial(log.drop_archived, record.seq, _BATCH)
        while await self._writer.on_log(batch) > 0:
            await asyncio.sleep(_PAUSE_S)

    async def _done(self, asked: ArchiveJob) -> JobDone | None:
        """What another process has done; ``None`` if somebody else is at it."""
        working = asyncio.ensure_future(asyncio.to_thread(self._work, msgspec.json.encode(asked)))
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
        return msgspec.json.decode(answer, type=JobDone)

    def _work(self, asked: bytes) -> tuple[int, bytes, bytes]:
        command = [sys.executable, "-m", "bot_orch.log.archive.job"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S603
            self._process = process
            answer, said = process.communicate(asked)
        return process.returncode, answer, said


def retention_of(writer: Writer, config: Config, count: Callable[[str, int], None]) -> Retention | None:
    """What archives the events of a router; it only notices what others archive if there is nothing to do."""
    given, log = config.retention, writer.log
    age_s = None if given.events is None else seconds_of(given.events, "config.retention.events")
    if not isinstance(log, PostgresLog) and not (isinstance(log, SqliteLog) and age_s is not None):
        return None
    folder = Path(given.archive or "") / config.name
    if age_s is not None:  # a counter that is there before its first event can be alerted on
        count("bot_orch_archived_events_total", 0)
        count("bot_orch_archive_failures_total", 0)
    return Retention(writer, config.database, folder, age_s=age_s, every_s=given.every_s, count=count)


def place_of(record: ArchiveRecord | None, wanted: Path) -> Path:
    """The folder that an archive continues in: the wanted one, or where it is by the log's own note."""
    if record is None or ArchiveFolder(wanted).spans():
        return wanted
    noted = Path(record.folder)
    if ArchiveFolder(noted).spans():
        return noted
    problem = f"events 1 to {record.seq} of this log were archived to {noted}, and neither it nor {wanted} has them"
    raise InvalidInputError("config.retention.archive", problem, f"bring {noted} back, or put its files into {wanted}")


def _is_due(log: Log, *, before_us: int) -> bool:
    """Whether a whole block of events is old."""
    record = archived(log)
    row = log.row((0 if record is None else record.seq) + copying.BLOCK)
    return row is not None and row.time_us < before_us
