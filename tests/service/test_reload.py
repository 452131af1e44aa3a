"""A changed configuration is applied to a running service; a bad one is refused, and no request is dropped."""

import http.client
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from service_running import PATIENCE_S, Running, free_port, until

from bot_orch.cli import main
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config import load_config

CONFIG = """
version: 1
database: log.sqlite
listen: {port: PORT}
log_level: LEVEL
router: {policy: bot, floor: 0.05, rules: RULES}
tokens: [TOKENS]
agents:
AGENTS
"""
QUICK = "  - {id: quick, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}\n"
OTHER = "  - {id: other, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}\n"
SLOW = "  - {id: slow, kind: python, path: 'answering:slow'}\n"


def call(port, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


class Files:
    """A configuration file, and a service that was started with it."""

    def __init__(self, folder):
        self.path, self.running = folder / "c.yaml", None

    def write(self, agents=QUICK, rules="[]", tokens="", port=0, level="warning"):
        text = CONFIG.replace("AGENTS", agents).replace("RULES", rules).replace("TOKENS", tokens)
        self.path.write_text(text.replace("PORT", str(port)).replace("LEVEL", level))

    def start(self, environment=None):
        def read():
            return load_config(self.path, environment)

        self.running = Running(read(), read=read, environment=environment)
        return self.running


@pytest.fixture
def files(tmp_path):
    made, logger = Files(tmp_path), logging.getLogger("bot_orch")
    level = logger.level
    yield made
    if made.running is not None:
        made.running.stop()
    logger.setLevel(level)  # a reload sets it


def reload(service, **options):
    return service.post("/v1/admin/reload", **options)


def names(service, **options):
    return [each["id"] for each in service.get("/v1/agents", **options).json()]


def test_agents_and_rules_change_and_what_was_learned_stays(files):
    files.write()
    service = files.start()
    made = service.post("/v1/decisions").json()["id"]
    files.write(QUICK + OTHER, rules="[{deny: [quick]}]")
    assert reload(service).json() == {"changed": ["agents", "router"], "after_restart": []}
    assert names(service) == ["quick", "other"]
    assert service.post("/v1/decisions").json()["agent"] == "other"
    assert service.post("/v1/feedback", {"decision_id": made, "reward": 1.0}).json()["effect"] == "learned"
    assert reload(service).json() == {"changed": [], "after_restart": []}
    files.write(OTHER)
    assert reload(service).status == 200 and names(service) == ["other"]


def test_a_guard_whose_agent_did_not_change_is_kept(files):
    files.write(QUICK + OTHER)
    service = files.start()
    quick, other = (service.runtime.guards[name] for name in ("quick", "other"))
    files.write(QUICK + OTHER.replace("kind", "price: {per_call_usd: 0.5}, kind"))
    assert reload(service).json()["changed"] == ["agents"]
    assert service.runtime.guards["quick"] is quick and service.runtime.guards["other"] is not other
    until(lambda: not other.available)
    assert quick.available and service.runtime.guards["other"].price.per_call_usd == 0.5


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"agents": "  - {id: quick, kind: simulatd}\n"}, "config.agents.quick.kind: 'simulatd' is not known"),
        ({"rules": "[{deny: [nobody]}]"}, "config.router.rules[0]: 'nobody' is not an agent"),
        ({"agents": "  - {id: quick, knd: simulated}\n"}, "is not a setting"),
        ({"tokens": "{name: a, scopes: [admin], env: NOT_SET}"}, "config.tokens.a: needs the environment variable"),
    ],
)
def test_a_bad_file_is_refused_and_the_old_configuration_goes_on(files, change, problem):
    files.write()
    service = files.start(environment={})
    before = service.get("/v1/admin/state").json()
    files.write(**change)
    answer = reload(service)
    assert answer.status == 422 and problem in answer.json()["error"]["message"]
    assert "\n" not in answer.json()["error"]["message"]
    assert service.get("/v1/admin/state").json() == before and names(service) == ["quick"]
    assert service.post("/v1/decisions").status == 200


def test_a_call_in_flight_is_not_dropped_when_its_agent_goes(files):
    files.write(SLOW)
    service = files.start()
    answers = []
    body = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
    asking = threading.Thread(daemon=True, target=lambda: answers.append(service.post("/v1/chat/completions", body)))
    asking.start()
    until(lambda: service.runtime.guards["slow"].view().in_flight)
    files.write(QUICK)
    assert reload(service).status == 200 and names(service) == ["quick"]
    asking.join(PATIENCE_S)
    assert answers[0].status == 200 and answers[0].headers["x-bot-orch-agent"] == "slow"


