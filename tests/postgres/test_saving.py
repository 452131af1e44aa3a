"""Of several replicas one saves a snapshot; the others see that it is done, and encode nothing."""

import asyncio

from test_replicas import log, replicas, same_state  # noqa: F401

from bot_orch.eventlog.ledger import Ledger, fold


def save(service):
    """Save as a replica does when it is time; whether it has encoded its state, and what it knows to be saved."""

    async def now():
        service.runtime.ledger.increments.cost_s = 0.0
        await service.runtime.writer.save()
        return service.runtime.ledger.increments.cost_s > 0.0, service.runtime.writer.saved_seq

    return asyncio.run_coroutine_threadsafe(now(), service.loop).result(30)


def test_one_replica_saves_and_the_others_see_it(replicas, log):  # noqa: F811
    first, second = replicas(), replicas()
    for _ in range(8):
        first.post("/v1/decisions")
    seq = same_state(first, second)["seq"]
    assert save(first) == (True, seq) and log.snapshot().seq == seq
    assert save(second) == (False, seq)
    second.post("/v1/decisions")
    assert save(second) == (True, seq + 1)
    loaded = Ledger.load(log.snapshot(), log)
    assert loaded.fingerprint() == fold(log, use_snapshot=False).fingerprint()


def test_nobody_saves_while_another_does_unless_that_one_is_gone(replicas, log):  # noqa: F811
    service = replicas()
    service.post("/v1/decisions")
    assert log.claim_saving(30.0) == 0 and log.claim_saving(30.0) is None
    assert save(service)[0] is False and log.snapshot() is None
    assert log.claim_saving(0.0) == 0, "the one before is gone"
    log.end_saving()
    service.post("/v1/decisions")
    encoded, seq = save(service)
    assert encoded and log.claim_saving(30.0) == seq == log.snapshot().seq
