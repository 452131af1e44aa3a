"""Two services in one database, each in a schema of its own: neither sees the other or waits for it."""

import json
import threading

import pytest
from service_running import PATIENCE_S, Running, until

from bot_orch.log.ids import time_ordered_id
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.connect import connect
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

TEXT = """
version: 1
database: {url}
listen: {{port: 0}}
router: {{policy: bot, success_reward: 1.0}}
agents:
  - {{id: {name}, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}
  - {{id: person, kind: human}}
"""


@pytest.fixture
def services(database):
    """Services with other agents in the schemas ``shop`` and ``desk``, and their URLs."""
    urls = {name: f"{database}&schema={name}" for name in ("shop", "desk")}
    running = {name: Running(parse_config(TEXT.format(url=json.dumps(url), name=name))) for name, url in urls.items()}
    yield running, urls
    for each in running.values():
        each.stop()


def test_services_in_one_database_by_schema_do_not_see_each_other(services):
    (running, urls), own = services, time_ordered_id(1_800_000_000_000_000)
    for name, service in running.items():
        made = service.post("/v1/decisions", {"id": own}, headers={"idempotency-key": "k"})
        assert made.status == 200 and set(made.json()["propensities"]) == {name, "person"}
        assert (
            service.post("/v1/feedback", {"decision_id": own, "id": "fb", "reward": 1.0}).json()["effect"] == "learned"
        )
        task = {"task": {"text": name}, "eligible": ["person"], "background": True}
        assert service.post("/v1/tasks", task).status == 202
    assert running["shop"].post("/v1/decisions", {"eligible": ["person"]}).status == 200
    states = {}
    for name, service in running.items():
        until_one(service, name)
        assert [each["id"] for each in service.get("/v1/agents").json()] == [name, "person"]
        states[name] = service.get("/v1/admin/state").json()
    assert states["shop"]["seq"] == states["desk"]["seq"] + 1
    for name, url in urls.items():
        log = open_log(url)
        found = replay(log)
        log.close()
        assert found.ok and found.decisions == (3 if name == "shop" else 2), found


def until_one(service, text):
    """Wait for the only ticket, and check whose it is."""
    (ticket,) = until(lambda: service.get("/v1/queue").json()["tickets"])
    assert ticket["text"] == text


def test_a_service_does_not_wait_for_the_lock_of_another_schema(services):
    running, urls = services
    answers = {}

    def decide(name):
        answers[name] = running[name].post("/v1/decisions").status

    with connect(urls["shop"]) as held:
        held.execute("SELECT pg_advisory_xact_lock(6451060, stream_key(1))")
        waiting = threading.Thread(daemon=True, target=decide, args=("shop",))
        waiting.start()
        decide("desk")
        waiting.join(0.3)
        assert answers == {"desk": 200} and waiting.is_alive(), "the service of the same schema waits"
        held.rollback()
    held.close()
    waiting.join(PATIENCE_S)
    assert answers == {"desk": 200, "shop": 200}