def test_tokens_change_and_the_listening_address_is_named(files):
    files.write()
    service = files.start(environment={"OLD": "o" * 20, "NEW": "n" * 20})
    files.write(tokens="{name: new, scopes: [admin], env: NEW}", port=1)
    assert reload(service).json() == {"changed": ["tokens"], "after_restart": ["listen"]}
    assert service.get("/v1/agents").status == 401
    with_token = {"authorization": f"Bearer {'n' * 20}"}
    assert names(service, headers=with_token) == ["quick"]
    files.write(tokens="{name: old, scopes: [admin], env: OLD}")
    assert reload(service, headers=with_token).status == 200
    assert service.get("/v1/agents", headers=with_token).status == 401


def test_a_change_that_cannot_be_written_is_undone(files, monkeypatch):
    files.write()
    service = files.start()
    files.write(QUICK + OTHER)
    log = service.runtime.writer.log
    commit = log.commit

    def broken():
        monkeypatch.setattr(log, "commit", commit)
        raise OSError("disk I/O error")

    monkeypatch.setattr(log, "commit", broken)
    assert reload(service).status == 503
    until(lambda: service.get("/health/ready").status == 200)
    assert names(service) == ["quick"] and service.post("/v1/decisions").json()["agent"] == "quick"
    assert reload(service).json()["changed"] == ["agents"] and names(service) == ["quick", "other"]


def test_a_file_of_a_lower_revision_is_refused_at_a_reload_and_at_a_start(files, capsys):
    """The log knows the highest revision whose settings it has."""
    files.write()
    files.path.write_text("revision: 3\n" + files.path.read_text())
    service = files.start()
    files.write(QUICK + OTHER)
    refused = reload(service)
    assert refused.status == 422 and "config.revision: is 0" in refused.json()["error"]["message"]
    assert names(service) == ["quick"]
    files.path.write_text("revision: 4\n" + files.path.read_text())
    assert reload(service).json()["changed"] == ["revision", "agents"] and names(service) == ["quick", "other"]
    service.stop()
    files.path.write_text(files.path.read_text().replace("revision: 4", "revision: 3"))
    assert main(["serve", str(files.path)]) == 2
    assert "config.revision: is 3, and the log has the settings of revision 4" in capsys.readouterr().err
    log = open_log(files.path.parent / "log.sqlite")
    assert replay(log).ok
    log.close()
    files.running = None


def served(files):
    """A real process, and its port."""
    port = free_port()
    files.write(SLOW, port=port, level="info")
    process = subprocess.Popen(
        [sys.executable, "-m", "bot_orch", "serve", str(files.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    line = process.stdout.readline()
    assert line.startswith(f"bot-orch: http://127.0.0.1:{port} (")
    until(lambda: call(port, "GET", "/health/ready")[0] == 200)  # it listens when it says so
    return process, port


def test_the_signal(files):
    """SIGHUP applies or refuses a file; it drops no request in flight, and does not end the service."""
    process, port = served(files)
    try:
        answers = []
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello"}]})

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("POST", "/v1/chat/completions", body)
            with connection.getresponse() as answer:
                answer.read()
                answers.append(answer)
            connection.close()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        until(lambda: call(port, "GET", "/v1/agents")[1][0]["in_flight"])
        files.write(QUICK + OTHER, port=port, level="info")
        os.kill(process.pid, signal.SIGHUP)
        until(lambda: len(call(port, "GET", "/v1/agents")[1]) == 2)
        assert not answers, "the control: the request was under way"
        asking.join(PATIENCE_S)
        assert answers[0].status == 200 and answers[0].headers["x-bot-orch-agent"] == "slow"
        files.write("  - {id: x, kind: nothing}\n", port=port, level="info")
        os.kill(process.pid, signal.SIGHUP)
        said = [json.loads(process.stderr.readline()) for _ in range(4)]
        messages = [each["message"].partition(";")[0] for each in said]
        assert messages == ["loaded the log", "started", "reloaded", "reload refused"]
        assert "kind: 'nothing' is not known" in said[3]["detail"]
        assert [each["id"] for each in call(port, "GET", "/v1/agents")[1]] == ["quick", "other"]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
