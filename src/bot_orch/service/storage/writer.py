"""The writer of a log: events are ordered at once, committed in groups, and acknowledged after fsync.

The event loop stamps an event, folds it into the ledger and stages its row. One task inserts the staged rows and lets a
thread COMMIT; rows staged meanwhile form the next group. Every answer waits for one fsync, and one fsync serves many
answers. A snapshot is captured at once, and encoded and written in a thread once its events are committed.

A log on a server has one writer at a time, its owner. Lookups in it run in a thread and have a deadline, and its clock
is compared with that of this machine; a file answers at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter, thread_time
from types import MappingProxyType
from typing import Any, TypeVar

from bot_orch.clock import Clock, ServiceTime
from bot_orch.core.events import RESTARTED, Event, Noted
from bot_orch.errors import BotOrchError
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import Ledger, encoded, fold, snapshot_due
from bot_orch.log.log import NOTHING, Found, Log, LogConflictError, LogFencedError, Row, Snapshot, Wanted
from bot_orch.log.stores.postgres.connect import LogUnavailableError
from bot_orch.log.stores.postgres.log import PostgresLog, clock_error
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.groups import EMPTY, Group, Known, Look, RecentWrites
from bot_orch.types import Decision, Outcome

_log = logging.getLogger("bot_orch.writer")
_NONE: Mapping[str, Known] = MappingProxyType({})
T = TypeVar("T")
Progress = Callable[[int, int], None]
_MANY_REFS = 10_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LONGEST_REMOTE_PAUSE_S = 0.05, 2.0, 0.5
_BLIP_S = 1.0  # an outage that is shorter is waited for; in a longer one requests are refused at once
_MUCH_AHEAD_US = 1_000_000
_FRESH_S = 4.0  # how long ago the last write of a service that is ready may be
_PROBE_WAIT_S, _ANEW_WAIT_S = 1.0, 2.0
_WATCH_S = 1.0


class Writer:
    """Owns the log and the ledger.

    Lists of subscribers: those in ``rebuilt`` are called, one after the other, after the ledger was folded again from
    the log; those in ``staged`` with time and event of each row, which is not committed yet.

    Parameters
    ----------
    log
        Where events go.
    clock
        Stamps events; stamps are strictly increasing and advance with elapsed time, whatever the wall clock does. One
        that is ahead of the server's is refused.
    grouped
        Whether to commit groups; otherwise every event has its own commit (the peer in benchmarks).
    progress
        Called with (events folded, events in the log) while the log is folded.
    """

    def __init__(self, log: Log, clock: Clock, *, grouped: bool = True, progress: Progress | None = None) -> None:
        self.log, self._clock, self._grouped = log, clock, grouped
        # on a server: nothing may wait for it on the event loop
        self._server: PostgresLog | None = log if isinstance(log, PostgresLog) else None
        self._check_clock()
        self.ledger = _loaded(log, progress)
        self._stamp = ServiceTime(clock, self.ledger.time_us)
        self._check_clock()  # again: the time of a writer begins here, and the fold may take long
        # one connection is given up, and another one tried
        self.patience_s: float | None = None if self._server is None else 2.0 * self._server.timing.query_s
        if self._stamp.ahead_us > _MUCH_AHEAD_US:
            ahead_s = round(self._stamp.ahead_us / 1e6)
            _log.warning("the log is ahead of the clock; time goes on from its end", extra={"fields": {"s": ahead_s}})
        self._line: deque[Group] = deque()
        self._flying: Group | None = None
        self._refs: Counter[str] = Counter()
        self._recent = RecentWrites()
        self._lookups: list[tuple[Wanted, asyncio.Future[Found]]] = []
        self._lookup_task: asyncio.Task[None] | None = None
        self._jobs: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._pool, self._readers = ThreadPoolExecutor(1, "commit"), ThreadPoolExecutor(1, "lookup")
        self._wake, self._written = asyncio.Event(), asyncio.Event()
        self._written_at: float | None = None
        self._probing = self._closing = False
        self._failed: Exception | None = None
        self._clock_error: Exception | None = None
        self._distrusted: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._rollbacks, self._snapshot_cost_s = 0, 0.0
        record = log.archived()
        self.archived_us = 0 if record is None else record.time_us  # of the last event that is in files alone
        self.groups, self.saved_seq = 0, self.ledger.folded_from
        self.rebuilt: list[Callable[[], Awaitable[None] | None]] = []
        self.staged: list[Callable[[int, Event], None]] = []

    def _check_clock(self) -> None:
        """Refuse to start with a clock that is ahead of the server's."""
        if self._server is not None:
            error = clock_error(self._server.seconds_ahead(self._clock), self._server.timing.clock_s)
            if error is not None:
                raise error

    def start(self) -> None:
        """Start the task that commits."""
        self._task = asyncio.create_task(self._run(), name="writer")
        if self._server is not None:
            self._watching = asyncio.create_task(self._watch(self._server), name="watch")

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
        made: Decision | Outcome | None = None,
        key: str | None = None,
        digest: bytes | None = None,
    ) -> Group:
        """Fold an event and queue its row for commit; await ``Group.durable`` before acknowledging it."""
        ledger, body = self.ledger, encode_event(event, ref)  # an event that cannot be encoded must not be folded
        ledger.apply(ledger.seq + 1, time_us, event, made)
        group, row = self._open(), Row(ledger.seq, time_us, event.kind, ref, body, key, digest)
        group.add(row)
        self._recent.wrote(row, group)
        self._refs[ref] += 1
        self._wake.set()
        for subscriber in self.staged:
            subscriber(time_us, event)
        for note in self.restart_notes(ref):
            self.stage(self._stamp(), note, ref)
        return group

    def restart_notes(self, ref: str) -> list[Noted]:
        """Notes on the agents that the last event, about ``ref``, has started afresh."""
        for name in self.ledger.applied.restarted:
            _log.warning("agent started afresh", extra={"fields": {"agent": name, "decision": ref}})
        return [Noted(RESTARTED, ref, {"agent": name}) for name in self.ledger.applied.restarted]

    def distrust(self, error: Exception) -> None:
        """Roll the ledger back to the durable state, as it may contain an event that was never staged."""
        self.failed = self._distrusted = error
        self._wake.set()

    def save(self) -> asyncio.Task[None]:
        """Save a snapshot of the current ledger unless one is being saved; the task ends when it is durable.

        It fails with a :class:`StorageError` if storage fails meanwhile. ``saved_seq`` is the last event of the last
        one.
        """
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save(), name="snapshot")
            self._saving.add_done_callback(_ignore_failure)
        return self._saving

    async def _save(self) -> None:
        rollbacks, self.saved_seq, captured = self._rollbacks, self.ledger.seq, self.ledger.capture()
        await self.barrier()
        if self._rollbacks != rollbacks or self.failed is not None:  # it may hold events that were never committed
            raise StorageError("storage: the state was rolled back while it was saved; try again later")
        try:
            self._snapshot_cost_s = await asyncio.to_thread(_save, self.log, captured)
        except Exception as error:
            raise StorageError(f"storage: {error}; try again later") from error

    def snapshot_due(self, *, every: int, tail_s: float) -> bool:
        """Whether to save a snapshot now."""
        return snapshot_due(self.ledger, self.saved_seq, every=every, tail_s=tail_s, cost_s=self._snapshot_cost_s)

    async def close(self) -> None:
        """Commit staged events and a snapshot, and close the log; skip both if the log does not answer."""
        if self._watching is not None:
            self._watching.cancel()
        if self._task is not None:
            works = self.failed is None if self._server is None else await self.confirm(anew=True)
            if self.ledger.configured and works:
                if self._saving is not None and self._saving.cancel():
                    await asyncio.wait({self._saving})
                with suppress(StorageError):  # it only saves time at the next start
                    await self.save()
            else:
                self._abandon()
            self._closing = True
            self._wake.set()
            await self._task
        self._abandon()
        await asyncio.to_thread(self._shut)
        self.log.close()

    def _abandon(self) -> None:
        """Make waiting queries fail now."""
        if self._server is not None:
            self._server.abort()

    def _shut(self) -> None:
        self._pool.shutdown()
        self._readers.shutdown(cancel_futures=True)

    async def on_log(self, job: Callable[[], T]) -> T:
        """Run a short job that writes to the log's file directly, between two groups; returns its result."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append((job, done))
        self._wake.set()
        return await done

    async def _work(self) -> None:
        job, done = self._jobs.popleft()
        try:
            found = await self._in_thread(job)
        except Exception as error:  # whatever storage raises: the caller gets it
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
                    await self._write_keyed(group)
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

    async def _write_keyed(self, group: Group) -> None:
        """Write a group; if the log has some of its keys already, those rows go without them, as any other row.

        The request with such a key is answered with the event that has it. The other rows have nothing to do with it,
        and the state, in which all are folded, is that of the log.
        """
        try:
            await self._write(group)
        except LogConflictError:
            first, wanted = group.rows[0].seq, Wanted(tuple(group.keys))
            await self._in_thread(self.log.rollback)
            found = await self._in_thread(partial(self.log.look_up, wanted)) if group.keys else Found({}, {})
            taken = [key for key, row in found.keys.items() if row.seq < first]
            if not taken:
                raise
            _log.warning("a key was taken", extra={"fields": {"keys": len(taken)}})
            group.leave_out(taken)
            await self._write(group)

    async def _write(self, group: Group) -> None:
        if self._server is not None:
            await self._in_thread(partial(self._append_and_commit, group.rows))
            return
        self.log.append(group.rows)
        if self.log.instant:
            self.log.commit()
        else:
            await self._in_thread(self.log.commit)

    def _append_and_commit(self, rows: Sequence[Row]) -> None:
        self.log.append(rows)
        self.log.commit()

    def _finish(self, group: Group, error: Exception | None) -> None:
        self._flying = None
        self._refs.subtract(row.ref for row in group.rows)
        if len(self._refs) > _MANY_REFS:
            self._refs = +self._refs
        self.groups += 1
        group.error = error
        group.done.set()
        if error is None and group.rows:
            self._wrote()

    async def _recover(self, group: Group, error: Exception, *, trusted: bool = True) -> None:
        """Write rows that may be lost again, or else refuse everything staged and reload the log.

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
                for subscriber in self.rebuilt:
                    done = subscriber()
                    if done is not None:
                        await done
                self.failed = None
                _log.warning("storage works again", extra={"fields": {"seq": self.ledger.seq}})
                return

    async def _resume(self, group: Group, error: Exception) -> bool:
        """Resume once the server answers; returns whether that was possible.

        It is unknown whether rows of an unanswered commit are there. If they are, they are acknowledged; if the
        log still ends before them, they are appended again; if others have written there, the state is wrong.
        """
        begun, pause_s = asyncio.get_running_loop().time(), _FIRST_PAUSE_S
        while not self._closing:
            try:
                await self._in_thread(partial(self._make_sure, group.rows))
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

    def _make_sure(self, rows: Sequence[Row]) -> None:
        self.log.rollback()
        if self._server is not None:
            self._server.settle(rows)

    def _reread(self) -> Ledger:
        self.log.rollback()
        self.log.probe()
        return fold(self.log)

    async def look_up(self, *, keys: Iterable[str | None] = (), refs: Iterable[str] = ()) -> Look:
        """Look up keys and refs in the log, including uncommitted rows.

        It is true until the caller awaits something else. Rows about ``refs`` are all committed.
        """
        wanted = Wanted(tuple(key for key in keys if key is not None), tuple(refs))
        if wanted == NOTHING:
            return EMPTY
        async with self._patience():
            while True:
                await self._settle(wanted.refs)
                if self._server is None:
                    return self._seen(wanted, self.log.look_up(wanted))
                with self._recent.lookup() as since:
                    # what is committed while the server answers may be in neither the answer nor the line afterwards
                    staged = {key: known for key in wanted.keys if (known := self.staged_as(key)) is not None}
                    found = await self._ask(wanted)
                    if not self._recent.touched(wanted.refs, since):
                        return self._seen(wanted, found, staged)

    async def _ask(self, wanted: Wanted) -> Found:
        """Query the server, sharing one query with other waiting lookups."""
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._lookups.append((wanted, answer))
        if self._lookup_task is None:
            self._lookup_task = asyncio.create_task(self._run_lookups(), name="lookup")
        return await answer

    async def _run_lookups(self) -> None:
        """Run pending lookups in batches until there are none."""
        while self._lookups:
            waiting, self._lookups = self._lookups, []
            try:
                keys, refs = ([name for wish, _ in waiting for name in wish[part]] for part in (0, 1))
                wanted = Wanted(tuple(dict.fromkeys(keys)), tuple(dict.fromkeys(refs)))
                found = await self._in_reader(partial(self.log.look_up, wanted))
            except Exception as error:
                _answer(waiting, error)
            else:
                _answer(waiting, found)
        self._lookup_task = None

    async def read(self, job: Callable[[Log], T]) -> T:
        """Run a read job on the log: in a thread and within the deadline if the log is on a server."""
        if self._server is None:
            return job(self.log)
        async with self._patience():
            return await self._in_reader(partial(job, self.log))

    async def about(self, ref: str) -> list[Row]:
        """Committed rows about ``ref``, in order."""
        return await self.read(lambda log: log.about(ref))

    def staged_as(self, key: str) -> Known | None:
        """The uncommitted event that used ``key``, if any."""
        for group in (*self._line, self._flying):
            if group is not None and key in group.keys:
                return Known(group.keys[key], group)
        return None

    async def settled(self, ref: str) -> list[Row]:
        """All rows about ``ref``, once they are committed; nothing is staged between the commit and the return."""
        return (await self.look_up(refs=(ref,))).about(ref)

    async def barrier(self) -> None:
        """Wait until everything staged so far is committed."""
        group = self._line[-1] if self._line else self._flying
        if group is not None:
            await group.durable()

    def _seen(self, wanted: Wanted, found: Found, staged: Mapping[str, Known] = _NONE) -> Look:
        """Combine found and staged rows; the caller must not await before using the result."""
        for ref in wanted.refs:
            self._refs.pop(ref, None)
        keys: dict[str, Known | None] = {}
        for key in wanted.keys:
            row = found.keys.get(key)
            known = self.staged_as(key) or self._recent.find(key) or (staged[key].by_now() if key in staged else None)
            keys[key] = known or (None if row is None else Known(row, None))
        return Look(keys, found.refs)

    async def _settle(self, refs: Sequence[str]) -> None:
        """Wait until no rows about ``refs`` are uncommitted."""
        while any(self._refs[ref] > 0 for ref in refs):
            await self.barrier()

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        """Refuse a request that waits too long for the log."""
        try:
            async with asyncio.timeout(self.patience_s):
                yield
        except TimeoutError:
            waited = f"storage: the log did not answer within {self.patience_s:g} seconds"
            raise StorageError(f"{waited}; try again later") from None

    def _open(self) -> Group:
        if not (self._line and self._grouped):
            self._line.append(self._group())
        return self._line[-1]

    def _group(self) -> Group:
        group = Group()
        if self.patience_s is not None:
            group.patience_s = self.patience_s
        return group

    async def _in_reader(self, job: Callable[[], T]) -> T:
        closed = StorageError(
            "storage: the log was closed while it was asked; try again"
        )  # a router may move in the meantime
        try:
            found = asyncio.get_running_loop().run_in_executor(self._readers, job)
        except RuntimeError:  # its threads have ended
            raise closed from None
        try:
            return await found
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if found.cancelled() and (task is None or not task.cancelling()):  # by the end of its threads
                raise closed from None
            raise

    async def _watch(self, server: PostgresLog) -> None:
        """Monitor the connection while nothing is written."""
        while True:
            await asyncio.sleep(_WATCH_S)
            with suppress(BotOrchError):  # the next write finds out
                self._heed_clock(await self.read(lambda _: server.seconds_ahead(self._clock)))
                await self.confirm()

    def _heed_clock(self, ahead_s: float) -> None:
        """Refuse writes while the clock is ahead of the server's."""
        bound_s = math.inf if self._server is None else self._server.timing.clock_s
        before, self._clock_error = self._clock_error, clock_error(ahead_s, bound_s)
        if self._clock_error is not None and before is None:
            _log.critical("stopped writing", extra={"fields": {"detail": str(self._clock_error)}})
        elif self._clock_error is None and before is not None:
            self._stamp = ServiceTime(self._clock, self.ledger.time_us)
            _log.warning("the clock is right again", extra={"fields": {"ahead_s": ahead_s}})
            self._wake.set()

    @property
    def failed(self) -> Exception | None:
        """Why the log is not writable at the moment, if so."""
        return self._failed or self._clock_error

    @failed.setter
    def failed(self, error: Exception | None) -> None:
        self._failed = error

    @property
    def fresh(self) -> bool:
        """Whether recent writes, if any, were committed within the last seconds."""
        waited = self._written_at is not None and asyncio.get_running_loop().time() - self._written_at > _FRESH_S
        return self.failed is None and not (waited and (self._server is not None or self._busy))

    @property
    def _busy(self) -> bool:
        """Whether a commit is pending."""
        return self._probing or self._flying is not None or bool(self._line)

    async def confirm(self, *, anew: bool = False) -> bool:
        """Whether a write was committed within the last seconds; probes with a harmless one if not, or if ``anew``."""
        if self.log.instant or self._task is None or self.failed is not None:
            return self.failed is None
        loop = asyncio.get_running_loop()
        if anew or self._written_at is None or loop.time() - self._written_at > _FRESH_S / 2:
            self._probing, written = True, self._written
            self._wake.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANEW_WAIT_S if anew and self.fresh else _PROBE_WAIT_S):
                    await written.wait()
            if anew and not written.is_set():
                return False
        recently = self._written_at is not None and loop.time() - self._written_at <= _FRESH_S
        return self.failed is None and recently

    def now_us(self) -> int:
        """The current time of the service, never before the last event; see :class:`ServiceTime`."""
        return self._stamp.now_us()

    async def _probe(self) -> None:
        await self._in_thread(self.log.probe)
        self._wrote()

    def _wrote(self) -> None:
        """Note that a write was committed just now."""
        self._written_at, self._probing = asyncio.get_running_loop().time(), False
        self._written.set()
        self._written = asyncio.Event()

    async def _in_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)


