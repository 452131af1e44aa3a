"""Membership among replicas: heartbeats, comparison of states, takeover of the rounds of a dead replica."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from bot_orch.agents.guard import Guard
from bot_orch.errors import BotOrchError
from bot_orch.eventlog.events import Configured, Noted
from bot_orch.eventlog.log import Row
from bot_orch.eventlog.stores.postgres.roster import Peer, ReplicaCondition
from bot_orch.service.logs import LastingProblem
from bot_orch.service.problems import StorageError
from bot_orch.service.storage.circuits import RESET, heed_circuits, open_circuits
from bot_orch.service.storage.following import SlowConnectionError
from bot_orch.service.storage.handover import TOOK, BackgroundRounds, LocalWork
from bot_orch.service.storage.replica import ReplicaWriter
from bot_orch.service.storage.slices import fingerprint

__all__ = ["Member", "ReplicaMismatchError"]

_log = logging.getLogger("bot_orch.replica")
T = TypeVar("T")
Resume = Callable[[Collection[str]], Awaitable[None]]
_MOST_TO_HASH = 20_000
_BEAT_S = 1.0
_LEAVE_S = 1.0
_SLOW_S = 0.5  # a round trip that others should not wait for
_MUCH_QUICKER = 4.0


class ReplicaMismatchError(BotOrchError):
    """Replicas do not hold the same state, or not the same agents."""


class Member:
    """One replica among the others.

    Parameters
    ----------
    local, writer
        What this replica does by itself, and its writer.
    """

    def __init__(self, local: LocalWork, writer: ReplicaWriter) -> None:
        self._local, self._writer, self._roster = local, writer, writer.roster
        self.lease_s = writer.shared.timing.lease_s
        self.beat_s = min(_BEAT_S, self.lease_s / 4, local.horizon_s() / 8)
        self.id, self.peers, self.compared = writer.shared.writer, list[Peer](), 0
        self._in_flight_elsewhere: frozenset[str] = frozenset()
        local.in_flight.register(lambda: self._in_flight_elsewhere)
        self._pool = ThreadPoolExecutor(1, "roster")
        self._task: asyncio.Task[None] | None = None
        self._resume: Resume | None = None
        self._quiet_seq = self._hashed_seq = -1
        self._steady_since = self._beaten_at = 0.0
        writer.followed.subscribe(self._followed)
        self._rounds = BackgroundRounds(local, writer)
        self._problem = LastingProblem(_log, "roster failed")

    def start(self) -> None:
        """Start the heartbeat."""
        self._beaten_at = asyncio.get_running_loop().time()
        self._steady_since = self._beaten_at + 2 * self.beat_s - self.lease_s
        self._task = asyncio.create_task(self._run(), name="replica")
        self._check_agents()

    def take_over(self, resume: Resume) -> None:
        """From now on continue the rounds of dead replicas, with ``resume``."""
        self._resume = resume

    async def leave(self) -> None:
        """Leave the roster; others take over at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        leaving = asyncio.ensure_future(self._ask(self._roster.leave))
        if not (await asyncio.wait({leaving}, timeout=_LEAVE_S))[0]:
            self._roster.abort()  # others take over after the lease
            await leaving
        self._pool.shutdown()

    def gauges(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Values for ``/metrics``."""
        lags = sorted(self._writer.lags_s) or [0.0]
        return {
            "bot_orch_replicas": [({}, float(len(self.peers)))],
            "bot_orch_replica_states_compared": [({}, float(self.compared))],
            "bot_orch_replica_lag_seconds": [
                ({"quantile": str(q)}, lags[min(len(lags) - 1, int(q * len(lags)))]) for q in (0.5, 0.99)
            ],
        }

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                if (
                    loop.time() - self._beaten_at > self.lease_s / 2
                ):  # this process was suspended; perhaps the others were too
                    self._steady_since = loop.time()
                await self.beat()
                self._beaten_at = loop.time()
                if self._resume is not None and loop.time() - self._steady_since >= self.lease_s:
                    await self._inherit()
            except StorageError:
                pass  # the writer has logged it
            except Exception as error:
                # Without heartbeats all replicas look dead: wait until the living ones have sent theirs.
                self._steady_since = loop.time()
                self._problem.tell(error)
            else:
                self._problem.over()
            await asyncio.sleep(self.beat_s)

    async def beat(self) -> None:
        """Send a heartbeat with a hash of the state; receive those of the others."""
        writer = self._writer
        if writer.failed is not None:
            self._steady_since = asyncio.get_running_loop().time()
            return
        seq = writer.committed_seq
        condition = ReplicaCondition(writer.rtt_s, open_circuits(self._local.agents))
        beat = partial(self._roster.beat, seq, self._working(), self.lease_s, condition=condition)
        self.peers = await self._ask(beat)
        others = [peer for peer in self.peers if peer.id != self.id]
        self._in_flight_elsewhere = frozenset(each for peer in others for each in peer.busy)
        heed_circuits(self._local.agents, (peer.condition.circuits for peer in others))
        writer.step_aside(_slower_than(writer.rtt_s, others))
        await self._compare(seq)

    async def _compare(self, seq: int) -> None:
        writer, ledger = self._writer, self._writer.ledger
        hashes = [each for each in writer.hashes if each[0] <= writer.committed_seq]
        quiet = seq == self._quiet_seq == ledger.seq == writer.committed_seq != self._hashed_seq
        if quiet and len(ledger.pending) <= _MOST_TO_HASH:
            self._hashed_seq = seq
            hashes.append(await fingerprint(ledger.capture()))
        self._quiet_seq = seq
        found = await self._ask(partial(self._roster.publish, hashes, self.lease_s))
        while writer.hashes and hashes and writer.hashes[0] in hashes:
            writer.hashes.popleft()
        self.compared = await self._ask(self._roster.agreed)
        if found is not None:
            await self._ask(self._roster.drop_snapshots)
            problem = f"replica {self.id} and replica {found.other} hold different states after event {found.seq}"
            writer.halt(ReplicaMismatchError(f"{problem}; run 'bot-orch replay', then restart both"))

    async def _inherit(self) -> None:
        """Take over rounds without a living owner; the first replica that logs the takeover owns them."""
        writer = self._writer
        waiting = self._rounds.idle(asyncio.get_running_loop().time())
        if not waiting or self._resume is None:
            return
        left = self._left(await self._ask(partial(writer.shared.owners, waiting)))
        if not left:
            return
        owners = (await writer.turn(owned=left)).owners  # again, as no other replica can write in our turn
        taken = self._left(owners)
        for task_id in taken:
            note = Noted(TOOK, task_id, {"by": self.id, "from": owners[task_id]})
            group = writer.stage(writer.stamp(), note, task_id)
        self._rounds.took(taken)
        if taken:
            await group.durable()
            _log.warning("took over", extra={"fields": {"tasks": len(taken)}})
            await self._resume(taken)

    def _left(self, owners: Mapping[str, int]) -> list[str]:
        """Open rounds of dead replicas, and orphaned ones of our own."""
        living, now_s = {peer.id for peer in self.peers}, asyncio.get_running_loop().time()
        tasks, background = self._writer.ledger.tasks, self._local.background
        return sorted(
            task_id
            for task_id, owner in owners.items()
            if task_id in tasks
            and task_id not in background
            and (owner not in living or (owner == self.id and self._rounds.orphaned(task_id, now_s, self.lease_s)))
        )

    def _working(self) -> list[str]:
        """Decisions of ours that have been in flight for long: others must not censor them."""
        limit_us = self._writer.now_us() - round(self._local.horizon_s() * 1e6 / 4)
        pending = self._writer.ledger.pending
        return [each for each in self._local.in_flight if each in pending and pending[each][1] <= limit_us]

    def _followed(self, row: Row) -> None:
        if row.holds(Configured):
            self._check_agents()
        elif row.holds(Noted) and row.ref in self._local.agents:
            event, guard = row.event(), self._local.agents[row.ref]
            if isinstance(event, Noted) and event.topic == RESET and isinstance(guard, Guard):
                guard.reset()  # somebody has reset the agent at another replica

    def _check_agents(self) -> None:
        """Take no turn while there are agents that this replica cannot call; shared versions see to that."""
        if self._local.versioned:
            return
        missing = sorted(set(self._writer.ledger.router.agents) - set(self._local.agents))
        if missing:
            problem = f"another replica has brought agents that this one does not know ({', '.join(missing)})"
            self._writer.hold("agents", ReplicaMismatchError(f"{problem}; restart it with the same configuration"))
        else:
            self._writer.release("agents")

    async def _ask(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)


def _slower_than(rtt_s: float, others: Collection[Peer]) -> SlowConnectionError | None:
    """Why this replica should leave the turns to others: it would hold the lock for long, and another would not."""
    quickest = min((peer.condition.rtt_s for peer in others if peer.condition.rtt_s > 0.0), default=math.inf)
    if rtt_s < _SLOW_S or quickest * _MUCH_QUICKER > rtt_s:
        return None
    slow = f"database: answers this replica after {rtt_s:.1f} seconds and another after {quickest:.3f}"
    return SlowConnectionError(f"{slow}; ask that one, and look at the network between this one and the database")
