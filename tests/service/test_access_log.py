"""The access log: a line per request, no prompts and no secrets, rotation without a restart."""

import json

import pytest
from service_running import BASE, hang_up, until

from bot_orch.errors import InvalidInputError
from bot_orch.service.config import load_config
from bot_orch.service.server import make_server
from bot_orch.service.web.access import AccessLog

SECRET = {"A": "very-secret-token-of-a"}
BEARER = {"Authorization": f"Bearer {SECRET['A']}"}
CHAT = {"model": "auto", "messages": [{"role": "user", "content": "PROMPT"}]}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def kept(start, tmp_path):
    path = tmp_path / "access.jsonl"
    text = f"{BASE}access_log: {path}\ntokens: [{{{{name: app, scopes: [decide, admin], env: A}}}}]\n"
    return start(text, environment=SECRET), path


def test_every_request_has_a_line(kept):
    service, path = kept
    chat = service.post("/v1/chat/completions?key=SECRET", CHAT, headers=BEARER)
    streamed = service.post("/v1/chat/completions", {**CHAT, "stream": True}, headers=BEARER)
    decided = service.post("/v1/decisions", headers=BEARER)
    service.post("/v1/decisions", raw=b"{", headers=BEARER)
    service.get("/nothing")
    service.post("/v1/decisions", headers={"Authorization": "Bearer WRONG-SECRET"})
    service.get("/health/live")
    found = until(lambda: len(lines(path)) == 7 and lines(path))
    assert [line["status"] for line in found] == [200, 200, 200, 400, 404, 401, 200]
    assert all(line["ms"] >= 0 and line["time"].endswith("+00:00") for line in found)
    for line, answer in zip(found, (chat, streamed), strict=False):
        assert line["decision"] == answer.headers["x-bot-orch-decision-id"]
        assert line["agent"] == answer.headers["x-bot-orch-agent"]
        assert (line["method"], line["path"], line["token"]) == ("POST", "/v1/chat/completions", "app")
    assert found[2]["decision"] == decided.json()["id"] and found[2]["agent"] == decided.json()["agent"]
    assert (found[3].get("token"), found[3].get("decision")) == ("app", None)
    assert "token" not in found[4] and "token" not in found[5]
    text = path.read_text()
    assert "PROMPT" not in text and "SECRET" not in text and SECRET["A"] not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_caller_that_left_has_its_line(start, tmp_path):
    path = tmp_path / "access.jsonl"
    slow = "  - {{id: slow, kind: simulated, params: {{median_s: 60.0, sigma: 0}}}}\n"
    service = start(f"{BASE}{slow}access_log: {path}\n")
    with hang_up(service, "/v1/chat/completions", {**CHAT, "model": "slow"}):
        until(lambda: service.runtime.guards["slow"].view().in_flight)
    (line,) = until(lambda: lines(path))
    assert line["status"] == 499


def test_rotation(tmp_path):
    path, old = tmp_path / "access.jsonl", tmp_path / "access.1.jsonl"
    log = AccessLog(path)
    write = lambda: log.write(method="GET", path="/", status=200, seconds=0.0)  # noqa: E731
    write()
    path.rename(old)
    write()
    write()
    assert (len(lines(old)), len(lines(path))) == (1, 2)
    path.unlink()
    write()
    assert len(lines(path)) == 1 and path.stat().st_mode & 0o777 == 0o600
    log.close()


def test_a_disk_that_fails_stops_no_request(tmp_path, caplog):
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AccessLog(folder / "a.jsonl")
    folder.rename(tmp_path / "moved")
    for _ in range(3):
        log.write(method="GET", path="/", status=200, seconds=0.0)
    assert [record.message for record in caplog.records] == ["access log not written"]
    log.close()


def test_a_full_disk_stops_no_request(tmp_path, caplog, monkeypatch):
    log = AccessLog(tmp_path / "a.jsonl")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "format", full)  # inside of what logging guards
    for _ in range(3):
        log.write(method="GET", path="/", status=200, seconds=0.0)
    assert [record.message for record in caplog.records] == ["access log not written"]
    log.close()


def test_a_path_beside_the_configuration_and_a_wrong_one(tmp_path):
    text = BASE.format(database="log.sqlite", port=0) + "access_log: logs/access.jsonl\n"
    (tmp_path / "c.yaml").write_text(text)
    config = load_config(tmp_path / "c.yaml")
    assert config.access_log == str(tmp_path / "logs" / "access.jsonl")
    with pytest.raises(InvalidInputError, match=r"config\.access_log: .* cannot be written \(No such file"):
        make_server(config).config.app.state.router.runtime.open()


def test_off_by_default(start, tmp_path):
    service = start()
    assert service.runtime.access is None