def _loaded(log: Log, progress: Progress | None) -> Ledger:
    """Load the ledger of a log; reports the event of its snapshot, and how many events were replayed."""
    begun, used = perf_counter(), thread_time()
    ledger = fold(log, progress=progress)
    took_s, used_s = perf_counter() - begun, thread_time() - used
    fields = {"snapshot": ledger.folded_from, "folded": ledger.seq - ledger.folded_from}
    times = {"seconds": round(took_s, 3), "processor_s": round(used_s, 3)}
    _log.info("loaded the log", extra={"fields": {**fields, **times}})
    return ledger


def _save(log: Log, captured: dict[str, Any]) -> float:
    """Write a snapshot; returns the processor time that it took."""
    begun = thread_time()
    log.save(Snapshot(captured["seq"], encoded(captured)))
    return thread_time() - begun


def _answer(waiting: Iterable[tuple[Wanted, asyncio.Future[Found]]], found: Found | Exception) -> None:
    """Resolve all waiting lookups with the result."""
    for _, each in waiting:
        if each.done():  # it has waited too long
            continue
        if isinstance(found, Exception):
            each.set_exception(found)
        else:
            each.set_result(found)


def _ignore_failure(saving: asyncio.Task[None]) -> None:
    """Ignore a failed snapshot: it is retried later, and the failure was logged with the group."""
    if not saving.cancelled() and saving.exception() is not None:
        _log.warning("snapshot not saved", extra={"fields": {"detail": str(saving.exception())}})
