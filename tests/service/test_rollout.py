"""Rollout: a new agent's share is capped; drained agents get no new work."""

import pytest
from service_running import until

from bot_orch.core.events import DecisionMade
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

HEAD = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{policy: bot, floor: 0.05, seed: 5, success_reward: 1.0}}
agents:
  - {{id: old, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}, price: {{per_call_usd: 0.01}}}}
"""
NEW = "  - {{id: new, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}, price: {{per_call_usd: 0.1}}, MORE}}\n"
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


def text(more):
    return HEAD + NEW.replace("MORE", more)


def agent(service, name="new"):
    return next(each for each in service.get("/v1/agents").json() if each["id"] == name)


def decide(service, reward=None):
    """One decision; with ``reward`` that of the new agent is reported."""
    made = service.post("/v1/decisions", {"task": {}}).json()
    if reward is not None:
        good = reward if made["agent"] == "new" else 1.0 - reward
        service.post("/v1/feedback", {"decision_id": made["id"], "reward": good})
    return made


def decisions(path):
    return [event for row in open_log(str(path)).read() if isinstance(event := row.event(), DecisionMade)]


def test_a_canary_is_held_at_its_share_until_it_is_raised(start, tmp_path):
    service = start(text("canary: 0.1"))
    first = [decide(service, reward=1.0)["propensities"]["new"] for _ in range(30)]
    assert max(first) == 0.1
    service.stop()
    service = start(text("canary: 0.3"))
    assert agent(service)["canary_share"] == 0.3
    assert "canary, 30 % at most" in service.get("/").body.decode()
    then = [decide(service, reward=1.0)["propensities"]["new"] for _ in range(30)]
    assert max(then) == 0.3
    service.stop()
    service = start(text("cost: 0.0"))
    assert agent(service)["canary_share"] is None
    assert decide(service)["propensities"]["new"] > 0.3
    service.stop()
    found = replay(open_log(str(tmp_path / "log.sqlite")))
    assert found.ok
    assert found.derived == found.decisions == 61


def test_a_request_that_names_a_canary_gets_it(start):
    service = start(text("canary: 0.01"))
    for _ in range(5):
        assert service.post("/v1/chat/completions", {**CHAT, "model": "new"}).headers["x-bot-orch-agent"] == "new"


def test_a_drained_agent_gets_no_new_work_until_it_is_resumed(start):
    service = start(text("cost: 0.0"))
    assert service.post("/v1/admin/agents/nobody/drain").status == 404
    pending = next(made for _ in range(200) if (made := decide(service))["agent"] == "new")
    answer = service.post("/v1/admin/agents/new/drain")
    assert answer.json() == {"agent": "new", "draining": True, "in_flight": 0}
    assert agent(service)["draining"] is True
    assert "draining" in service.get("/").body.decode()
    assert {decide(service)["agent"] for _ in range(40)} == {"old"}
    refused = service.post("/v1/chat/completions", {**CHAT, "model": "new"})
    assert refused.status == 503
    assert refused.json()["error"]["details"]["excluded"]["new"] == "draining"
    assert service.post("/v1/feedback", {"decision_id": pending["id"], "reward": 1.0}).json()["effect"] == "learned"
    service.stop()
    service = start(text("cost: 0.0"))
    assert agent(service)["draining"] is True
    assert decide(service)["propensities"]["new"] == 0.0
    service.post("/v1/admin/agents/new/resume")
    assert agent(service)["draining"] is False
    assert decide(service)["propensities"]["new"] > 0.0


def test_a_drained_agent_is_drained_after_a_snapshot(start):
    service = start(text("cost: 0.0") + "limits: {{snapshot_every: 1}}\n")
    service.post("/v1/admin/agents/new/drain")
    decide(service)
    seq = service.runtime.ledger.seq
    until(lambda: (saved := service.runtime.writer.log.snapshot()) is not None and saved.seq >= seq)
    service.stop()
    service = start(text("cost: 0.0"))
    assert service.runtime.ledger.folded_from >= seq
    assert agent(service)["draining"] is True


def test_the_baseline_of_a_guarantee_takes_every_request():
    router = "router: {guarantee: {baseline: a, loss_at_most: 0.02}}"
    agents = "agents: [{id: a, kind: simulated, canary: 0.5}, {id: b, kind: simulated}]"
    with pytest.raises(InvalidInputError, match="is set for the baseline of router.guarantee"):
        parse_config(f"version: 1\n{router}\n{agents}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("canary: 0", "config.agents[0].canary: expected `float` > 0.0"),
        ("shadow: 0.5", "router.observe compares answers"),
    ],
)
def test_mistakes_are_named(setting, message):
    with pytest.raises(InvalidInputError) as refused:
        parse_config(f"version: 1\nagents: [{{id: a, kind: simulated, {setting}}}]")
    assert message in str(refused.value)
