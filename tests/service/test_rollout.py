"""Rollout: a new agent's share is capped; drained agents get no new work; shadows are never shown."""

import pytest
from service_running import until

from bot_orch.core.events import DecisionMade, FeedbackGiven
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
  - {{id: old, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}, price: {{per_call_usd: 0.01}}}}
"""
NEW = "  - {{id: new, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}, price: {{per_call_usd: 0.1}}, MORE}}\n"
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


def test_a_shadow_is_asked_and_judged_but_never_shown(start, tmp_path):
    service = start(text("shadow: 1.0"))
    for _ in range(5):
        answer = service.post("/v1/chat/completions", CHAT)
        assert answer.headers["x-bot-orch-agent"] == "old"
        assert answer.json()["model"] == "old"
    until(lambda: _learned(service) == 10)
    assert service.post("/v1/chat/completions", {**CHAT, "model": "new"}).status == 503
    assert agent(service)["shadow_rate"] == 1.0
    spent = service.get("/v1/admin/state").json()["spent_usd"]
    assert spent == pytest.approx(5 * (0.01 + 0.1))  # both count
    assert 'bot_orch_shadow_calls_total{agent="new"} 5' in service.get("/metrics").body.decode()
    service.stop()
    made = decisions(tmp_path / "log.sqlite")
    assert [each.agent for each in made if each.by == "shadow"] == ["new"] * 5
    shadowed = {each.task.id for each in made if each.by == "shadow"}
    assert shadowed == {each.task.id for each in made if each.by != "shadow"}
    assert replay(open_log(str(tmp_path / "log.sqlite"))).ok


def _learned(service):
    rows = list(service.runtime.writer.log.read())
    return sum(isinstance(event := row.event(), FeedbackGiven) and event.effect == "learned" for row in rows)


def test_the_rate_of_a_shadow_is_that_of_its_random_stream(start):
    service = start(text("shadow: 0.25"))
    for _ in range(60):
        service.post("/v1/chat/completions", CHAT)
    until(lambda: not any(name.startswith("shadow") for name in service.runtime.background))
    made = service.runtime.ledger.router.rounds - 60
    assert 6 <= made <= 26


def test_nobody_waits_for_a_slow_shadow(start):
    slow = HEAD + (
        "  - {{id: new, kind: simulated, settings: {{median_s: 30.0, sigma: 0.0}}, shadow: 1.0, "
        "limits: {{concurrency: 1, max_waiting: 0}}}}\n"
    )
    service = start(slow)
    for _ in range(3):
        assert service.post("/v1/chat/completions", CHAT, timeout=5.0).status == 200
    until(lambda: agent(service)["in_flight"] == 1)


def test_a_request_that_names_its_agents_is_not_shown_to_a_shadow(start):
    service = start(text("shadow: 1.0"))
    service.post("/v1/tasks", {"task": {"text": "x"}, "eligible": ["old"]})
    until(lambda: not any(name.startswith("shadow") for name in service.runtime.background))
    assert service.runtime.ledger.router.rounds == 1


@pytest.mark.parametrize("trial", ["canary: 0.5", "shadow: 0.5"])
def test_the_baseline_of_a_guarantee_takes_every_request(trial):
    router = "router: {guarantee: {baseline: a, loss_at_most: 0.02}}"
    agents = f"agents: [{{id: a, kind: simulated, {trial}}}, {{id: b, kind: simulated}}]"
    with pytest.raises(InvalidInputError, match="is set for the baseline of router.guarantee"):
        parse_config(f"version: 1\n{router}\n{agents}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("canary: 0", "config.agents[0].canary: expected `float` > 0.0"),
        ("shadow: 2", "config.agents[0].shadow: expected `float` <= 1.0"),
        ("shadow: 0.5", "config.agents: are all shadows"),
        ("shadow: 0.5, canary: 0.5", "canary: has no effect while shadow is set"),
    ],
)
def test_mistakes_are_named(setting, message):
    with pytest.raises(InvalidInputError) as refused:
        parse_config(f"version: 1\nagents: [{{id: a, kind: simulated, {setting}}}]")
    assert message in str(refused.value)
