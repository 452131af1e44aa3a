"""Group commit: events are ordered at once, committed in groups, and acknowledged after fsync.

The event loop stamps an event, folds it into the ledger and stages its row. One task inserts the staged rows and lets a
thread COMMIT; rows staged meanwhile form the next group. Every answer waits for one fsync, and one fsync serves many
answers. A snapshot is captured at once, encoded between requests, and committed as a group of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from bot_orch.clock import Clock, ServiceTime
from bot_orch.eventlog.events import RESTARTED, Event, Noted, encode_event, kind_of
from bot_orch.eventlog.ledger import Ledger, fold
from bot_orch.eventlog.log import Log, Row, Snapshot
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.observers import Observers
from bot_orch.service.storage.slices import take_snapshot
from bot_orch.types import Decision

__all__ = ["Group", "Progress", "Writer"]

_log = logging.getLogger("bot_orch.writer")
T = TypeVar("T")
Progress = Callable[[int, int], None]
_MANY_REFS = 10_000
_PAUSE_S = 0.002  # between slices of a snapshot: requests keep most of the processor
_MUCH_AHEAD_US = 1_000_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


class Group:
    """Rows committed together."""

    __slots__ = ("done", "error", "keys", "rows", "snapshot")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.keys: dict[str, tuple[int, bytes]] = {}
        self.snapshot: Snapshot | None = None
        self.done = asyncio.Event()
        self.error: Exception | None = None

    async def durable(self) -> None:
        """Return once the rows are on disk; raise if they are not."""
        await self.done.wait()
        if self.error is not None:
            raise StorageError(f"storage: {self.error}; try again later") from self.error


class Writer:
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
        self.log, self._grouped = log, grouped
        self.ledger: Ledger = fold(log, progress=progress)
        self._stamp = ServiceTime(clock, self.ledger.time_us)
        if self._stamp.ahead_us > _MUCH_AHEAD_US:
            ahead_s = round(self._stamp.ahead_us / 1e6)
            _log.warning("the log is ahead of the clock; time goes on from its end", extra={"fields": {"s": ahead_s}})
        self._line: deque[Group] = deque()
        self._flying: Group | None = None
        self._refs: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "commit")
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.failed: Exception | None = None
        self._distrusted: Exception | None = None
        self.groups = 0
        self._rollbacks, self._pause_s = 0, _PAUSE_S
        self._saving: asyncio.Task[None] | None = None
        self.rebuilt: Observers[[]] = Observers()
        self.followed: Observers[[Row]] = Observers()
        self.staged: Observers[[int, Event]] = Observers()

    def start(self) -> None:
        """Start the task that commits."""
        self._task = asyncio.create_task(self._run(), name="writer")

    async def turn(self) -> None:
        """Return when this process may decide: at once, as it is the only writer."""

    @property
    def may_stage(self) -> bool:
        """Whether an event staged now is applied to the state seen now."""
        return True

    def now_us(self) -> int:
        """The current time of the service, never before that of the last event; see :class:`ServiceTime`."""
        return self._stamp.now_us()

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
        group = self._open()
        group.rows.append(Row(ledger.seq, time_us, kind_of(event), ref, body, key, digest))
        if key is not None:
            group.keys[key] = (ledger.seq, digest or b"")
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

    def find(self, key: str) -> tuple[int, bytes, Group | None] | None:
        """Sequence number and digest of the event that used ``key``, and its group if that is not committed yet."""
        for group in (*self._line, self._flying):
            if group is not None and key in group.keys:
                return *group.keys[key], group
        found = self.log.find(key)
        return None if found is None else (*found, None)

    async def settled(self, ref: str) -> list[Row]:
        """Every row about ``ref``, once all of them are committed; nothing is staged between that and the return."""
        while self._refs[ref] > 0:
            await self.barrier()
        self._refs.pop(ref, None)
        return self.log.about(ref)

    async def barrier(self) -> None:
        """Return once everything staged so far is committed."""
        group = self._line[-1] if self._line else self._flying
        if group is not None:
            await group.durable()

    def save(self) -> asyncio.Task[None]:
        """Save a snapshot of the ledger as of now, unless one is being saved; the task ends once it is durable.

        It fails with a :class:`StorageError` if storage fails meanwhile.
        """
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save(), name="snapshot")
            self._saving.add_done_callback(_ignore_failure)
        return self._saving

    async def _save(self) -> None:
        rollbacks = self._rollbacks
        snapshot = await take_snapshot(self.ledger, self._pause_s)
        if self._rollbacks != rollbacks or self.failed is not None:  # it may hold events that were never committed
            raise StorageError("storage: the state was rolled back while it was saved; try again later")
        await self._put_snapshot(snapshot).durable()

    def _put_snapshot(self, snapshot: Snapshot) -> Group:
        """Queue a snapshot, in a group after everything that it holds."""
        group = Group()
        group.snapshot = snapshot
        self._line.append(group)
        self._wake.set()
        return group

    async def close(self) -> None:
        """Commit what is staged, with a snapshot, and close the log."""
        if self._task is not None:
            if self.failed is None and self.ledger.configured:
                if self._saving is not None and self._saving.cancel():
                    await asyncio.wait({self._saving})
                self._pause_s = 0.0
                with suppress(StorageError):  # it only saves time at the next start
                    await self.save()
            self._closing = True
            self._wake.set()
            await self._task
        self._pool.shutdown()
        self.log.close()

    def _open(self) -> Group:
        if not (self._line and self._grouped) or self._line[-1].snapshot is not None:
            self._line.append(Group())
        return self._line[-1]

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._distrusted is not None:
                error, self._distrusted = self._distrusted, None
                await self._recover(Group(), error)
            while self._line:
                group = self._flying = self._line.popleft()
                try:
                    if group.snapshot is not None and not self.log.instant:
                        await self._in_thread(partial(self._append_and_commit, group.rows, group.snapshot))
                        self._finish(group, None)
                        continue
                    self.log.append(group.rows, group.snapshot)
                    if self.log.instant:
                        self.log.commit()
                    else:
                        await self._in_thread(self.log.commit)
                except Exception as error:  # whatever storage raises: the group is refused, never acknowledged
                    await self._recover(group, error)
                else:
                    self._finish(group, None)
            if self._closing:
                return

    def _append_and_commit(self, rows: Sequence[Row], snapshot: Snapshot | None) -> None:
        self.log.append(rows, snapshot)
        self.log.commit()

    async def _in_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)

    def _finish(self, group: Group, error: Exception | None) -> None:
        self._flying = None
        self._refs.subtract(row.ref for row in group.rows)
        if len(self._refs) > _MANY_REFS:
            self._refs = +self._refs
        self.groups += 1
        group.error = error
        group.done.set()

    async def _recover(self, group: Group, error: Exception) -> None:
        """Refuse everything staged, then fold the log again and retry until it can be written.

        The connection is kept: a new one could take WAL frames that were written but never synced for committed.
        """
        self.failed = error
        self._rollbacks += 1
        _log.error("storage failed", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})
        for staged in (group, *self._line):
            self._finish(staged, error)
        self._line.clear()
        pause_s = _FIRST_PAUSE_S
        while not self._closing:
            try:
                self.ledger = await self._in_thread(self._reread)
            except Exception as again:  # still broken
                self.failed = again
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._refs.clear()
                self._stamp.reach(self.ledger.time_us)
                self.failed = None
                self.rebuilt.send()
                _log.warning("storage works again", extra={"fields": {"seq": self.ledger.seq}})
                return

    def _reread(self) -> Ledger:
        self.log.rollback()
        self.log.probe()
        return fold(self.log)


def _ignore_failure(saving: asyncio.Task[None]) -> None:
    """A snapshot that fails is tried again later; the failure itself was logged with the group."""
    if not saving.cancelled() and saving.exception() is not None:
        _log.warning("snapshot not saved", extra={"fields": {"detail": str(saving.exception())}})
