"""Being one of several replicas: say that we live, compare states, take over what a dead replica has left behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bot_orch.errors import BotOrchError
from bot_orch.eventlog.events import Noted
from bot_orch.eventlog.log import Row
from bot_orch.eventlog.stores.postgres.roster import Peer
from bot_orch.service.storage.handover import TOOK, Rounds
from bot_orch.service.storage.replica import ReplicaWriter
from bot_orch.service.storage.writer import StorageError

if TYPE_CHECKING:
    from bot_orch.service.runtime import Runtime

__all__ = ["Member", "ReplicaMismatchError", "SharedBusy", "join"]

_log = logging.getLogger("bot_orch.replica")
T = TypeVar("T")
Resume = Callable[["Runtime", Collection[str]], None]
_MOST_TO_HASH = 20_000
_BEAT_S = 1.0


class ReplicaMismatchError(BotOrchError):
    """Replicas do not hold the same state, or not the same agents."""


class SharedBusy(set[str]):
    """Decisions whose agents still work: our own, and those other replicas told us of."""

    def __init__(self) -> None:
        super().__init__()
        self.others: frozenset[str] = frozenset()

    def __contains__(self, decision_id: object) -> bool:
        return super().__contains__(decision_id) or decision_id in self.others


def join(runtime: Runtime) -> Member | None:
    """Take part, if the service shares its log."""
    if not isinstance(runtime.writer, ReplicaWriter):
        return None
    member = Member(runtime, runtime.writer)
    member.start()
    return member


class Member:
    """One replica among the others.

    Parameters
    ----------
    runtime, writer
        The service and its writer.
    """

    def __init__(self, runtime: Runtime, writer: ReplicaWriter) -> None:
        self._runtime, self._writer, self._roster = runtime, writer, writer.roster
        self.lease_s = writer.shared.timing.lease_s
        self.beat_s = min(_BEAT_S, self.lease_s / 4, runtime.config.router.horizon_s / 8)
        self.id, self.peers, self.compared = writer.shared.writer, list[Peer](), 0
        self._busy = SharedBusy()
        runtime.busy = self._busy
        self._pool = ThreadPoolExecutor(1, "roster")
        self._task: asyncio.Task[None] | None = None
        self._resume: Resume | None = None
        self._quiet_seq = self._hashed_seq = -1
        self._steady_since = self._beaten_at = 0.0
        self._rounds = Rounds(runtime, writer)
        self._rebuild_queue = writer.on_rebuilt
        writer.on_followed, writer.on_rebuilt, writer.lost = self._followed, self._rebuilt, self._rounds.lost

    def start(self) -> None:
        """Begin to say that we live."""
        self._beaten_at = asyncio.get_running_loop().time()
        self._steady_since = self._beaten_at + 2 * self.beat_s - self.lease_s
        self._task = asyncio.create_task(self._run(), name="replica")
        self._check_agents()

    def take_over(self, resume: Resume) -> None:
        """From now on go on with rounds whose replica is gone."""
        self._resume = resume

    async def leave(self) -> None:
        """Sign out; others take over at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._ask(self._roster.leave)
        self._pool.shutdown()

    def gauges(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """What is true at this moment."""
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
                if loop.time() - self._beaten_at > self.lease_s / 2:  # we slept; perhaps the others did too
                    self._steady_since = loop.time()
                await self.beat()
                self._beaten_at = loop.time()
                if self._resume is not None and loop.time() - self._steady_since >= self.lease_s:
                    await self._inherit()
            except StorageError:
                pass  # the writer has said so
            except Exception as error:
                # While nobody could sign in everybody looks dead: wait until the living have done so.
                self._steady_since = loop.time()
                _log.warning("roster failed", extra={"fields": {"error": type(error).__name__, "detail": str(error)}})
            await asyncio.sleep(self.beat_s)

    async def beat(self) -> None:
        """Say that we live, and what state we hold; hear the same of others."""
        writer = self._writer
        if writer.failed is not None:
            self._steady_since = asyncio.get_running_loop().time()
            return
        seq = writer.committed_seq
        self.peers = await self._ask(partial(self._roster.beat, seq, self._working(), self.lease_s))
        self._busy.others = frozenset(each for peer in self.peers if peer.id != self.id for each in peer.busy)
        await self._compare(seq)

    async def _compare(self, seq: int) -> None:
        writer, ledger = self._writer, self._writer.ledger
        hashes = [each for each in writer.hashes if each[0] <= writer.committed_seq]
        quiet = seq == self._quiet_seq == ledger.seq == writer.committed_seq != self._hashed_seq
        if quiet and len(ledger.pending) <= _MOST_TO_HASH:
            self._hashed_seq = seq
            hashes.append((seq, ledger.fingerprint()))
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
        """Go on with rounds that nobody works on; whoever writes that down first has them."""
        runtime, writer = self._runtime, self._writer
        waiting = self._rounds.idle(asyncio.get_running_loop().time())
        if not waiting or self._resume is None:
            return
        left = self._left(await self._ask(partial(writer.shared.owners, waiting)))
        if not left:
            return
        await writer.turn()
        owners = writer.shared.owners(left)  # again, as nobody can write now
        taken = self._left(owners)
        for task_id in taken:
            note = Noted(TOOK, task_id, {"by": self.id, "from": owners[task_id]})
            group = writer.stage(writer.stamp(), note, task_id)
        self._rounds.took(taken)
        if taken:
            await group.durable()
            _log.warning("took over", extra={"fields": {"tasks": len(taken)}})
            self._resume(runtime, taken)

    def _left(self, owners: dict[str, int]) -> list[str]:
        """Open rounds of the dead, and those of our own that were forgotten."""
        living, now_s = {peer.id for peer in self.peers}, asyncio.get_running_loop().time()
        tasks, background = self._runtime.ledger.tasks, self._runtime.background
        return sorted(
            task_id
            for task_id, owner in owners.items()
            if task_id in tasks
            and task_id not in background
            and (owner not in living or (owner == self.id and self._rounds.forgotten(task_id, now_s, self.lease_s)))
        )

    def _working(self) -> list[str]:
        """Decisions of ours whose agents have worked for long: others must not take that for silence."""
        limit_us = self._writer.now_us() - round(self._runtime.config.router.horizon_s * 1e6 / 4)
        pending = self._runtime.ledger.pending
        return [each for each in self._busy if each in pending and pending[each][1] <= limit_us]

    def _followed(self, row: Row) -> None:
        if row.kind.startswith("configured"):
            self._check_agents()
        self._rounds.followed(row)
        follow = getattr(self._runtime.queue, "follow", None)
        if follow is not None:
            follow(row)

    def _rebuilt(self) -> None:
        self._rounds.rebuilt()
        self._rebuild_queue()

    def _check_agents(self) -> None:
        missing = sorted(set(self._runtime.ledger.router.agents) - set(self._runtime.guards))
        if missing:
            problem = f"another replica has brought agents that this one does not know ({', '.join(missing)})"
            self._writer.halt(ReplicaMismatchError(f"{problem}; restart it with the same configuration"))

    async def _ask(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, job)
