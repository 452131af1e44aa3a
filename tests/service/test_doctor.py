"""``bot-orch doctor``: what is wrong is found, named with its remedy, and nothing else is."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from listed_models import KEY, endpoint
from service_running import BASE, free_port

from bot_orch.cli import main
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.service.doctor import machine

AGENT = (
    '{{id: gpt, kind: openai, settings: {{base_url: "{url}", model: m-1, allow_private: true, api_key: "${{KEY}}"}}}}'
)


@pytest.fixture
def doctor(tmp_path, capsys, monkeypatch):
    """Examines a configuration; returns the status and the findings by check."""
    monkeypatch.setenv("KEY", KEY)

    def examine(*agents, after="", database=None, port=0):
        text = (
            f"version: 1\ndatabase: {database or tmp_path / 'log.sqlite'}\nlisten: {{port: {port}}}\n{after}\nagents:\n"
        )
        (tmp_path / "c.yaml").write_text(text + "".join(f"  - {agent}\n" for agent in agents))
        status = main(["doctor", str(tmp_path / "c.yaml"), "--json", "--timeout", "20"])
        said = capsys.readouterr()
        assert said.err == "" and KEY not in said.out, "a key is never printed"
        document = json.loads(said.out)
        assert document["ok"] == (status == 0)
        for each in document["findings"]:
            assert bool(each["remedy"]) == (each["state"] != "ok"), each
        return status, {each["check"]: each for each in document["findings"]}

    return examine


def test_all_is_well(doctor):
    with endpoint() as good:
        status, found = doctor(AGENT.format(url=good.url), port=free_port())
    assert status == 0
    assert list(found) == ["configuration", "keys", "endpoint gpt", "clock", "disk", "database", "port"]
    assert {each["state"] for each in found.values()} == {"ok"}, found
    assert "key accepted" in found["endpoint gpt"]["detail"] and "knows the model" in found["endpoint gpt"]["detail"]
    assert "1 agent, policy auto" in found["configuration"]["detail"]
    assert "free" in found["port"]["detail"] and "made at the first start" in found["database"]["detail"]


def test_a_dead_endpoint(doctor):
    status, found = doctor(AGENT.format(url=f"http://127.0.0.1:{free_port()}/v1"))
    assert status == 1 and found["endpoint gpt"]["state"] == "failed"
    assert "cannot be reached" in found["endpoint gpt"]["detail"]


def test_a_wrong_key(doctor, monkeypatch):
    with endpoint() as good:
        monkeypatch.setenv("KEY", "another")
        status, found = doctor(AGENT.format(url=good.url))
    assert status == 1
    assert "refuses the key (status 401)" in found["endpoint gpt"]["detail"]
    assert found["endpoint gpt"]["remedy"] == "check KEY", "the variable is named"


def test_a_missing_key_does_not_hide_other_problems(doctor, monkeypatch):
    monkeypatch.delenv("KEY")
    tokens = "tokens: [{name: app, scopes: [decide], env: BOT_ORCH_TEST_TOKEN}]"
    with endpoint() as good:
        status, found = doctor(AGENT.format(url=good.url), after=tokens, database='":memory:"')
        assert good.asked == [], "an endpoint is not asked with a wrong key"
    assert status == 1 and found["keys"]["state"] == "failed"
    assert "BOT_ORCH_TEST_TOKEN" in found["keys"]["detail"], "the last of two"
    assert "endpoint gpt" not in found and found["database"]["state"] == "warning"


@pytest.mark.parametrize(
    ("options", "state", "said"),
    [
        ({"models": ("other",)}, "warning", "does not list 'm-1'"),
        ({"models_status": 404}, "warning", "lists no models"),
        ({"models_status": 429}, "warning", "limits the rate"),
        ({"models_status": 500}, "failed", "answers with status 500"),
        ({"models_status": 302}, "failed", "answers with status 302"),
    ],
)
def test_what_an_endpoint_may_answer(options, state, said, doctor):
    with endpoint(**options) as made:
        status, found = doctor(AGENT.format(url=made.url))
    assert (found["endpoint gpt"]["state"], status) == (state, int(state == "failed"))
    assert said in found["endpoint gpt"]["detail"]


def test_deployments_judges_and_anthropic_are_asked_too(doctor):
    key = 'api_key: "${KEY}"'
    with endpoint() as one, endpoint(key="x") as two, endpoint() as three:
        both = f'[{{base_url: "{one.url}", {key}}}, {{base_url: "{two.url}", {key}}}]'
        pool = f"{{id: pool, kind: openai, settings: {{model: m-1, allow_private: true, deployments: {both}}}}}"
        settings = f'{{base_url: "{three.url}", model: m-1, allow_private: true, {key}}}'
        judge = f"judges: [{{name: model, kind: llm, settings: {{agent: {{kind: anthropic, settings: {settings}}}}}}}]"
        status, found = doctor(pool, after=judge)
        assert three.asked[0][1]["x-api-key"] == KEY
    assert status == 1 and "refuses the key" in found["endpoint pool"]["detail"]
    assert found["endpoint model"]["state"] == "ok"


def test_a_clock_that_is_wrong(doctor):
    with endpoint(date="Mon, 01 Jan 2024 00:00:00 GMT") as behind:
        status, found = doctor(AGENT.format(url=behind.url))
    assert status == 0 and found["clock"]["state"] == "warning"
    assert "ahead of the endpoint of gpt" in found["clock"]["detail"]


def test_a_folder_that_cannot_be_written(doctor):
    status, found = doctor("{id: a, kind: simulated}", database="/proc/bot-orch/log.sqlite")
    assert status == 1 and "/proc cannot be written" in found["disk"]["detail"]


def test_a_full_disk(doctor, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.os, "fsync", full)
    status, found = doctor("{id: a, kind: simulated}")
    assert status == 1 and "No space left" in found["disk"]["detail"]


@pytest.mark.parametrize(("free", "state"), [(50_000_000, "failed"), (500_000_000, "warning")])
def test_little_space(free, state, doctor, monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    _, found = doctor("{id: a, kind: simulated}")
    assert found["disk"]["state"] == state


def test_the_examination_leaves_nothing_behind(doctor, tmp_path):
    doctor("{id: a, kind: simulated}")
    assert {each.name for each in tmp_path.iterdir()} == {"c.yaml"}


def test_a_file_that_is_no_log(doctor, tmp_path):
    (tmp_path / "log.sqlite").write_text("not a database, and long enough to tell" * 10)
    status, found = doctor("{id: a, kind: simulated}")
    assert status == 1 and "is not a log" in found["database"]["detail"]


def test_no_postgresql(doctor):
    status, found = doctor("{id: a, kind: simulated}", database="postgresql://nobody@127.0.0.1:1/none")
    assert status == 1 and "cannot be reached" in found["database"]["detail"]
    assert "disk" not in found


def test_a_port_in_use(doctor):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, found = doctor("{id: a, kind: simulated}", port=taken.getsockname()[1])
    assert status == 1 and "cannot be used" in found["port"]["detail"]


def test_beside_a_running_service(start, tmp_path, capsys):
    service = start()
    service.post("/v1/decisions", {"task": {"id": "t"}})
    (tmp_path / "c.yaml").write_text(BASE.format(database=tmp_path / "log.sqlite", port=service.port))
    assert main(["doctor", str(tmp_path / "c.yaml")]) == 0
    said = capsys.readouterr().out
    assert "a running service answers" in said and "in use by a running service" in said
    assert "failed: 0, to look at: 1" in said  # prices without an objective


def test_a_log_that_a_process_holds_without_listening(doctor, tmp_path):
    log = SqliteLog(tmp_path / "log.sqlite")
    try:
        status, found = doctor("{id: a, kind: simulated}")
    finally:
        log.close()
    assert status == 0 and found["database"]["state"] == "warning"
    assert "a process holds the log" in found["database"]["detail"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "does not exist; name another file, or run: bot-orch quickstart"),
        ("version: 1\nagents: []\n", "config.agents: is empty"),
        ("version: 1\nagents: [{id: a, kind: openai}]\n", "config.agents.a"),
        ("version: [", "c.yaml"),
        ("just words", "is not a mapping"),
    ],
)
def test_a_configuration_with_a_mistake(text, said, tmp_path, capsys):
    file = Path(tmp_path / "c.yaml")
    if text is not None:
        file.write_text(text)
    assert main(["doctor", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("failed   configuration: ") and said in out


@pytest.mark.parametrize("kind", ["program", "unit_test"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("nope-prog", "'nope-prog' is not on the PATH; install it, or write its path"),
        ("./plain.txt", "'./plain.txt' is not an executable file"),
        ("./check.sh", ""),
        ("sh", ""),
    ],
)
def test_a_judge_whose_program_is_missing(kind, command, said, tmp_path, capsys):
    (tmp_path / "plain.txt").write_text("")
    (tmp_path / "check.sh").write_text("#!/bin/sh\n")
    (tmp_path / "check.sh").chmod(0o755)
    judges = [{"name": "tests", "kind": kind, "settings": {"command": [command]}}]
    agents = [{"id": "a", "kind": "simulated"}]
    listen = {"port": free_port()}
    document = {"version": 1, "database": ":memory:", "listen": listen, "agents": agents, "judges": judges}
    (tmp_path / "c.yaml").write_text(json.dumps(document))
    assert main(["validate", str(tmp_path / "c.yaml")]) == (2 if said else 0)
    wrong = f"config.judges.tests.settings.command: {said}"
    assert not said or wrong in capsys.readouterr().err
    assert main(["doctor", str(tmp_path / "c.yaml")]) == (1 if said else 0)
    assert not said or wrong in capsys.readouterr().out


def test_a_timeout_that_is_none(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "c.yaml"), "--timeout", "0"]) == 2
    assert "--timeout: is 0" in capsys.readouterr().err


def test_a_guarantee_says_what_it_needs(doctor):
    """People do not reward themselves, so a judge has to see every answer."""
    agents = "{id: large, kind: human}", "{id: small, kind: human}"
    promise = "router: {guarantee: {baseline: large, loss_at_most: 0.02}}\n"
    judges = "judges: [{name: filled, kind: regex, settings: {pattern: '.'}}]\n"
    some = "judges: [{name: filled, kind: regex, only: [code], settings: {pattern: '.'}}]\n"
    watched = "judges: [{name: watched, kind: implicit}]\n"
    found = [doctor(*agents, after=promise + more)[1]["guarantee"] for more in ("", some, watched, judges)]
    assert [each["state"] for each in found] == ["warning", "warning", "warning", "ok"]
    assert all("large alone for 961 requests; about 14385 with rewards" in each["detail"] for each in found)
    assert "/v1/feedback" in found[0]["remedy"]
