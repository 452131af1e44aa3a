"""One start with a clock a day ahead: afterwards order stays, and horizons, sessions, budgets and leases go on."""

import pytest
from service_running import BASE
from test_snapshots import crashed

from bot_orch import Router, Task
from bot_orch.clock import ManualClock, ServiceTime
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.service.runtime import sweep

DAY_S = 86_400.0
ROUTED = BASE.replace("horizon_s: 3600", "horizon_s: 3600, sticky_s: 600, budget: {{window_usd: 0.15, window_s: 1800}}")


@pytest.fixture
def wrong_start(start):
    """A service whose log holds a decision of a start that was a day ahead; its clock is right again."""
    clock = ManualClock()
    clock.jump(DAY_S)
    log = MemoryLog()
    ahead = start(ROUTED, log=log, clock=clock)
    made = ahead.post("/v1/decisions", {"session": "s"}).json()
    assert ahead.post("/v1/feedback", {"decision_id": made["id"], "reward": 0.5, "cost_usd": 0.1}).status == 200
    pending = ahead.post("/v1/decisions").json()["id"]
    log = crashed(log)
    ahead.stop()
    clock.jump(-DAY_S)
    return start(ROUTED, log=log, clock=clock), clock, pending


def swept(service):
    return service.call(lambda: sweep(service.runtime))


def excluded(service, body):
    """The agents excluded from a new decision; its outcome gives back the money that it holds."""
    made = service.post("/v1/decisions", body).json()["id"]
    found = service.get(f"/v1/decisions/{made}").json()["excluded"]
    service.post("/v1/feedback", {"decision_id": made, "reward": 1.0})
    return found


def test_the_horizon_goes_on(wrong_start):
    service, clock, pending = wrong_start
    later = service.post("/v1/decisions").json()["id"]
    clock.advance(3500.0)
    assert swept(service) == 0
    clock.advance(150.0)
    assert swept(service) == 2
    (outcome,) = service.get(f"/v1/decisions/{later}").json()["outcomes"]
    assert outcome["effect"] == "censored" and outcome["elapsed_s"] == pytest.approx(3650.0, abs=1.0)
    assert service.get(f"/v1/decisions/{pending}").json()["outcomes"]
    times = [row.time_us for row in service.runtime.writer.log.read()]
    assert times == sorted(set(times))


def test_budget_and_session_go_on(wrong_start):
    service, clock, _ = wrong_start
    body = {"session": "s"}
    assert set(excluded(service, {}).values()) == {"over budget"}
    clock.advance(1900.0)
    assert excluded(service, {}) == {}
    assert set(excluded(service, body).values()) == set(), "it is a new session"
    assert set(excluded(service, body).values()) == {"sticky session"}
    clock.advance(601.0)
    assert excluded(service, body) == {}


def test_a_jump_of_the_clock_censors_nothing(start):
    clock = ManualClock()
    service = start(clock=clock)
    service.post("/v1/decisions")
    clock.jump(DAY_S)
    assert swept(service) == 0
    clock.jump(-2 * DAY_S)
    clock.advance(3601.0)
    assert swept(service) == 1


def test_time_follows_a_drift_and_not_a_jump():
    clock = ManualClock(0)
    stamp = ServiceTime(clock)
    clock.advance(10.0)
    clock.jump(0.25)
    assert stamp.now_us() == 10_250_000
    clock.jump(60.0)
    assert stamp.now_us() == 10_250_000 and stamp.ahead_us == -60_000_000
    stamp.reach(20_000_000)
    clock.advance(1.0)
    assert stamp.now_us() == 21_000_000, "the time of another writer goes on at the same rate"


def test_the_horizon_of_a_router_goes_on(tmp_path):
    clock = ManualClock()
    clock.jump(DAY_S)
    with Router(["a"], path=tmp_path / "log", clock=clock, horizon_s=60.0) as router:
        router.decide(Task())
    clock.jump(-DAY_S)
    with Router(["a"], path=tmp_path / "log", clock=clock, horizon_s=60.0) as router:
        assert router.expire() == ()
        clock.advance(61.0)
        assert len(router.expire()) == 1
