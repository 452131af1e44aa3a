"""Keys that are made while the service runs: rights, ends, restarts, the command, workers without the log."""

import hashlib

import pytest
from service_running import until
from test_workers import REPORT, Service

from bot_orch.cli import main

SECRET = {"OPS": "o" * 32, "APP": "a" * 32}
TEXT = """
version: 1
database: {database}
listen: {{port: {port}}}
router: {{policy: bot}}
agents: [{{id: one, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}]

tokens:
  - {{name: ops, scopes: [admin], env: OPS}}
  - {{name: app, scopes: [decide], env: APP}}
"""
OPS = {"Authorization": f"Bearer {SECRET['OPS']}"}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def service(start):
    return start(TEXT, environment=SECRET)


def make(service, name="shop", **fields):
    answer = service.post("/v1/admin/keys", {"name": name, "scopes": ["decide"], **fields}, headers=OPS)
    assert answer.status == 200, answer
    return answer.json()


def decides(service, token):
    return service.post("/v1/decisions", {}, headers=bearer(token)).status


def test_a_key_has_its_scopes_and_is_kept_as_a_hash(service, tmp_path):
    key = make(service, tags=["web"])
    assert decides(service, key["token"]) == 200
    assert service.post("/v1/feedback", {}, headers=bearer(key["token"])).status == 403
    assert service.get("/v1/admin/keys", headers=bearer(key["token"])).status == 403
    whose = service.get("/v1/key", headers=bearer(key["token"])).json()
    assert (whose["name"], whose["scopes"], whose["tags"]) == ("shop", ["decide"], ["web"])
    (listed,) = service.get("/v1/admin/keys", headers=OPS).json()
    assert listed["id"] == key["id"] and listed["by"] == "ops" and "token" not in listed
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert key["token"].encode() not in kept and hashlib.sha256(key["token"].encode()).hexdigest().encode() in kept


def test_a_key_ends_when_it_is_revoked_or_expires(service, monkeypatch):
    key, brief = make(service), make(service, "brief", days=1)
    assert service.post(f"/v1/admin/keys/{key['id']}/revoke", {}, headers=OPS).status == 200
    assert decides(service, key["token"]) == 401 and decides(service, brief["token"]) == 200
    now = service.runtime.clock.now_us
    monkeypatch.setattr(type(service.runtime.clock), "now_us", lambda _: now() + 86_400_000_001)
    assert decides(service, brief["token"]) == 401
    assert service.get("/v1/admin/keys", headers=OPS).json() == []
    assert service.post(f"/v1/admin/keys/{key['id']}/revoke", {}, headers=OPS).status == 404


def test_a_rotated_key_works_for_a_day_beside_the_new_one(service, monkeypatch):
    old = make(service)
    new = service.post(f"/v1/admin/keys/{old['id']}/rotate", {}, headers=OPS).json()
    assert new["name"] == "shop" and new["scopes"] == ["decide"] and new["token"] != old["token"]
    assert decides(service, old["token"]) == decides(service, new["token"]) == 200
    now = service.runtime.clock.now_us
    monkeypatch.setattr(type(service.runtime.clock), "now_us", lambda _: now() + 86_401_000_000)
    assert decides(service, old["token"]) == 401 and decides(service, new["token"]) == 200


def test_keys_outlive_a_restart(start, tmp_path):
    first = start(TEXT, environment=SECRET)
    kept, gone = make(first), make(first, "gone")
    first.post(f"/v1/admin/keys/{gone['id']}/revoke", {}, headers=OPS)
    first.stop()
    second = start(TEXT, environment=SECRET)
    assert decides(second, kept["token"]) == 200 and decides(second, gone["token"]) == 401


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"name": "app", "scopes": ["decide"]}, 409, "name"),
        ({"name": "x", "scopes": []}, 422, "scopes"),
        ({"name": "x", "scopes": ["root"]}, 422, "scopes"),
        ({"name": "x", "scopes": ["decide"], "router": "none"}, 422, "router"),
        ({"name": "x", "scopes": ["decide"], "days": 0}, 422, "days"),
    ],
)
def test_a_wrong_key_is_refused_by_its_field(service, body, status, field):
    answer = service.post("/v1/admin/keys", body, headers=OPS)
    assert answer.status == status and field in answer.json()["error"]["message"], answer


def test_without_tokens_there_are_no_keys(start):
    open_ = start(TEXT.partition("tokens:")[0])
    answer = open_.post("/v1/admin/keys", {"name": "a", "scopes": ["decide"]})
    assert answer.status == 409 and "configure a token" in answer.json()["error"]["message"]


def test_the_command(service, monkeypatch, capsys):
    monkeypatch.setenv("BOT_ORCH_TOKEN", SECRET["OPS"])
    url = ["--url", f"http://127.0.0.1:{service.port}"]
    assert main(["key", "create", "shop", "--scopes", "decide", "--days", "30", *url]) == 0
    named, token = capsys.readouterr().out.splitlines()
    assert "scopes decide" in named and decides(service, token) == 200
    assert main(["key", "list", *url]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert "shop" in line and "ops" in line
    assert main(["key", "rotate", line.split()[0], *url]) == 0
    capsys.readouterr()
    assert main(["key", "revoke", line.split()[0], *url]) == 0 and decides(service, token) == 401
    assert main(["key", "create", *url]) == 2 and "KEY: is missing" in capsys.readouterr().err
    assert main(["key", "revoke", "0", *url]) == 2 and "there is no such key" in capsys.readouterr().err


def test_a_worker_that_does_not_own_the_log_takes_keys(tmp_path):
    text = TEXT.replace("tokens:", "log_level: error\ntokens:").replace("env: OPS", "env: REPORT")
    service = Service(
        tmp_path,
        text.replace("  - {{name: app, scopes: [decide], env: APP}}\n", "").format(database="log.sqlite", port=0),
    )
    try:
        service.wait()
        made = service("POST", "/v1/admin/keys", {"name": "shop", "scopes": ["decide"]}, headers=REPORT)[1]
        for worker in (0, 1):
            taken = service("POST", "/v1/decisions", {}, worker=worker, headers=bearer(made["token"]))[0]
            assert taken == 200
            assert service("POST", "/v1/decisions", {}, worker=worker, headers=bearer("w" * 40))[0] == 401
        service("POST", f"/v1/admin/keys/{made['id']}/revoke", {}, headers=REPORT)

        def ended(worker):
            return service("POST", "/v1/decisions", {}, worker=worker, headers=bearer(made["token"]))[0] == 401

        until(lambda: ended(0) and ended(1), 20.0)
    finally:
        service.stop()
