"""A writer that shares its log with other replicas: they take turns, and each folds what the others have committed.

A turn begins with the log's advisory lock. Rows of other replicas are folded first, so this replica decides on the fold
of the whole log; then all requests that wait for the turn decide and stage, their rows are committed together, and the
commit releases the lock. Decisions are made in memory, every decision can be derived again from the log, and all
replicas see idempotency keys, reports and horizons in one order.

Events that occur outside a turn (a call ended, a horizon passed) are kept for the next one and checked again in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial

from bot_orch.clock import Clock
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.eventlog.capture import CapturedLedger
from bot_orch.eventlog.events import SETTLING, Censored, Event, FeedbackGiven, TaskEnded, encode_event, kind_of
from bot_orch.eventlog.ledger import LedgerMismatchError
from bot_orch.eventlog.log import Log, Row, Snapshot
from bot_orch.eventlog.stores.postgres.follow import Follower
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.eventlog.stores.postgres.roster import ReplicaRoster
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.slices import fingerprint
from bot_orch.service.storage.writer import Group, Progress, Writer
from bot_orch.types import Decision

__all__ = ["ReplicaWriter", "make_writer"]

_log = logging.getLogger("bot_orch.replica")
_CHECK_EVERY = 1024
_FOLLOWED_AT_ONCE = 200
_STALE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Staged:
    """An event to stage, in this turn or the next, with what its row needs."""

    event: Event
    ref: str
    _: KW_ONLY
    key: str | None = None
    digest: bytes | None = None


def make_writer(log: Log, clock: Clock, *, grouped: bool = True, progress: Progress | None = None) -> Writer:
    """A :class:`ReplicaWriter` for a log on PostgreSQL, a :class:`Writer` for others."""
    if not isinstance(log, PostgresLog):
        return Writer(log, clock, grouped=grouped, progress=progress)
    roster = ReplicaRoster(log.url, log.stream)
    try:
        log.writer = roster.join(f"{socket.gethostname()}:{os.getpid()}", log.last()[0])
        return ReplicaWriter(log, clock, roster, grouped=grouped, progress=progress)
    except BaseException:
        roster.leave()
        raise


class ReplicaWriter(Writer):
    """One of several writers of a log.

    Parameters
    ----------
    log, clock, grouped, progress
        As those of :class:`bot_orch.service.storage.writer.Writer`; without groups a turn serves one request.
    roster
        Membership of the replicas.
    """

    def __init__(
        self,
        log: PostgresLog,
        clock: Clock,
        roster: ReplicaRoster,
        *,
        grouped: bool = True,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(log, clock, progress=progress)
        self.shared, self.roster = log, roster
        self.committed_seq = self.ledger.seq
        self.hashes: deque[tuple[int, str]] = deque(maxlen=1000)
        self.lags_s: deque[float] = deque(maxlen=5000)
        self.check_every = _CHECK_EVERY
        self._vetoes: list[Callable[[Event], bool]] = []
        self._dropped = False
        self._looked_at = 0.0
        self._one_by_one = not grouped
        self._in_turn = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._deferred: list[_Staged] = []
        self._snapshot: Snapshot | None = None
        self._hashing: set[asyncio.Task[None]] = set()
        self._halted: Exception | None = None
        self._follower: Follower | None = None

    def drop_if(self, veto: Callable[[Event], bool]) -> None:
        """Register a check of events in a turn: those for which one is true are dropped instead of written."""
        self._vetoes.append(veto)

    def start(self) -> None:
        """Start taking turns and following the other replicas."""
        super().start()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self._wake.set)

        self._follower = Follower(self.shared.url, self.shared.channel, wake, writer=self.shared.writer)
        self._follower.start()

    async def turn(self) -> None:
        """Return when it is this replica's turn; the turn lasts until the caller awaits something else."""
        while not self._in_turn:
            self._refuse_if_broken()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            self._wake.set()
            await waiter

    @property
    def may_stage(self) -> bool:
        """Whether it is this replica's turn, so that an event staged now is applied to the state seen now."""
        return self._in_turn

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
        """In a turn, fold an event and queue its row for commit; otherwise keep it for the next turn.

        Await ``Group.durable`` in both cases.
        """
        staged = _Staged(event, ref, key=key, digest=digest)
        if self._in_turn:
            if made is None and self._vetoed(event):
                self._dropped = True
                return self._open()
            return self._put(max(time_us, self.ledger.time_us + 1), staged, made)
        if made is not None:
            raise StorageError("storage: a decision was made outside of a turn; try again later")
        encode_event(event)  # an event that cannot be encoded must not be kept
        self._deferred.append(staged)
        self._wake.set()
        return self._open()

    async def settled(self, ref: str) -> list[Row]:
        """Every row about ``ref``, in a turn, once all of them are committed."""
        while True:
            await self.turn()
            if self._refs[ref] <= 0:
                break
            await self.barrier()
        self._refs.pop(ref, None)
        return self.log.about(ref)

    def _put_snapshot(self, snapshot: Snapshot) -> Group:
        """Write a snapshot at the end of the next turn."""
        self._snapshot = snapshot
        self._wake.set()
        return self._open()

    def halt(self, error: Exception) -> None:
        """Refuse all requests from now on: the state of this replica, or its configuration, cannot be trusted."""
        self._halted = self.failed = error
        self._refuse_all(error)
        _log.critical("stopped serving", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})

    async def close(self) -> None:
        """Commit what is staged, stop following, close the log."""
        try:
            await super().close()
        finally:
            for hashing in self._hashing:
                hashing.cancel()
            if self._follower is not None:
                await asyncio.to_thread(self._follower.stop)

    def _refuse_if_broken(self) -> None:
        if self.failed is not None or self._closing:
            raise StorageError(f"storage: {self.failed or 'the service is stopping'}; try again later")

    def _refuse_all(self, error: Exception) -> None:
        self._deferred.clear()
        self.hashes.clear()
        self._snapshot = None
        for group in (*self._line, self._flying):
            if group is not None and not group.done.is_set():
                self._finish(group, error)
        self._line.clear()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(StorageError(f"storage: {error}; try again later"))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._halted is None:
                try:
                    await self._step()
                except (LedgerMismatchError, StateFormatError) as error:
                    await self._in_thread(self.shared.rollback)
                    self.halt(error)
                except Exception as error:  # whatever storage raises: what was staged is refused, never acknowledged
                    await self._recover(Group(), error)
            else:
                self._refuse_all(self._halted)
            if self._closing and not (self._waiting or self._line):
                return

    async def _step(self) -> None:
        if self._distrusted is not None:
            error, self._distrusted = self._distrusted, None
            raise error
        loop = asyncio.get_running_loop()
        if self._waiting or self._line:
            if loop.time() - self._looked_at > _STALE_S:  # this process was suspended: catch up before taking the lock
                await self._catch_up()
            await self._take_turn()
        elif not self._closing:
            await self._follow()
        self._looked_at = loop.time()
        if self._dropped and not (self._line or self._deferred):  # subscribers may hold dropped events in their state
            self._dropped = False
            self.rebuilt.send()

    async def _recover(self, group: Group, error: Exception) -> None:
        self.failed = error
        self._refuse_all(error)
        await super()._recover(group, error)
        self.committed_seq = self.ledger.seq
        self.failed = self._halted or self.failed
        self._wake.set()

    async def _follow(self) -> None:
        """Fold what other replicas have committed, until a request waits for a turn."""
        while await self._take_batch():
            if self._waiting or self._line:
                self._wake.set()
                return

    async def _catch_up(self) -> None:
        """Fold most of what other replicas have committed without holding the lock; the turn folds the rest."""
        while await self._take_batch() == _FOLLOWED_AT_ONCE:
            pass

    async def _take_batch(self) -> int:
        rows = await self._in_thread(partial(self.shared.batch, self.ledger.seq, _FOLLOWED_AT_ONCE))
        self._take(rows)
        self.committed_seq = self.ledger.seq
        return len(rows)

    async def _take_turn(self) -> None:
        ledger = self.ledger
        self._take(await self._in_thread(partial(self.shared.begin, ledger.seq, ledger.time_us)))
        self.committed_seq = self.ledger.seq
        self._in_turn = True
        try:
            self._put_deferred()
            self._admit()
            await asyncio.sleep(0)  # admitted requests run now, up to their next await
            if self._snapshot is not None:
                self._open().snapshot, self._snapshot = self._snapshot, None
        finally:
            self._in_turn = False
        if self._distrusted is not None:
            self._wake.set()
            return
        await self._commit()
        if self._waiting:
            self._wake.set()

    async def _commit(self) -> None:
        group = self._flying = self._line.popleft() if self._line else Group()
        if group.rows or group.snapshot is not None:
            seq = self.ledger.seq
            await self._in_thread(partial(self._append_and_commit, group.rows, group.snapshot))
            self.committed_seq = seq
        else:
            await self._in_thread(self.shared.rollback)
        if not group.done.is_set():  # else the service was stopped meanwhile
            self._finish(group, None)

    def _admit(self) -> None:
        for _ in range(1 if self._one_by_one else len(self._waiting)):
            if self._waiting and not (waiter := self._waiting.popleft()).done():
                waiter.set_result(None)

    def _put_deferred(self) -> None:
        """Stage the events kept for this turn, except those that other replicas have made obsolete."""
        deferred, self._deferred = self._deferred, []
        for each in deferred:
            if self._vetoed(each.event):
                self._dropped = True
            elif not self._overtaken(each):
                with suppress(InvalidInputError) if _only_shown(each.event) else nullcontext():
                    self._put(self._stamp(), each, None)

    def _vetoed(self, event: Event) -> bool:
        return any(veto(event) for veto in self._vetoes)

    def _overtaken(self, deferred: _Staged) -> bool:
        event, pending = deferred.event, self.ledger.pending
        if isinstance(event, Censored):
            return event.decision_id not in pending
        if isinstance(event, FeedbackGiven) and event.effect in SETTLING:
            return event.decision_id not in pending
        if isinstance(event, FeedbackGiven) and event.effect == "replaced":
            return event.decision_id not in self.ledger.silent and event.decision_id not in self.ledger.judged
        if isinstance(event, FeedbackGiven) and event.effect == "audited":
            return event.decision_id not in self.ledger.audits
        if isinstance(event, FeedbackGiven) and _only_shown(event):
            return event.decision_id not in pending or pending[event.decision_id][0] in self.ledger.router.shown
        if isinstance(event, TaskEnded):
            return event.id not in self.ledger.tasks
        return deferred.key is not None and self.find(deferred.key) is not None

    def _put(self, time_us: int, staged: _Staged, made: Decision | None) -> Group:
        ledger, event = self.ledger, staged.event
        body = encode_event(event)  # an event that cannot be encoded must not be folded
        ledger.apply(ledger.seq + 1, time_us, event, made)
        group = self._open()
        group.rows.append(Row(ledger.seq, time_us, kind_of(event), staged.ref, body, staged.key, staged.digest))
        if staged.key is not None:
            group.keys[staged.key] = (ledger.seq, staged.digest or b"")
        self._refs[staged.ref] += 1
        self.staged.send(time_us, event)
        notes = self.restart_notes(staged.ref)
        self._hash_here()
        for note in notes:
            self._put(self._stamp(), _Staged(note, staged.ref), None)
        return group

    def _take(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.ledger.take(row)
            self._hash_here()
            self.followed.send(row)
        now_us = self.now_us()
        self.lags_s.extend((now_us - row.time_us) / 1e6 for row in rows)
        self._stamp.reach(self.ledger.time_us)

    def _hash_here(self) -> None:
        """Hash the state at intervals that grow with the number of pending decisions."""
        ledger = self.ledger
        period = max(self.check_every, 1 << (4 * len(ledger.pending)).bit_length())
        if ledger.seq % period == 0 and ledger.configured:
            hashing = asyncio.create_task(self._hash(ledger.capture(), self._rollbacks))
            self._hashing.add(hashing)
            hashing.add_done_callback(self._hashing.discard)

    async def _hash(self, captured: CapturedLedger, rollbacks: int) -> None:
        found = await fingerprint(captured)
        if rollbacks == self._rollbacks:
            self.hashes.append(found)


def _only_shown(event: Event) -> bool:
    """Whether an event reports an output alone; one that does not fit is left out, its outcome counts without it."""
    return isinstance(event, FeedbackGiven) and event.effect == "shown"
