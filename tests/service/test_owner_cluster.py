"""A process that has left the others refuses what is asked of it."""

from types import SimpleNamespace

import pytest

from bot_orch.clock import SystemClock
from bot_orch.log.stores.postgres.connect import LogUnavailableError
from bot_orch.log.stores.postgres.leases import LeaseView
from bot_orch.service.cluster.heartbeat import HeartbeatThread


@pytest.mark.parametrize("started", [True, False])
def test_what_is_asked_of_a_process_that_has_left_fails(started):
    table = SimpleNamespace(lease_s=9.0, leave=bool, descriptor=lambda: None, beat=lambda *_, **__: LeaseView(None, {}))
    thread = HeartbeatThread(table, 0.01, lambda _: None, failed=lambda _: None, clock=SystemClock())
    if started:
        thread.start()
    waiting = None if started else thread.claim()
    thread.end()
    if started:
        thread.join()
    for told in filter(None, (waiting, thread.claim())):
        with pytest.raises(LogUnavailableError):
            told.result(5.0)
