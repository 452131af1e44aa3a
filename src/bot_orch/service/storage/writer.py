"""Group commit: events are ordered at once, committed in groups, and acknowledged after fsync.

The event loop stamps an event, folds it into the ledger and stages its row. One task inserts the staged rows and lets a
thread COMMIT; rows staged meanwhile form the next group. Every answer waits for one fsync, and one fsync serves many
answers. A snapshot is captured at once, encoded between requests, and committed as a group of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter, thread_time
from typing import Any, TypeVar

from bot_orch.clock import Clock
from bot_orch.eventlog.archive.record import archived_us
from bot_orch.eventlog.events import RESTARTED, Event, Noted, encode_event, kind_of
from bot_orch.eventlog.ledger import Ledger, fold
from bot_orch.eventlog.log import Log, LogConflictError, LogFencedError, Row, Snapshot
from bot_orch.eventlog.stores.postgres.connect import LogUnavailableError
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.groups import Group
from bot_orch.service.storage.observers import AwaitedObservers, Observers
from bot_orch.service.storage.slices import take_snapshot
from bot_orch.service.storage.watching import WatchedLog
from bot_orch.types import Decision

__all__ = ["Group", "Progress", "Writer"]

_log = logging.getLogger("bot_orch.writer")
T = TypeVar("T")
Progress = Callable[[int, int], None]
_MANY_REFS = 10_000
_PAUSE_S = 0.002  # between slices of a snapshot: requests keep most of the processor
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_REMOTE_PAUSE_S = 0.05, 2.0, 0.5
_BLIP_S = 1.0  # an outage that is shorter is waited for; in a longer one requests are refused at once


class Writer(WatchedLog):
    """Owns the log and the ledger.

    Signals: ``rebuilt`` after the ledger was folded again from the log; ``followed`` with each row that another writer
    of the log has committed; ``staged`` with time and event of each row of this one, which is not committed yet.

    Parameters
    ----------
    log
        Where events go.
    clock
        Stamps events; stamps are strictly increasing and advance with elapsed time, whatever the wall clock does.
    grouped
        Whether to commit groups; otherwise every event has its own commit (the peer in benchmarks).
    progress
        Called with (events folded, events in the log) while the log is folded.
    """

    def __init__(self, log: Log, clock: Clock, *, grouped: bool = True, progress: Progress | None = None) -> None:
        super().__init__(log, _loaded(log, progress), clock, grouped=grouped)
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self.archived_us = archived_us(log)  # the time of the last event that is in the archive alone
        self._watching: asyncio.Task[None] | None = None
        self._closing = False
        self._distrusted: Exception | None = None
        self.groups = 0
        self._rollbacks, self._pause_s = 0, _PAUSE_S
        self._saving: asyncio.Task[None] | None = None
        self.saved_seq, self._newest = self.ledger.folded_from, self.ledger.seen_seq
        self.rebuilt = AwaitedObservers()
        self.followed: Observers[[Row]] = Observers()
        self.staged: Observers[[int, Event]] = Observers()

    def start(self) -> None:
        """Start the task that commits."""
        self._task = asyncio.create_task(self._run(), name="writer")
        if self._server is not None:
            self._watching = asyncio.create_task(self._watch(self._server), name="watch")

    @property
    def may_stage(self) -> bool:
        """Whether an event staged now is applied to the state seen now."""
        return True

    def stamp(self) -> int:
        """A new timestamp, later than all before; raises while the log cannot be written."""
        if self.failed is not None or self._closing:
            raise StorageError(f"storage: {self.failed or 'the service is stopping'}; try again later")
        return self._stamp()

    def stage(
        self,
        time_us: int,
        event: Event,
        ref: str,
        *,
        made: Decision | None = None,
        key: str | None = None,
        digest: bytes | None = None,
    ) -> Group:
        """Fold an event and queue its row for commit; await ``Group.durable`` before acknowledging it."""
        ledger, body = self.ledger, encode_event(event)  # an event that cannot be encoded must not be folded
        ledger.apply(ledger.seq + 1, time_us, event, made)
        group, row = self._open(), Row(ledger.seq, time_us, kind_of(event), ref, body, key, digest)
        group.add(row)
        self._recent.wrote(row, group)
        self._refs[ref] += 1
        self._wake.set()
        self.staged.send(time_us, event)
        for note in self.restart_notes(ref):
            self.stage(self._stamp(), note, ref)
        return group

    def restart_notes(self, ref: str) -> list[Noted]:
        """Notes on the agents that the last event, about ``ref``, has started afresh."""
        for name in self.ledger.restarted:
            _log.warning("agent started afresh", extra={"fields": {"agent": name, "decision": ref}})
        return [Noted(RESTARTED, ref, {"agent": name}) for name in self.ledger.restarted]

    def distrust(self, error: Exception) -> None:
        """Roll the ledger back to what is on disk: it may hold an event that was never staged."""
        self.failed = self._distrusted = error
        self._wake.set()

    def save(self, *, anyway: bool = False) -> asyncio.Task[None]:
        """Save a snapshot of the ledger as of now, unless one is being saved; the task ends once it is durable.

        It fails with a :class:`StorageError` if storage fails meanwhile. If somebody else has saved one since ours,
        nothing is saved, unless ``anyway``. ``saved_seq`` is the last event of the last one, as far as known.
        """
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save(anyway=anyway), name="snapshot")
            self._saving.add_done_callback(_ignore_failure)
        return self._saving

    async def _save(self, *, anyway: bool) -> None:
        self.saved_seq = self.ledger.seq
        try:
            newest = await self._claim_saving()
            if newest is None:
                return
            try:
                if anyway or newest <= self._newest:
                    await self._save_now()
                else:
                    self.saved_seq = self._newest = newest
            finally:
                await self._end_saving()
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(f"storage: {error}; try again later") from error

    async def _save_now(self) -> None:
        rollbacks, self.saved_seq = self._rollbacks, self.ledger.seq
        snapshot = await take_snapshot(self.ledger, self.log, self._pause_s)
        if self._rollbacks != rollbacks or self.failed is not None:  # it may hold events that were never committed
            raise StorageError("storage: the state was rolled back while it was saved; try again later")
        await self._put_snapshot(snapshot).durable()
        self._newest = snapshot.seq

    async def _claim_saving(self) -> int | None:
        """The last event of the newest snapshot, as far as known; None while another replica saves one."""
        return 0

    async def _end_saving(self) -> None:
        """Let others save a snapshot."""

    def _put_snapshot(self, snapshot: Snapshot) -> Group:
        """Queue a snapshot, in a group after everything that it holds."""
        group = self._group()
        group.snapshot = snapshot
        self._line.append(group)
        self._wake.set()
        return group

    async def close(self) -> None:
        """Commit what is staged, with a snapshot, and close the log; without either if the log does not answer."""
        if self._watching is not None:
            self._watching.cancel()
        if self._task is not None:
            works = self.failed is None if self._server is None else await self.confirm(anew=True)
            if self.ledger.configured and works:
                if self._saving is not None and self._saving.cancel():
                    await asyncio.wait({self._saving})
                self._pause_s = 0.0
                with suppress(StorageError):  # it only saves time at the next start
                    await self.save(anyway=True)
            else:
                self._abandon()
            self._closing = True
            self._wake.set()
            await self._task
        self._abandon()
        await asyncio.to_thread(self._shut)
        self.log.close()

    def _abandon(self) -> None:
        """Let queries that wait for an answer fail now."""
        if self._server is not None:
            self._server.abort()

    def _shut(self) -> None:
        self._pool.shutdown()
        self._readers.shutdown(cancel_futures=True)

    async def reach(self, seq: int) -> None:
        """Return once the ledger holds the committed event ``seq``: at once, as this process is the only writer."""

    async def on_log(self, job: Callable[[], T]) -> T:
        """The result of a job that writes to the file of the log by itself, between two groups; it must be short."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append((job, done))
        self._wake.set()
        return await done

    async def _work(self) -> None:
        job, done = self._jobs.popleft()
        try:
            found = await self._in_thread(job)
        except Exception as error:  # whatever storage raises: it is for whoever asked
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(found)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._distrusted is not None:
                error, self._distrusted = self._distrusted, None
                await self._recover(Group(), error, trusted=False)
            while self._line or self._jobs:
                if self._jobs:
                    await self._work()
                if not self._line:
                    continue
                group = self._flying = self._line.popleft()
                try:
                    await self._write(group)
                except Exception as error:  # whatever storage raises: the group is refused, or found to be there
                    await self._recover(group, error)
                else:
                    self._finish(group, None)
            if self._probing and not self._closing:
                try:
                    await self._probe()
                except Exception as error:
                    await self._recover(Group(), error)
            if self._closing:
                return

    async def _write(self, group: Group) -> None:
        if self._server is not None or (group.snapshot is not None and not self.log.instant):
            await self._in_thread(partial(self._append_and_commit, group.rows, group.snapshot))
            return
        self.log.append(group.rows, group.snapshot)
        if self.log.instant:
            self.log.commit()
        else:
            await self._in_thread(self.log.commit)

    def _append_and_commit(self, rows: Sequence[Row], snapshot: Snapshot | None) -> None:
        self.log.append(rows, snapshot)
        self.log.commit()

    def _finish(self, group: Group, error: Exception | None) -> None:
        self._flying = None
        self._refs.subtract(row.ref for row in group.rows)
        if len(self._refs) > _MANY_REFS:
            self._refs = +self._refs
        self.groups += 1
        group.error = error
        group.done.set()
        if error is None and (group.rows or group.snapshot is not None):
            self._wrote()

    async def _recover(self, group: Group, error: Exception, *, trusted: bool = True) -> None:
        """Write the rows that may be lost again, or else refuse everything staged and fold the log again.

        The connection to a file is kept: a new one could take WAL frames that were written but never synced for
        committed. A log on a server is asked for its end instead, see :meth:`_resume`.
        """
        self._rollbacks += 1
        _log.error("storage failed", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})
        fenced = next((each for each in (self.failed, error) if isinstance(each, LogFencedError)), None)
        if fenced is not None:  # another process goes on with this log, whatever else fails now
            self.failed = fenced
            await self._in_thread(self.log.rollback)
            self._refuse(group, fenced)
            return
        lost = self._server is not None and isinstance(error, LogUnavailableError)
        if trusted and lost and await self._resume(group, error):
            return
        self.failed = error
        self._refuse(group, error)
        pause_s = _FIRST_PAUSE_S
        while not self._closing:
            try:
                self.ledger = await self._in_thread(self._reread)
            except Exception as again:  # still broken
                self.failed = again
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S if self._server is None else _LONGEST_REMOTE_PAUSE_S)
            else:
                self._refs.clear()
                self._stamp.reach(self.ledger.time_us)
                await self.rebuilt.send()
                self.failed = None
                _log.warning("storage works again", extra={"fields": {"seq": self.ledger.seq}})
                return

    async def _resume(self, group: Group, error: Exception) -> bool:
        """Go on where we were, once the server answers; whether that was possible.

        Nobody knows whether rows whose commit was not answered are there. If they are, they are acknowledged; if the
        log still ends before them, they are appended again; if others have written there, the state is wrong.
        """
        begun, pause_s = asyncio.get_running_loop().time(), _FIRST_PAUSE_S
        while not self._closing:
            try:
                await self._in_thread(partial(self._make_sure, group.rows, group.snapshot))
            except LogFencedError as fenced:
                self.failed = fenced
                self._refuse(group, fenced)
                return True
            except LogConflictError as conflict:
                _log.warning("others have written meanwhile", extra={"fields": {"detail": str(conflict)}})
                return False
            except Exception as again:
                if asyncio.get_running_loop().time() - begun > _BLIP_S:
                    self.failed = again
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_REMOTE_PAUSE_S)
            else:
                self._finish(group, None)
                self.failed = None
                _log.warning("storage works again", extra={"fields": {"seq": self.ledger.seq}})
                return True
        self._refuse(group, error)
        return True

    def _refuse(self, group: Group, error: Exception) -> None:
        """Refuse everything that waits for a commit."""
        for staged in (group, *self._line):
            self._finish(staged, error)
        self._line.clear()

    def _make_sure(self, rows: Sequence[Row], snapshot: Snapshot | None) -> None:
        self.log.rollback()
        if self._server is not None:
            self._server.settle(rows, snapshot)

    def _reread(self) -> Ledger:
        self.log.rollback()
        self.log.probe()
        return fold(self.log)


def _loaded(log: Log, progress: Progress | None) -> Ledger:
    """The ledger of a log; tells from the snapshot of which event it began, and how many it has folded."""
    begun, used = perf_counter(), thread_time()
    ledger = fold(log, progress=progress)
    took_s, used_s = perf_counter() - begun, thread_time() - used
    fields = {"snapshot": ledger.folded_from, "folded": ledger.seq - ledger.folded_from}
    times = {"seconds": round(took_s, 3), "processor_s": round(used_s, 3)}
    _log.info("loaded the log", extra={"fields": {**fields, **times}})
    return ledger


def _ignore_failure(saving: asyncio.Task[None]) -> None:
    """A snapshot that fails is tried again later; the failure itself was logged with the group."""
    if not saving.cancelled() and saving.exception() is not None:
        _log.warning("snapshot not saved", extra={"fields": {"detail": str(saving.exception())}})
