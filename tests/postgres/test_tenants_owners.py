"""Tenants of processes that own routers: apart and with one quota, whichever process is asked, also after a move."""

import json
import time

import pytest
from service_running import Running, until
from test_owners import owned

from bot_orch.cli import main
from bot_orch.service.config import parse_config

MOST = 30
SECRETS = {"ACME": "a" * 20, "BETA": "b" * 20, "OPS": "o" * 20}
ACME, BETA, OPS = ({"Authorization": f"Bearer {secret}"} for secret in SECRETS.values())
AGENT = "{id: one, kind: simulated, settings: {median_s: 0.0, sigma: 0.0}}"
TEXT = f"""
version: 1
database: URL
listen: {{port: 0}}
log_level: error
limits: {{grace_s: 1}}
router: {{policy: bot}}
agents: [{AGENT}]
routers:
  support: {{router: {{policy: bot}}, agents: [{AGENT}]}}
tenants:
  acme: {{limits: {{requests_per_minute: {MOST}}}}}
  beta: {{}}
tokens:
  - {{name: app, scopes: [decide, feedback], env: ACME, tenant: acme}}
  - {{name: app, scopes: [decide, feedback], env: BETA, tenant: beta}}
  - {{name: ops, scopes: [admin], env: OPS}}
"""


@pytest.fixture
def processes(database):
    config = parse_config(TEXT.replace("URL", json.dumps(f"{database}&lease_s=2")), SECRETS)
    running = [Running(config, environment=SECRETS) for _ in range(2)]
    until(lambda: [len(owned(each)) for each in running] == [1, 1])
    yield running
    for each in running:
        if each.thread.is_alive():
            each.stop()


def used_up(service, router, headers=ACME):
    for taken in range(1000):
        status = until(lambda: _moved(service.post(f"/r/{router}/v1/decisions", {}, headers=headers)))
        if status == 429:
            return taken
        assert status == 200
        time.sleep(0.01)
    raise AssertionError("nothing was refused")


def _moved(answer):
    return None if answer.status == 503 else answer.status


def test_a_quota_is_that_of_all_processes(processes):
    one, other = processes
    (mine,), (theirs,) = owned(one), owned(other)
    assert used_up(one, mine) == MOST
    assert used_up(one, theirs) < MOST // 2, "through a process that does not own the router"
    assert used_up(other, theirs) < 3
    assert one.post("/v1/decisions", {}, headers=BETA).status == 200
    one.stop()
    until(lambda: len(owned(other)) == 2)
    assert used_up(other, mine) < 3, "what was used there counts after the move"


def test_a_tenant_is_apart_through_every_process(processes, database, capsys):
    one, other = processes
    for asked, through in ((one, other), (other, one)):
        for router in ("default", "support"):
            made = asked.post(f"/r/{router}/v1/decisions", {}, headers=ACME).json()
            path = f"/v1/decisions/{made['id']}"
            for each in (path, f"/r/{router}{path}"):
                assert through.get(each, headers=ACME).status == 200
                assert through.get(each, headers=BETA).status == 404
            report = {"decision_id": made["id"], "id": f"fb-{made['id']}", "reward": 0.0}
            early = through.post(f"/r/{router}/v1/feedback", report, headers=BETA).json()
            assert early["effect"] == "early"
            assert through.post("/v1/feedback", report, headers=ACME).json()["effect"] == "learned"
            assert through.get("/metrics", headers=ACME).status == 403
            spent = through.get(f"/r/{router}/v1/spend?by=tenant", headers=OPS).json()
            assert {line["key"]: line["requests"] for line in spent["lines"]}["acme"] == 1 + (asked is other)
    assert main(["spend", f"{database}&stream=support", "--by", "tenant"]) == 0
    assert "acme" in capsys.readouterr().out
