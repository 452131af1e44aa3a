"""Leases of streams: one owner at a time, epochs that grow, and a fence that holds off the owner before."""

import time

import pytest

from bot_orch.log.log import LogFencedError, Row
from bot_orch.log.stores.postgres.leases import LeaseTable
from bot_orch.log.stores.postgres.log import PostgresLog


def table(database, lease_s=60.0):
    made = LeaseTable(database, lease_s)
    made.join("p", "localhost:1")
    return made


def row(seq):
    return Row(seq, seq, "noted", "", b"x")


@pytest.fixture
def two(database):
    made = table(database), table(database)
    yield made
    for each in made:
        each.leave()


def test_a_stream_has_one_owner(two):
    one, other = two
    claimed = one.claim()
    assert claimed.epoch == 1
    assert other.claim() is None
    view = other.beat("localhost:2", None)
    assert view.lease[:3] == (one.id, 1, True)
    assert {each.address for each in view.processes.values()} == {"localhost:1", "localhost:2"}
    one.release(claimed.epoch, heir=other.id)
    assert other.beat("localhost:2", None).lease == (None, 1, True, other.id)
    assert other.claim().epoch == 2
    assert other.beat("localhost:2", None).lease.heir is None
    one.release(claimed.epoch)  # too late: it owns nothing
    assert other.beat("localhost:2", None).lease.owner == other.id


def test_processes_of_another_stream_are_not_seen(two, database):
    stranger = table(f"{database}&stream=other")
    assert stranger.claim().epoch == 1 and two[0].claim().epoch == 1
    assert set(stranger.beat("localhost:3", None).processes) == {stranger.id}
    assert stranger.id not in two[0].beat("localhost:1", None).processes
    stranger.leave()


def test_a_lease_is_renewed_until_it_is_lost(database):
    one, other = table(database, 0.5), table(database, 0.5)
    claimed = one.claim()
    for _ in range(8):
        time.sleep(0.1)
        one.beat("a", claimed)
        assert other.claim() is None
    time.sleep(0.6)
    view = other.beat("b", None)
    assert (view.lease.owner, view.lease.valid) == (one.id, False)
    assert one.id not in view.processes
    taken = other.claim()
    assert taken.epoch == claimed.epoch + 1
    lost = one.beat("a", claimed)
    assert (lost.lease.owner, lost.lease.epoch) == (other.id, taken.epoch)
    for each in (one, other):
        each.leave()


def test_the_owner_before_cannot_append(two, database):
    """An owner that was silent for too long; the control leaves the fence out."""
    one, other = two
    first = one.claim()
    old = PostgresLog(database, epoch=first.epoch)
    old.append([row(1)])
    old.commit()
    one.release(first.epoch)
    new = PostgresLog(database, epoch=other.claim().epoch)
    new.append([row(2)])
    new.commit()
    old.append([row(2)])
    with pytest.raises(LogFencedError):
        old.commit()
    new.append([row(3)])
    new.commit()
    assert [each.seq for each in new.read()] == [1, 2, 3]
    old.close()
    new.close()


def test_without_a_fence_two_owners_write_one_log(two, database, monkeypatch):
    """Control: the fence lets everybody pass, and the owner before writes into the log of the next one."""
    one, other = two
    first = one.claim()
    old = PostgresLog(database, epoch=first.epoch)
    one.release(first.epoch)
    new = PostgresLog(database, epoch=other.claim().epoch)
    from bot_orch.log.stores.postgres import log as module

    monkeypatch.setitem(module._Q, "fence", "SELECT %s, %s")
    old.append([row(1)])
    old.commit()
    assert [each.seq for each in new.read()] == [1]
    old.close()
    new.close()


def test_processes_wake_each_other(two):
    import select

    one, other = two
    other.beat("b", None)
    one.claim()
    assert select.select([other.descriptor()], [], [], 10)[0]
    other.news()
    assert not select.select([other.descriptor()], [], [], 0)[0]
