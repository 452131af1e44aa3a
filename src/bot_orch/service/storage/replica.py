"""A writer that shares its log with other replicas: they take turns, and each folds what the others have committed.

A turn begins with the log's advisory lock. Rows of other replicas are folded first, so this replica decides on the fold
of the whole log; then all requests that wait for the turn decide and stage, their rows are committed together, and the
commit releases the lock. Decisions are made in memory, every decision can be derived again from the log, and all
replicas see idempotency keys, reports and horizons in one order.

Events that occur outside a turn (a call ended, a horizon passed) are kept for the next one and checked again in it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice

from bot_orch.clock import Clock
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.eventlog.events import Event, encode_event, kind_of
from bot_orch.eventlog.ledger import LedgerMismatchError
from bot_orch.eventlog.log import Log, LogFencedError, Row, Snapshot
from bot_orch.eventlog.lookups import NOTHING, Found, Wanted, together
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.eventlog.stores.postgres.roster import ReplicaRoster
from bot_orch.service.neighbours import process_name
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.clocks import check_clock
from bot_orch.service.storage.deferred import DeferredEvent, only_shown, overtaken
from bot_orch.service.storage.following import FollowingWriter, Waiter
from bot_orch.service.storage.groups import EMPTY, Group, Look
from bot_orch.service.storage.writer import Progress, Writer
from bot_orch.types import Decision

__all__ = ["ReplicaWriter", "make_writer"]

_STALE_S = 2.0
_FENCED_S = 0.5
_YIELD_S = 0.1
_ASIDE_SHARE = 20.0  # round trips between two turns of a replica that has stepped aside
_SERVED_AT_ONCE, _ADMITTED_AT_ONCE = 2000, 64
_LONGEST_TURN_S = 0.25  # others wait as long
_SAVING_S = 30.0  # after which another replica may save a snapshot, as this one is gone


class DistrustedStateError(StorageError):
    """The state may hold an event that was never written."""


def make_writer(log: Log, clock: Clock, *, grouped: bool = True, progress: Progress | None = None) -> Writer:
    """A :class:`ReplicaWriter` for a log that replicas share, a :class:`Writer` for one that this process owns."""
    if not isinstance(log, PostgresLog):
        return Writer(log, clock, grouped=grouped, progress=progress)
    check_clock(log, clock)
    if log.epoch is not None:
        writer = Writer(log, clock, grouped=grouped, progress=progress)
        check_clock(log, clock)  # again: the time of a writer begins when its state is loaded, which may take long
        return writer
    roster = ReplicaRoster(log.url, log.stream)
    try:
        log.writer = roster.join(process_name(), log.last()[0])
        writer = ReplicaWriter(log, clock, roster, grouped=grouped, progress=progress)
        check_clock(log, clock)
        return writer
    except BaseException:
        roster.leave()
        raise


class ReplicaWriter(FollowingWriter):
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
        self.roster = roster
        self._vetoes: list[Callable[[Event], bool]] = []
        self._dropped = False
        self._looked_at = self._turn_ended_at = 0.0
        self._one_by_one = not grouped
        self._in_turn = False

    def drop_if(self, veto: Callable[[Event], bool]) -> None:
        """Register a check of events in a turn: those for which one is true are dropped instead of written."""
        self._vetoes.append(veto)

    async def turn(
        self, *, keys: Iterable[str | None] = (), refs: Iterable[str] = (), owned: Iterable[str] = ()
    ) -> Look:
        """Return when it is this replica's turn, with what the log says of these keys and refs.

        The turn, and what was seen, last until the caller awaits something else.
        """
        wanted = Wanted(tuple(key for key in keys if key is not None), tuple(refs), tuple(owned))
        if wanted == NOTHING and self._in_turn:
            return EMPTY
        async with self._patience():
            while True:
                found = await self._next_turn(wanted)
                if not any(self._refs[ref] > 0 for ref in wanted.refs):
                    return self._seen(wanted, found)
                await self.barrier()

    async def _next_turn(self, wanted: Wanted) -> Found:
        while True:
            self._refuse_if_broken()
            waiter = Waiter(asyncio.get_running_loop().create_future(), wanted)
            self._waiting.append(waiter)
            self._wake.set()
            found = await waiter.turn
            if self._in_turn:
                return found

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
        staged = DeferredEvent(event, ref, key=key, digest=digest)
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

    def _put_snapshot(self, snapshot: Snapshot) -> Group:
        """Write a snapshot at the end of the next turn."""
        self._snapshot = snapshot
        self._wake.set()
        return self._open()

    async def _claim_saving(self) -> int | None:
        return await asyncio.to_thread(self.shared.claim_saving, _SAVING_S)

    async def _end_saving(self) -> None:
        await asyncio.to_thread(self.shared.end_saving)

    def _may_write(self, now_s: float) -> bool:
        if self._clock_error is not None or self._held is not None:
            return False
        return self._aside is None or now_s - self._turn_ended_at > _ASIDE_SHARE * self.rtt_s

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
                except DistrustedStateError as error:
                    await self._recover(Group(), error, trusted=False)
                except Exception as error:  # whatever storage raises: what was staged is refused, or found to be there
                    await self._recover(self._flying or Group(), error)
            else:
                self._refuse_all(self._halted)
            if self._closing and not (self._waiting or self._line):
                return

    async def _step(self) -> None:
        if self._distrusted is not None:
            error, self._distrusted = self._distrusted, None
            raise DistrustedStateError(str(error)) from error
        loop = asyncio.get_running_loop()
        refused = self.problem
        if refused is not None:
            self._refuse_waiting(refused)
        if self._closing and self._held is not None:
            self._refuse_all(self._held)
        if (self._waiting or self._line) and self._may_write(loop.time()):
            # What others have written is folded before we take the lock; so is what was missed while suspended.
            if self._behind or loop.time() - self._looked_at > _STALE_S:
                await self._catch_up()
            if self._held is None:
                await self._take_turn()
        elif not self._closing:
            await self._follow()
            if self._probing:
                await self._probe()
        self._looked_at = loop.time()
        if self._dropped and not (self._line or self._deferred):  # subscribers may hold dropped events in their state
            self._dropped = False
            await self.rebuilt.send()
            self._dropped = bool(self._line or self._deferred)  # they may have missed what was staged meanwhile

    async def _recover(self, group: Group, error: Exception, *, trusted: bool = True) -> None:
        await super()._recover(group, error, trusted=trusted)
        if group.rows and group.error is None:
            self._checkpoint.committed(group.rows)
        elif not group.rows and not self._closing:
            await asyncio.sleep(_YIELD_S)  # one that does not know whether it has written should look first
        self.committed_seq = self.ledger.seq
        if isinstance(self.failed, LogFencedError):  # one process serves this router alone, until its lease ends
            await asyncio.sleep(_FENCED_S)
            self.failed = None
        self.failed = self._halted or self.failed
        self._behind = True
        self._wake.set()

    def _refuse(self, group: Group, error: Exception) -> None:
        self._refuse_all(error)
        if not group.done.is_set():
            self._finish(group, error)

    async def _take_turn(self) -> None:
        most = 1 if self._one_by_one else _SERVED_AT_ONCE
        chosen = [each for each in islice(self._waiting, most) if not each.turn.done()]
        for _ in range(min(most, len(self._waiting))):
            self._waiting.popleft()
        try:
            wanted = self._wanted_by(chosen)
            rows, found = await self._in_thread(partial(self._begin, wanted))
        except BaseException:
            self._waiting.extendleft(reversed(chosen))
            raise
        self._take(rows)
        self.committed_seq = self.ledger.seq
        self._checkpoint.refresh(self.ledger)
        if self._held is not None:  # a row that was just read says so
            await self._in_thread(self.shared.rollback)
            self._waiting.extendleft(reversed(chosen))
            self._wake.set()
            return
        self._in_turn = True
        try:
            self._put_deferred(found, wanted)
            await self._serve(chosen, found)
            if self._snapshot is not None:
                self._open().snapshot, self._snapshot = self._snapshot, None
        finally:
            self._in_turn = False
        if self._distrusted is not None:
            self._wake.set()
            return
        await self._commit()
        self._turn_ended_at = asyncio.get_running_loop().time()
        if self._waiting or self._deferred:
            self._wake.set()

    def _begin(self, wanted: Wanted) -> tuple[list[Row], Found]:
        return self.shared.begin_with(self.ledger.seq, self.ledger.time_us, wanted)

    def _wanted_by(self, chosen: Sequence[Waiter]) -> Wanted:
        keys = tuple(each.key for each in self._deferred if each.key is not None)
        return together((*(each.wanted for each in chosen), Wanted(keys)))

    async def _serve(self, chosen: Sequence[Waiter], found: Found) -> None:
        """Let requests run up to their next await; those that came meanwhile too, if they need no lookup."""
        loop, left = asyncio.get_running_loop(), deque(chosen)
        if not self._one_by_one:
            left.extend(each for each in self._waiting if each.wanted == NOTHING)
            self._waiting = deque(each for each in self._waiting if each.wanted != NOTHING)
        end = loop.time() + _LONGEST_TURN_S
        while True:
            for _ in range(min(_ADMITTED_AT_ONCE, len(left))):
                _admit(left.popleft(), found)
            await asyncio.sleep(0)
            if not left or loop.time() > end:
                break
        self._waiting.extendleft(reversed(left))

    async def _commit(self) -> None:
        group = self._flying = self._line.popleft() if self._line else self._group()
        if group.rows or group.snapshot is not None:
            seq = self.ledger.seq
            await self._in_thread(partial(self._append_and_commit, group.rows, group.snapshot))
            self.committed_seq = seq
            self._checkpoint.committed(group.rows)
        else:
            await self._in_thread(self.shared.rollback)
        if not group.done.is_set():  # else the service was stopped meanwhile
            self._finish(group, None)

    def _put_deferred(self, found: Found, looked_up: Wanted) -> None:
        """Stage the events kept for this turn, except those that other replicas have made obsolete."""
        deferred, self._deferred = self._deferred, []
        for each in deferred:
            if self._vetoed(each.event):
                self._dropped = True
            elif each.key is not None and each.key not in looked_up.keys:
                self._deferred.append(each)  # it came while the turn began
            elif each.key is not None and (each.key in found.keys or self.staged_as(each.key) is not None):
                continue
            elif not overtaken(each.event, self.ledger):
                with suppress(InvalidInputError) if only_shown(each.event) else nullcontext():
                    self._put(self._stamp(), each, None)

    def _vetoed(self, event: Event) -> bool:
        return any(veto(event) for veto in self._vetoes)

    def _put(self, time_us: int, staged: DeferredEvent, made: Decision | None) -> Group:
        ledger, event = self.ledger, staged.event
        body = encode_event(event)  # an event that cannot be encoded must not be folded
        ledger.apply(ledger.seq + 1, time_us, event, made)
        group = self._open()
        group.add(Row(ledger.seq, time_us, kind_of(event), staged.ref, body, staged.key, staged.digest))
        self._refs[staged.ref] += 1
        self.staged.send(time_us, event)
        notes = self.restart_notes(staged.ref)
        self._hash_here()
        for note in notes:
            self._put(self._stamp(), DeferredEvent(note, staged.ref), None)
        return group


def _admit(waiter: Waiter, found: Found) -> None:
    if not waiter.turn.done():
        waiter.turn.set_result(found)
