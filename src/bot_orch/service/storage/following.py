"""A writer that follows a log that others write too: it folds what they commit, whether it may write itself or not.

It may be kept from writing for good (halted), until a reason is gone (held), or because its connection is slow (aside).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from bot_orch.clock import Clock
from bot_orch.errors import BotOrchError
from bot_orch.eventlog.capture import CapturedLedger
from bot_orch.eventlog.ledger import Ledger
from bot_orch.eventlog.log import Row, Snapshot
from bot_orch.eventlog.lookups import Found, Wanted
from bot_orch.eventlog.stores.postgres.follow import Follower
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.checkpoints import RecentCheckpoint
from bot_orch.service.storage.deferred import DeferredEvent
from bot_orch.service.storage.slices import fingerprint
from bot_orch.service.storage.writer import Progress, Writer

__all__ = ["FollowingWriter", "SlowConnectionError", "Waiter"]

_log = logging.getLogger("bot_orch.replica")
_CHECK_EVERY = 1024
_FOLLOWED_AT_ONCE = 1000
_FOLDED_AT_ONCE = 50
_REACH_S, _LOOK_AGAIN_S = 1.0, 0.005


class SlowConnectionError(BotOrchError):
    """The connection to the database is so slow that others would wait for this replica's turns."""


class Waiter(NamedTuple):
    """A request that waits for a turn, and what the turn shall look up for it."""

    turn: asyncio.Future[Found]
    wanted: Wanted


class FollowingWriter(Writer):
    """A writer of a log that has others.

    Parameters
    ----------
    log, clock, progress
        As those of :class:`bot_orch.service.storage.writer.Writer`.
    """

    def __init__(self, log: PostgresLog, clock: Clock, *, progress: Progress | None = None) -> None:
        super().__init__(log, clock, progress=progress)
        self.shared = log
        self.committed_seq = self.ledger.seq
        self.hashes: deque[tuple[int, str]] = deque(maxlen=1000)
        self.lags_s: deque[float] = deque(maxlen=5000)
        self.check_every = _CHECK_EVERY
        self._aside: SlowConnectionError | None = None
        self._behind = True
        self._waiting: deque[Waiter] = deque()
        self._checkpoint = RecentCheckpoint()
        self._deferred: list[DeferredEvent] = []
        self._snapshot: Snapshot | None = None
        self._hashing: set[asyncio.Task[None]] = set()
        self._halted: Exception | None = None
        self._holds: dict[str, Exception] = {}
        self._follower: Follower | None = None

    def start(self) -> None:
        """Start taking turns and following the other replicas."""
        super().start()
        loop = asyncio.get_running_loop()

        def look() -> None:
            self._behind = True
            self._wake.set()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(look)

        self._follower = Follower(self.shared.url, self.shared.channel, wake, writer=self.shared.writer)
        self._follower.start()

    async def close(self) -> None:
        """Commit what is staged, stop following, close the log."""
        try:
            await super().close()
        finally:
            for hashing in self._hashing:
                hashing.cancel()
            if self._follower is not None:
                await asyncio.to_thread(self._follower.stop)

    def halt(self, error: Exception) -> None:
        """Refuse all requests from now on: the state of this replica, or its configuration, cannot be trusted."""
        self._halted = self.failed = error
        self._refuse_all(error)
        _log.critical("stopped serving", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})

    def hold(self, reason: str, error: Exception) -> None:
        """Take no turn until :meth:`release` of the same reason; the log is followed meanwhile."""
        self._holds[reason] = error
        self._refuse_waiting(error)
        self._wake.set()
        _log.error("takes no turn", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})

    def release(self, reason: str) -> None:
        """End a hold, if there is one."""
        if self._holds.pop(reason, None) is not None:
            self._wake.set()
            _log.warning("takes turns again", extra={"fields": {"reason": reason}})

    @property
    def _held(self) -> Exception | None:
        return next(iter(self._holds.values()), None)

    @property
    def problem(self) -> Exception | None:
        """Why no requests are served at the moment."""
        return self.failed or self._held or self._aside

    @property
    def fresh(self) -> bool:
        """Whether a write was committed within the last seconds, and requests are served."""
        return self._aside is None and self._held is None and super().fresh

    async def confirm(self, *, anew: bool = False) -> bool:
        """Whether a write was committed within the last seconds, and requests are served."""
        return await super().confirm(anew=anew) and self._aside is None and self._held is None

    def step_aside(self, reason: SlowConnectionError | None) -> None:
        """Leave the turns to others, because they would wait for this replica's slow connection; ``None`` ends it.

        What has happened here is still written, in few turns.
        """
        if (reason is None) != (self._aside is None):
            fields = {"detail": str(reason or "the connection is quick again")}
            _log.warning("stepped aside" if reason else "takes turns again", extra={"fields": fields})
            self._wake.set()
        self._aside = reason

    def _refuse_if_broken(self) -> None:
        error = self.problem
        if error is not None or self._closing:
            raise StorageError(f"storage: {error or 'the service is stopping'}; try again later")

    def _refuse_all(self, error: Exception) -> None:
        self._deferred.clear()
        self.hashes.clear()
        self._snapshot = None
        for group in (*self._line, self._flying):
            if group is not None and not group.done.is_set():
                self._finish(group, error)
        self._line.clear()
        self._refuse_waiting(error)

    def _refuse_waiting(self, error: Exception) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.turn.done():
                waiter.turn.set_exception(StorageError(f"storage: {error}; try again later"))

    async def reach(self, seq: int) -> None:
        """Return once the ledger holds the event ``seq``, which another replica may have committed; not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_REACH_S):
                while self.ledger.seq < seq:
                    self._behind = True
                    self._wake.set()
                    await asyncio.sleep(_LOOK_AGAIN_S)

    def _reread(self) -> Ledger:
        """The committed state: the recent copy, if the log goes on from it, or else the fold of the log."""
        self.shared.rollback()
        self.shared.probe()
        kept = self._checkpoint.ledger()
        if kept is not None:
            row = self.shared.row(kept.seq)
            if row is not None and row.time_us == kept.time_us:
                return kept
        self._checkpoint.forget()
        return super()._reread()

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
        self._behind = False
        rows = await self._in_thread(partial(self.shared.batch, self.ledger.seq, _FOLLOWED_AT_ONCE))
        for start in range(0, len(rows), _FOLDED_AT_ONCE):
            self._take(rows[start : start + _FOLDED_AT_ONCE])
            self.committed_seq = self.ledger.seq
            await asyncio.sleep(0)
        self._checkpoint.refresh(self.ledger)
        return len(rows)

    def _take(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.ledger.take(row)
            self._hash_here()
            self.followed.send(row)
        self._checkpoint.committed(rows)
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
