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
    claimed = one.claim("support")
    assert claimed.epoch == 1
    assert other.claim("support") is None
    view = other.beat("localhost:2", {})
    assert view.leases["support"][:3] == (one.id, 1, True)
    assert {each.address for each in view.processes.values()} == {"localhost:1", "localhost:2"}
    one.release("support", claimed.epoch, heir=other.id)
    assert other.beat("localhost:2", {}).leases["support"] == (None, 1, True, 0.0, other.id)
    assert other.claim("support").epoch == 2
    assert other.beat("localhost:2", {}).leases["support"].heir is None
    one.release("support", claimed.epoch)  # too late: it owns nothing
    assert other.beat("localhost:2", {}).leases["support"].owner == other.id


def test_a_lease_is_renewed_with_the_load_until_it_is_lost(database):
    one, other = table(database, 0.5), table(database, 0.5)
    claimed = one.claim("")
    for _ in range(8):
        time.sleep(0.1)
        one.beat("a", {claimed.stream: (claimed.epoch, 0.25)})
        assert other.claim("") is None
    assert other.beat("b", {}).leases[""].load == 0.25
    time.sleep(0.6)
    view = other.beat("b", {})
    assert (view.leases[""].owner, view.leases[""].valid) == (one.id, False)
    assert one.id not in view.processes
    taken = other.claim("")
    assert taken.epoch == claimed.epoch + 1
    lost = one.beat("a", {claimed.stream: (claimed.epoch, 0.25)})
    assert (lost.leases[""].owner, lost.leases[""].epoch) == (other.id, taken.epoch)
    for each in (one, other):
        each.leave()


def test_the_owner_before_cannot_append(two, database):
    """An owner that was silent for too long; the control leaves the fence out."""
    one, other = two
    url = f"{database}&stream=support"
    first = one.claim("support")
    old = PostgresLog(url, epoch=first.epoch)
    old.append([row(1)])
    old.commit()
    one.release("support", first.epoch)
    new = PostgresLog(url, epoch=other.claim("support").epoch)
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
    url = f"{database}&stream=support"
    first = one.claim("support")
    old = PostgresLog(url, epoch=first.epoch)
    one.release("support", first.epoch)
    new = PostgresLog(url, epoch=other.claim("support").epoch)
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
    other.beat("b", {})
    one.claim("support")
    assert select.select([other.descriptor()], [], [], 10)[0]
    other.news()
    assert not select.select([other.descriptor()], [], [], 0)[0]
