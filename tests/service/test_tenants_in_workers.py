"""Tenants of a service with two workers: apart as in one process, and with one quota, whichever worker is asked."""

import os
import signal
import time

import pytest
from service_running import until
from test_workers import ALL, HELP, REPORT, Service

from bot_orch.cli import main

MOST = 30
AGENT = "{id: one, kind: simulated, settings: {median_s: 0.0, sigma: 0.0}, price: {per_call_usd: 0.01}}"
TEXT = f"""
version: 1
database: log.sqlite
listen: {{port: 0}}
log_level: error
router: {{policy: bot}}
agents: [{AGENT}]
routers:
  support: {{router: {{policy: bot}}, agents: [{AGENT}]}}
tenants:
  acme: {{limits: {{requests_per_minute: {MOST}}}}}
  beta: {{limits: {{usd: 0.1}}}}
tokens:
  - {{name: app, scopes: [decide, feedback], env: ALL, tenant: acme}}
  - {{name: app, scopes: [decide, feedback], env: HELP, tenant: beta}}
  - {{name: ops, scopes: [admin], env: REPORT}}
"""
ACME, BETA, OPS = ALL, HELP, REPORT
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path, TEXT)
    try:
        yield made.wait()
    finally:
        made.stop()


def used_up(service, router, headers, path="v1/decisions", body=None):
    """Requests that were taken until one was refused."""
    for taken in range(1000):
        status, told, _ = service("POST", f"/r/{router}/{path}", body or {}, headers=headers)
        if status == 429:
            return taken, told["error"]
        assert status == 200, told
        time.sleep(0.01)
    raise AssertionError("nothing was refused")


def test_a_quota_is_that_of_all_workers(service):
    assert used_up(service, "support", ACME)[0] == MOST
    more, error = used_up(service, "default", ACME)
    assert more == 0 and "30 requests per minute" in error["message"]
    assert service("POST", "/r/default/v1/decisions", {}, headers=BETA)[0] == 200
    os.kill(service.owner(), signal.SIGKILL)
    until(lambda: service("GET", "/r/default/health/ready")[0] == 200)
    more, _ = used_up(service, "default", ACME)
    assert more < MOST // 2, "an owner that was replaced knows what was taken before"


def test_dollars_are_those_of_all_workers(service):
    taken, error = used_up(service, "support", BETA, "v1/chat/completions", CHAT)
    assert 10 <= taken < 15 and error["code"] == "insufficient_quota"
    more, _ = used_up(service, "default", BETA, "v1/chat/completions", CHAT)
    assert more < 5


@pytest.mark.parametrize("worker", [0, 1])
def test_a_tenant_is_apart_through_every_worker(service, worker, capsys):
    def ask(method, path, body=None, headers=ACME, at=worker):
        return service(method, path, body, worker=at, headers=headers)[:2]

    for router in ("default", "support"):
        made = ask("POST", f"/r/{router}/v1/decisions", {}, at=1 - worker)[1]
        for path in (f"/v1/decisions/{made['id']}", f"/r/{router}/v1/decisions/{made['id']}"):
            assert ask("GET", path)[0] == 200
            assert ask("GET", path, headers=BETA)[0] == 404
        report = {"decision_id": made["id"], "id": f"fb-{router}", "reward": 0.0}
        assert ask("POST", f"/r/{router}/v1/feedback", report, BETA)[1]["effect"] == "early"
        assert ask("POST", "/v1/feedback", report)[1]["effect"] == "learned"
        assert ask("GET", f"/r/{router}/v1/spend?by=tenant")[0] == 403
        assert ask("GET", "/metrics")[0] == 403
        status, spent = ask("GET", f"/r/{router}/v1/spend?by=tenant", headers=OPS)
        assert status == 200 and {line["key"]: line["requests"] for line in spent["lines"]}["acme"] == 1
    log = service.folder / "log.support.sqlite"
    assert main(["spend", str(log), "--by", "tenant"]) == 0
    assert "acme" in capsys.readouterr().out
