"""Several routers on PostgreSQL, each with a stream of its own, at two processes."""

import json

import pytest
from service_running import Running, until

from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import load_config

TEXT = """
version: 1
database: {first}
listen: {{port: 0}}
router: {{policy: bot, success_reward: 1.0}}
agents: [{{id: general, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}]
"""
MORE = """
routers:
  support:
    database: {second}
    router: {{policy: ucb1, success_reward: 1.0, budget: {{window_usd: 0.25}}}}
    agents: [{{id: helper, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}, price: {{per_call_usd: 0.1}}}}]
"""
CHAT = {"model": "auto:support", "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def pair(database, tmp_path):
    """Two processes of one file, which begins with one router; ``pair.write`` changes it."""
    urls = {"first": json.dumps(database), "second": json.dumps(f"{database}&stream=support")}
    path = tmp_path / "c.yaml"
    path.write_text(TEXT.format(**urls))
    running = [Running(load_config(path), read=lambda: load_config(path)) for _ in range(2)]
    yield running, lambda text: path.write_text(text.format(**urls)), [json.loads(url) for url in urls.values()]
    for each in running:
        if each.thread.is_alive():
            each.stop()


def test_routers_are_added_used_and_removed_at_both_processes(pair):
    (one, other), write, urls = pair
    write(TEXT + MORE)
    for each in (one, other):
        assert each.post("/v1/admin/reload").json() == {"changed": ["routers.support"], "after_restart": []}
    made = one.post("/r/support/v1/decisions", headers={"idempotency-key": "k"}).json()
    assert other.post("/r/support/v1/decisions", headers={"idempotency-key": "k"}).json() == made
    assert other.post("/v1/feedback", {"decision_id": made["id"], "reward": 1.0}).json()["effect"] == "learned"
    statuses = [each.post("/v1/chat/completions", CHAT).status for each in (one, other, one, other)]
    assert statuses == [200, 200, 503, 503], "one budget of the router at all processes"
    assert other.post("/v1/decisions").status == 200, "the default router has none"
    for each in (one, other):
        until(lambda each=each: each.get("/v1/routers").json()[1]["decisions"] == 3)
        assert each.get("/r/support/dashboard").status == 200
    write(TEXT)
    for each in (one, other):
        assert each.post("/v1/admin/reload").json()["changed"] == ["routers.support"]
        assert each.post("/r/support/v1/decisions").status == 404
        assert each.post("/v1/decisions").status == 200
    for each in (one, other):
        each.stop()
    for url, decisions in zip(urls, (3, 3), strict=True):
        log = open_log(url)
        found = replay(log)
        log.close()
        assert found.ok and found.decisions == decisions
