"""Snapshots bound what a start has to fold, also if no life of the service is long."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from service_running import BASE, PATIENCE_S, service_limits
from test_storage import FailingLog, wait_ready

from bot_orch.core.events import FeedbackGiven, TaskRecord
from bot_orch.log.ledger import Ledger, encoded, fingerprint, fold, snapshot_due
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.service.problems import StorageError
from bot_orch.service.routing.decision import decide
from bot_orch.service.routing.rules import RoutingConstraints

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
    left.append(list(log.read()))
    left.commit()
    if log.snapshot() is not None:
        left.save(log.snapshot())
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

        def save(self, snapshot):
            self.tried += 1
            raise OSError("no space for a snapshot")

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
    ledger = service.runtime.ledger
    begun = time.process_time()
    before = encoded(ledger.capture())
    at_once_s = time.process_time() - begun

    async def save():
        await service.runtime.writer.save()

    async def look():
        await asyncio.to_thread(fingerprint, ledger.capture())

    pauses = (longest_pause_s(service, save if what == "snapshot" else look) for _ in range(5))
    assert any(pause_s < at_once_s / 4 for pause_s in pauses), "every pause is long"
    if what == "snapshot":
        assert Ledger.load(log.snapshot()).snapshot().body == before == log.snapshot().body


def test_a_snapshot_is_of_one_moment_though_requests_go_on(start):
    service = start(log=(log := MemoryLog()))
    filled(service, 3000)

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
    assert Ledger.load(log.snapshot()).fingerprint() == fold(log, upto=seq, use_snapshot=False).fingerprint()
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
    assert lost not in Ledger.load(log.snapshot()).pending
    assert fold(log).fingerprint() == fold(log, use_snapshot=False).fingerprint()


def ledger_after(events, seconds, *, folded_from=0, cost_s=0.0):
    """What the rule sees of a state whose ``events`` have taken ``seconds``."""
    seq = folded_from + events
    return SimpleNamespace(configured=True, seq=seq, folded_from=folded_from, spent_s=seconds, cost_s=cost_s)


@pytest.mark.parametrize(
    ("ledger", "saved_seq", "due"),
    [
        (ledger_after(100, 0.5), 0, False),
        (ledger_after(100, 1.0), 0, True),
        (ledger_after(100, 1.0), 1, False),  # 99 of the 100 events
        (ledger_after(1000, 1.0), 0, True),  # as many as allowed
        (ledger_after(999, 0.01), 0, False),
        (ledger_after(100, 1.0, cost_s=0.04), 0, True),
        (ledger_after(100, 1.0, cost_s=0.06), 0, False),  # would take more than 5 % of what events take
        (ledger_after(100, 1.3, cost_s=0.06), 0, True),
        (ledger_after(200, 2.0, folded_from=500), 500, True),
        (ledger_after(200, 2.0, folded_from=500), 650, False),
        (ledger_after(0, 0.0, folded_from=500), 500, False),
        (ledger_after(10, 9.0), 12, False),  # rolled back since
    ],
)
def test_a_snapshot_is_due_before_the_tail_is_long_if_it_is_cheap(ledger, saved_seq, due):
    assert snapshot_due(ledger, saved_seq, every=1000, tail_s=1.0, cost_s=ledger.cost_s) is due


def test_slow_events_are_saved_early(start, monkeypatch):
    service_limits(monkeypatch, snapshot_tail_s=0.001)
    service = start(BASE, log=(log := Folds()))
    for _ in range(20):
        service.post("/v1/decisions")

    async def save():
        service.runtime.ledger.spent_s = 1.0
        saving = service.runtime.save_if_due()
        await saving
        writer = service.runtime.writer
        return service.runtime.save_if_due(), writer._snapshot_cost_s, writer.saved_seq

    again, cost_s, saved_seq = asyncio.run_coroutine_threadsafe(save(), service.loop).result(PATIENCE_S)
    assert again is None and cost_s > 0.0 and saved_seq == log.snapshot().seq == log.last()[0]
