"""Moves of routers between owners: one that was decided counts before it is done, and a router keeps its weight."""

import asyncio
from types import SimpleNamespace

import pytest

from bot_orch.clock import SystemClock
from bot_orch.log.stores.postgres.connect import LogUnavailableError
from bot_orch.log.stores.postgres.leases import Claimed, LeaseView, LivingProcess, StreamLease
from bot_orch.service.cluster.forwarding import Directory, Forwarder
from bot_orch.service.cluster.heartbeat import HeartbeatThread
from bot_orch.service.cluster.ownership import LoadMeter, OwnerCluster
from bot_orch.service.config import parse_config

URL = "postgresql://nobody@127.0.0.1:1/none"
CONFIG = f"{{version: 1, database: '{URL}', agents: [{{id: a, kind: simulated}}]}}"
NAMES = {"a": 0, "b": 1, "c": 2, "d": 3}


class FakeRouters:
    """Four routers that take long to leave."""

    def __init__(self):
        self.left = []
        self.routers = {
            name: SimpleNamespace(config=SimpleNamespace(database=f"{URL}?stream={name}"), loaded=False)
            for name in NAMES
        }

    async def give(self, name):
        self.left.append(name)
        await asyncio.Event().wait()


async def placed_twice():
    """The owner of four busy routers sees two others; while it leaves some to them, these look less busy."""
    cluster, routers = OwnerCluster(parse_config(CONFIG), Forwarder(Directory(1), wait_s=1.0)), FakeRouters()
    cluster._routers, cluster._thread, cluster._table.id, cluster._every_s = (
        routers,
        SimpleNamespace(),
        1,
        -1.0,
    )  # at once
    cluster._held = {name: Claimed(number, 1) for name, number in NAMES.items()}
    cluster._served = dict.fromkeys(NAMES, -1000.0)
    processes = {number: LivingProcess(number, "", f"127.0.0.1:{number}") for number in (1, 2, 3)}
    for _ in range(2):
        loads = {name: 0.05 if name in routers.left else 0.1 for name in NAMES}
        cluster._view = LeaseView(
            {name: StreamLease(1, 1, valid=True, load=load, heir=None) for name, load in loads.items()}, processes
        )
        cluster._place()
        await asyncio.sleep(0)
    for each in cluster._busy.values():
        each.cancel()
    return routers.left


def test_an_owner_does_not_leave_everything_at_once():
    left = asyncio.run(placed_twice())
    assert 2 <= len(left) < len(NAMES)


def test_a_router_that_was_just_taken_weighs_what_it_did():
    meter = LoadMeter(tau_s=10.0)
    assert meter.loads({"a": 1000}, {"a": 0.4}) == {"a": 0.4}
    assert 0.3 < meter.loads({"a": 1000}, {})["a"] <= 0.4
    assert meter.loads({"a": 1000, "b": 5}, {"b": 0.2})["b"] == 0.2


@pytest.mark.parametrize("started", [True, False])
def test_what_is_asked_of_a_process_that_has_left_fails(started):
    table = SimpleNamespace(lease_s=9.0, leave=bool, descriptor=lambda: None, beat=lambda *_, **__: LeaseView({}, {}))
    thread = HeartbeatThread(table, 0.01, lambda _: None, failed=lambda _: None, clock=SystemClock())
    if started:
        thread.start()
    waiting = None if started else thread.notify(["x"])
    thread.end()
    if started:
        thread.join()
    for told in filter(None, (waiting, thread.notify(["x"]))):
        with pytest.raises(LogUnavailableError):
            told.result(5.0)
