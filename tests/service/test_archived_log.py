"""A service whose first events are in an archive: keys stay used, pending decisions are answered, the rest is 410."""

import pytest

from bot_orch.cli import main
from bot_orch.clock import ManualClock
from bot_orch.log.archiving import move_events


@pytest.fixture
def old(start, tmp_path):
    """A service that goes on after its log was archived, and decisions: settled, pending, and of now."""
    clock = ManualClock()
    service = start(clock=clock)
    made = [service.post("/v1/decisions", headers={"idempotency-key": f"k{i}"}).json()["id"] for i in range(20)]
    for number, each in enumerate(made[1:]):
        assert service.post("/v1/feedback", {"decision_id": each, "id": f"f{number}", "reward": 1.0}).status == 200
    clock.advance(100.0)
    late = service.post("/v1/decisions").json()["id"]
    state = service.runtime.ledger.fingerprint()
    service.stop()
    moved = move_events(tmp_path / "log.sqlite", tmp_path / "archive", clock.now_us())
    assert moved.record.seq == 40
    again = start(clock=clock)
    assert again.runtime.ledger.fingerprint() == state
    return again, made, late


def test_keys_stay_used(old):
    service, made, _ = old
    before = service.runtime.ledger.seq
    found = service.post("/v1/decisions", headers={"idempotency-key": "k3"})
    assert (found.status, found.json()["error"]["code"]) == (410, "archived")
    report = {"decision_id": made[1], "id": "f0", "reward": 1.0}
    assert service.post("/v1/feedback", report).json() == {
        "id": "f0",
        "decision_id": made[1],
        "effect": "archived",
        "duplicate": True,
    }
    assert service.post("/v1/feedback", report | {"reward": 0.0}).status == 409
    assert service.runtime.ledger.seq == before


def test_a_pending_decision_takes_its_outcome(old):
    service, made, _ = old
    assert service.get(f"/v1/decisions/{made[0]}").status == 410
    assert service.post("/v1/feedback", {"decision_id": made[0], "reward": 1.0}).json()["effect"] == "learned"
    assert service.post("/v1/feedback", {"decision_id": made[0], "reward": 0.5}).json()["effect"] == "revision"


def test_what_is_older_than_the_log_is_gone(old, tmp_path, capsys):
    service, made, late = old
    report = service.post("/v1/feedback", {"decision_id": made[2], "reward": 0.0})
    assert (report.status, report.json()["error"]["param"]) == (410, "decision_id")
    assert service.post("/v1/decisions", {"id": made[2]}).status == 410
    assert service.get(f"/v1/tasks/{made[2]}").status == 410
    assert service.get(f"/v1/decisions/{late}").status == 200
    assert service.post("/v1/feedback", {"decision_id": late, "reward": 0.0}).json()["effect"] == "learned"
    service.stop()
    assert main(["replay", str(tmp_path / "log.sqlite")]) == 0 and "different: 0" in capsys.readouterr().out
