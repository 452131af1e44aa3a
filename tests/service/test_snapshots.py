"""Snapshots bound what a start has to fold, also if no life of the service is long."""

import asyncio
import copy
import time

import pytest
from service_running import BASE, PATIENCE_S
from test_storage import FailingLog, wait_ready

from bot_orch.eventlog.events import FeedbackGiven, TaskRecord
from bot_orch.eventlog.ledger import Ledger, fold
from bot_orch.eventlog.log import Snapshot
from bot_orch.eventlog.stores.memory import MemoryLog
from bot_orch.service.problems import StorageError
from bot_orch.service.routing.decision import decide
from bot_orch.service.routing.rules import RoutingConstraints
from bot_orch.service.storage.slices import fingerprint

EVERY, PER_LIFE, LIVES = 10, 4, 8


class Folds(MemoryLog):
    """Remembers how many rows it was asked for at once."""

    def __init__(self):
        super().__init__()
        self.folded = 0

    def read(self, after=0):
        self.folded = max(self.folded, self.last()[0] - after)
        return super().read(after)


def crashed(log):
    """What is left if the service ends here: nothing that it would write when it is stopped."""
    left = Folds()
    left.append(list(log.read()), copy.copy(log.snapshot()))
    left.commit()
    left.folded = 0
    return left


def test_a_crash_loop_does_not_starve_snapshots(start):
    log, folded = Folds(), []
    for _ in range(LIVES):
        service = start(BASE + f"limits: {{{{snapshot_every: {EVERY}}}}}\n", log=log)
        folded.append(log.folded)
        for _ in range(PER_LIFE):
            assert service.post("/v1/decisions").status == 200
        log = crashed(log)
        service.stop()
    assert log.last()[0] > 2 * EVERY, "else nothing had to be saved"
    assert max(folded) < EVERY + PER_LIFE + 1, folded
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()


def test_a_long_tail_is_saved_at_the_start_and_a_short_one_is_not(start):
    first = start(BASE + "limits: {{snapshot_every: 1000}}\n", log=(log := Folds()))
    for _ in range(PER_LIFE):
        first.post("/v1/decisions")
    last, short, long = log.last()[0], crashed(log), crashed(log)
    start(BASE + f"limits: {{{{snapshot_every: {last + 1}}}}}\n", log=short)
    assert short.snapshot() is None
    start(BASE + f"limits: {{{{snapshot_every: {last}}}}}\n", log=long)
    assert long.snapshot().seq == last


def test_a_snapshot_that_cannot_be_written_does_not_keep_the_service_from_starting(start):
    class NoSnapshots(Folds):
        tried = 0

        def append(self, rows, snapshot=None):
            if snapshot is not None:
                self.tried += 1
                raise OSError("no space for a snapshot")
            super().append(rows)

    log = NoSnapshots()
    first = start(BASE + "limits: {{snapshot_every: 1000}}\n", log=log)
    for _ in range(PER_LIFE):
        first.post("/v1/decisions")
    left = NoSnapshots()
    left.append(list(log.read()))
    left.commit()
    service = start(BASE + "limits: {{snapshot_every: 3}}\n", log=left)
    assert left.tried == 1 and service.post("/v1/decisions").status == 200


def filled(service, n):
    """A service with ``n`` pending decisions."""

    async def fill():
        for number in range(n):
            decide(service.runtime, TaskRecord(f"t-{number}"), RoutingConstraints())
        await service.runtime.writer.barrier()

    asyncio.run_coroutine_threadsafe(fill(), service.loop).result(PATIENCE_S)


def longest_pause_s(service, work):
    """How long the event loop was busy at a stretch, in processor time, until ``work`` was done."""

    async def watch():
        task, longest = asyncio.ensure_future(work()), 0.0
        while not task.done():
            begun = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begun)
        await task
        return longest

    return asyncio.run_coroutine_threadsafe(watch(), service.loop).result(PATIENCE_S)


@pytest.mark.parametrize("what", ["snapshot", "state"])
def test_many_pending_decisions_do_not_stall_requests(start, what):
    service = start(log=(log := MemoryLog()))
    filled(service, 6000)
    begun = time.process_time()
    before = service.runtime.ledger.to_bytes()
    at_once_s = time.process_time() - begun

    async def save():
        await service.runtime.writer.save()

    async def look():
        await fingerprint(service.runtime.ledger.capture())

    assert longest_pause_s(service, save if what == "snapshot" else look) < at_once_s / 4
    if what == "snapshot":
        assert Ledger.from_bytes(log.snapshot().body).to_bytes() == before
        assert len(log.snapshot().body) < len(before) / 2


def test_a_snapshot_is_of_one_moment_though_requests_go_on(start):
    service = start(log=(log := MemoryLog()))
    filled(service, 500)

    async def save():
        saving = service.runtime.writer.save()
        await asyncio.sleep(0)  # captured
        seq = service.runtime.ledger.seq
        while not saving.done():
            decide(service.runtime, TaskRecord("meanwhile"), RoutingConstraints())
            oldest = next(iter(service.runtime.ledger.pending))
            told = FeedbackGiven(oldest, oldest, "learned", reward=0.5)
            service.runtime.writer.stage(service.runtime.writer.stamp(), told, oldest)
            await asyncio.sleep(0)
        await service.runtime.writer.barrier()
        return seq

    seq = asyncio.run_coroutine_threadsafe(save(), service.loop).result(PATIENCE_S)
    assert log.snapshot().seq == seq < log.last()[0] - 4
    assert Ledger.from_bytes(log.snapshot().body).fingerprint() == fold(log, upto=seq, use_snapshot=False).fingerprint()
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()


def test_a_snapshot_of_events_that_were_never_committed_is_dropped(start):
    log = FailingLog()
    service = start(log=log)
    filled(service, 300)

    async def fail():
        log.broken = "commit"
        lost, _ = decide(service.runtime, TaskRecord("lost"), RoutingConstraints())
        saving = service.runtime.writer.save()
        await asyncio.wait({saving})
        return lost.id, saving.exception()

    lost, error = asyncio.run_coroutine_threadsafe(fail(), service.loop).result(PATIENCE_S)
    assert isinstance(error, StorageError)
    log.broken = None
    wait_ready(service)
    assert service.post("/v1/decisions").status == 200
    service.stop()
    assert lost not in Ledger.from_bytes(log.snapshot().body).pending
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()


def test_a_snapshot_of_an_earlier_release_is_read(start):
    service = start(log=(log := MemoryLog()))
    filled(service, 20)
    plain = service.runtime.ledger.to_bytes()  # what release 0.1 wrote
    service.call(lambda: (log.append([], Snapshot(service.runtime.ledger.seq, plain)), log.commit()))
    assert fold(log).folded_from == log.last()[0]
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()
