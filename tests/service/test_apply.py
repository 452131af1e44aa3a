"""What processes share of a configuration, where two differ, and ``bot-orch apply`` on SQLite."""

import json

import pytest
from service_running import Running, free_port

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.service.config import load_config
from bot_orch.service.config.documents import ConfigFile, differences, digest_of_document

BASE = "version: 1\nagents: [{id: a, kind: simulated}, {id: b, kind: simulated}]\n"


@pytest.mark.parametrize(
    "text",
    [
        BASE + "listen: {port: 1}\ndatabase: postgresql://other/db\naccess_log: x.log\nlog_level: debug\n",
        BASE + "listen: {host: 10.0.0.1}  # a remark\n",
        "version: 1\nagents: [{id: b, kind: simulated}, {id: a, kind: simulated}]\n",
    ],
)
def test_what_is_one_process_s_own_or_means_the_same_is_no_difference(text):
    assert differences(BASE, text) == [] and digest_of_document(BASE) == digest_of_document(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (BASE + "router: {floor: 0.1, rules: [{deny: [a]}]}", ["router (new)"]),
        (BASE.replace("{id: b, kind: simulated}", "{id: c, kind: simulated}"), ["agents.b (gone)", "agents.c (new)"]),
        (BASE.replace("id: a,", "id: a, price: {per_call_usd: 0.1},"), ["agents.a.price (new)"]),
        (BASE + "routers: {s: {agents: [{id: x, kind: simulated}]}}", ["routers (new)"]),
        (BASE + "limits: {grace_s: 1.0}", ["limits (new)"]),
        (BASE + "tokens: [{name: app, scopes: [decide], env: APP}]", ["tokens (new)"]),
        (BASE.replace("kind: simulated}]", "kind: '${KIND}'}]"), ["agents.b.kind"]),
        (BASE + "not_yet_known: 1\n", ["not_yet_known (new)"]),
    ],
)
def test_differences_are_named(text, named):
    assert differences(BASE, text) == named
    assert digest_of_document(BASE) != digest_of_document(text)


def test_the_order_of_judges_is_their_rank():
    judges = [f"{{name: {name}, kind: llm, settings: {{agent: a}}}}" for name in "xy"]
    one, other = (BASE + f"judges: [{', '.join(each)}]" for each in (judges, judges[::-1]))
    assert differences(one, other) == ["judges"]


def test_a_shared_document_is_read_with_the_file_and_the_environment_of_the_process(tmp_path):
    path = tmp_path / "local.yaml"
    path.write_text("database: postgresql://bot:${PASSWORD}@db/x\nlisten: {port: 7}\n")
    file = ConfigFile(path, {"PASSWORD": "secret", "MODEL": "m1"}, host="::1")
    document = BASE.replace("{id: b, kind: simulated}", "{id: b, kind: python, path: 'code/${MODEL}:answer'}")
    config = file.around(document + "limits: {grace_s: 3.0}\ndatabase: postgresql://elsewhere/x\n")
    assert config.database == "postgresql://bot:secret@db/x" == file.database()
    assert (config.listen.host, config.listen.port) == ("::1", 7)
    assert config.limits.grace_s == 3.0
    assert config.agents[1].path == str(tmp_path / "code/m1:answer")
    with pytest.raises(InvalidInputError, match="needs the environment variable"):
        ConfigFile(path, {}).database()


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "c.yaml"
    made.write_text(BASE + f"listen: {{port: {free_port()}}}\ndatabase: log.sqlite\nlog_level: error\n")
    return made


def test_on_sqlite_apply_checks_and_reloads(path, capsys):
    assert main(["apply", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no service runs there; the file takes effect when it starts"
    service = Running(load_config(path), read=lambda: load_config(path))
    try:
        path.write_text(path.read_text().replace("id: b", "id: c"))
        assert main(["apply", str(path), "--dry-run"]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("dry run: the file was checked, not compared")
        assert [each["id"] for each in service.get("/v1/agents").json()] == ["a", "b"]
        assert main(["apply", str(path)]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "changed: agents"
        assert [each["id"] for each in service.get("/v1/agents").json()] == ["a", "c"]
    finally:
        service.stop()


@pytest.mark.parametrize("option", ["--list", "--rollback"])
def test_versions_need_postgresql(path, option, capsys):
    assert main(["apply", str(path), option]) == 2
    assert f"{option}: needs a log on PostgreSQL" in capsys.readouterr().err
    assert main(["serve", str(path), "--stored"]) == 2
    assert "--stored: needs a log on PostgreSQL" in capsys.readouterr().err


def test_a_mistake_is_named_before_anything_is_asked(path, capsys):
    path.write_text(json.dumps({"version": 1, "agents": [{"id": "a", "kind": "nothing"}]}))
    assert main(["apply", str(path)]) == 2
    assert "config.agents.a.kind: 'nothing' is not known" in capsys.readouterr().err
