"""Tenants at two replicas: what is one tenant's at one replica is so at the other, and its quota counts at both."""

import json

import pytest
from service_running import Running, until

from bot_orch.service.config import parse_config

SECRETS = {"ACME": "a" * 20, "BETA": "b" * 20}
TEXT = """
version: 1
database: {url}
listen: {{port: 0}}
agents: [{{id: one, kind: simulated}}, {{id: two, kind: simulated}}]
tenants: {{acme: {{limits: {{requests_per_minute: 3}}}}, beta: {{}}}}
tokens:
  - {{name: app, scopes: [decide, feedback], env: ACME, tenant: acme}}
  - {{name: app, scopes: [decide, feedback], env: BETA, tenant: beta}}
"""


@pytest.fixture
def replicas(database):
    config = parse_config(TEXT.format(url=json.dumps(database)), SECRETS)
    running = [Running(config, environment=SECRETS) for _ in range(2)]
    yield running
    for each in running:
        each.stop()


def test_tenants_are_apart_at_every_replica(replicas):
    one, other = replicas
    acme, beta = ({"Authorization": f"Bearer {SECRETS[name]}", "Idempotency-Key": "k"} for name in ("ACME", "BETA"))
    made = one.post("/v1/decisions", headers=acme).json()
    assert other.post("/v1/decisions", headers=acme).json() == made, "the key of the same tenant"
    theirs = other.post("/v1/decisions", headers=beta).json()
    assert theirs["id"] != made["id"]
    path = f"/v1/decisions/{made['id']}"
    assert until(lambda: other.get(path, headers=acme).status == 200)
    assert [each.get(path, headers=beta).status for each in replicas] == [404, 404]
    report = {"decision_id": made["id"], "id": "fb", "reward": 0.0}
    assert other.post("/v1/feedback", report, headers=beta).json()["effect"] == "early"
    assert one.post("/v1/feedback", report, headers=acme).json()["effect"] == "learned"
    assert one.get(path, headers=acme).json()["outcomes"][0]["id"] == "fb"
    more = {"Authorization": acme["Authorization"]}
    until(lambda: one.runtime.ledger.seq == other.runtime.ledger.seq)
    assert one.post("/v1/decisions", headers=more).status == 200
    until(lambda: one.runtime.ledger.seq == other.runtime.ledger.seq)
    statuses = [other.post("/v1/decisions", headers=more).status for _ in range(3)]
    assert (
        429 in statuses and other.post("/v1/decisions", headers={"Authorization": beta["Authorization"]}).status == 200
    )
