"""A changed file is applied by a start, a reload or a command; an earlier one is not, unless its revision is higher."""

import contextlib
import json

import psycopg
import pytest
from service_running import Running, until

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.service.config.documents import ConfigFile
from bot_orch.service.configuring import starting

AGENT = "  - {{id: {0}, kind: simulated, params: {{median_s: 0.0, sigma: 0.0}}}}\n"
NEEDS_KEY = '  - {id: c, kind: openai, base_url: "https://models.example/v1", model: m, api_key: "${KEY}"}\n'
TEXT = """
version: 1
database: {database}
listen: {{port: 0}}
log_level: error
router: {{policy: bot, floor: {floor}, success_reward: 1.0}}
{rest}
agents:
{agents}"""


class Cluster:
    """Replicas in threads, each with a file and an environment of its own."""

    def __init__(self, folder, database):
        self.folder, self.database, self.running = folder, database, []

    def write(self, name="c", *agents, floor="0.2", rest=""):
        """The path of a file with these agents."""
        path = self.folder / f"{name}.yaml"
        listed = "".join(each if each.startswith(" ") else AGENT.format(each) for each in agents or ("a", "b"))
        url = json.dumps(self.database)
        path.write_text(TEXT.format(database=url, agents=listed, floor=floor, rest=rest))
        return path

    def start(self, path, environment=None, *, stored=False):
        config, versions = starting(ConfigFile(path, environment or {}), stored=stored)
        self.running.append(Running(config, stored=versions, environment=environment or {}))
        return self.running[-1]

    def stop(self):
        for each in self.running:
            if each.thread.is_alive():
                each.stop()

    def rows(self, query):
        with psycopg.connect(self.database.partition("&lease_s")[0], autocommit=True) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def cluster(database, tmp_path):
    made = Cluster(tmp_path, f"{database}&lease_s=1.5")
    yield made
    made.stop()


def names(replica):
    return [each["id"] for each in replica.get("/v1/agents").json()]


def decided_by(replica, number=12):
    answers = [replica.post("/v1/decisions") for _ in range(number)]
    assert {each.status for each in answers} == {200}, answers
    return {each.json()["agent"] for each in answers}


def one_line(capsys):
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


def test_all_processes_run_what_is_applied_and_a_roll_back_heals_all(cluster, capsys):
    one, two = (cluster.start(cluster.write(name)) for name in ("one", "two"))
    new = cluster.write("new", "a", "b", "c")
    assert main(["apply", str(new), "--dry-run"]) == 0
    assert "agents.c (new)" in capsys.readouterr().out and names(one) == ["a", "b"]
    assert main(["apply", str(new)]) == 0
    assert "version 2 applied\n2 of 2 process(es) run it" in capsys.readouterr().out
    assert names(one) == names(two) == ["a", "b", "c"]
    assert decided_by(one, 40) | decided_by(two, 40) == {"a", "b", "c"}
    assert main(["apply", str(new)]) == 0
    assert "version 2 is in force and says the same" in capsys.readouterr().out
    assert main(["apply", str(new), "--rollback"]) == 0
    assert "agents.c (gone)" in capsys.readouterr().out
    assert names(one) == names(two) == ["a", "b"]
    assert decided_by(one) | decided_by(two) == {"a", "b"}
    line = 'bot_orch_config_version{router="default"} 3'
    assert sum(line in each.get("/metrics").body.decode() for each in (one, two)) == 1, "its owner runs it"
    assert main(["apply", str(new), "--list"]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()[:3]] == ["3", "2", "1"]
    cluster.stop()
    with contextlib.closing(open_log(cluster.database)) as log:
        assert replay(log).ok


def test_a_database_without_a_log_is_no_obstacle(cluster, capsys):
    path = cluster.write("first")
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_start_with_a_changed_file_applies_it_and_one_with_an_earlier_file_does_not(cluster, capsys):
    old = cluster.write("old")
    one = cluster.start(old)
    until(lambda: one.serves)
    other = cluster.write("other", "a", "b", "extra")
    assert main(["validate", str(other)]) == 0
    assert "is not version 1, which is in force: agents.extra (new)" in capsys.readouterr().err
    two = cluster.start(other)
    until(lambda: names(one) == ["a", "b", "extra"])
    assert names(two) == ["a", "b", "extra"]
    _, earlier = starting(ConfigFile(old, {}))
    assert "is an earlier version" in earlier.notice and "version 2" in earlier.notice
    assert main(["validate", str(old)]) == 0 and "is an earlier version" in capsys.readouterr().err
    three = cluster.start(old)
    assert names(three) == names(one) == ["a", "b", "extra"] and decided_by(three)
    assert len(cluster.rows("SELECT FROM bot_orch.configs")) == 2
    assert len(cluster.rows("SELECT FROM bot_orch.members")) == 3, "one table of processes"


def test_an_earlier_file_with_a_higher_revision_is_applied(cluster):
    one = cluster.start(cluster.write("old"))
    cluster.start(cluster.write("new", "a", "c"))
    until(lambda: names(one) == ["a", "c"])
    cluster.start(cluster.write("reverted", rest="revision: 1"))
    until(lambda: names(one) == ["a", "b"])
    cluster.start(cluster.write("new", "a", "c"))
    assert names(one) == ["a", "b"], "its revision is lower"
    assert [row[0] for row in cluster.rows("SELECT revision FROM bot_orch.configs ORDER BY version")] == [0, 0, 1]


def test_a_process_that_cannot_run_a_version_goes_on_with_its_own(cluster, capsys, monkeypatch):
    monkeypatch.setenv("KEY", "k" * 20)
    one, two = (cluster.start(cluster.write("c"), environment) for environment in ({"KEY": "k" * 20}, {}))
    until(lambda: one.serves)
    new = cluster.write("new", "a", "b", NEEDS_KEY)
    assert main(["apply", str(new)]) == 1
    said = capsys.readouterr().out
    assert "1 of 2 process(es) run it" in said
    assert "goes on with version 1: " in said and "needs the environment variable KEY" in said
    assert names(one) == ["a", "b", "c"] and decided_by(two), "its requests go to the owner"
    (document,) = cluster.rows("SELECT document FROM bot_orch.configs WHERE version = 2")[0]
    assert "${KEY}" in document and "k" * 20 not in document
    monkeypatch.delenv("KEY")
    assert main(["apply", str(cluster.write("newer", "a", NEEDS_KEY))]) == 2
    assert "needs the environment variable KEY" in one_line(capsys)


def test_a_process_that_cannot_run_a_version_does_not_take_a_router_that_does(cluster, monkeypatch):
    monkeypatch.setenv("KEY", "k" * 20)
    one, two = (cluster.start(cluster.write("c"), environment) for environment in ({"KEY": "k" * 20}, {}))
    until(lambda: one.serves)
    assert main(["apply", str(cluster.write("new", "a", "b", NEEDS_KEY))]) == 1
    one.stop()
    assert two.post("/v1/decisions").status == 503 and not two.serves
    three = cluster.start(cluster.write("c"), {"KEY": "k" * 20})
    until(lambda: three.serves)
    assert decided_by(two)


def test_routers_come_and_go_with_a_version(cluster, capsys):
    one, two = (cluster.start(cluster.write("c")) for _ in range(2))
    more = cluster.write("more", rest="routers: {support: {agents: [{id: helper, kind: simulated}]}}")
    assert main(["apply", str(more)]) == 0
    assert "routers (new)" in capsys.readouterr().out
    assert [each.post("/r/support/v1/decisions").json()["agent"] for each in (one, two)] == ["helper", "helper"]
    assert main(["apply", str(more), "--rollback", "1"]) == 0
    assert [each.post("/r/support/v1/decisions").status for each in (one, two)] == [404, 404]
    assert decided_by(one) and decided_by(two)


def test_a_reload_applies_the_file_to_all_and_refuses_an_earlier_one(cluster):
    path, other = cluster.write("c"), cluster.write("other")
    one, two = cluster.start(path), cluster.start(other)
    text = path.read_text()
    path.write_text(text.replace("log_level: error", "log_level: warning"))
    assert one.post("/v1/admin/reload").json() == {"changed": ["log_level"], "after_restart": []}
    path.write_text(path.read_text().replace("id: b", "id: c"))
    assert one.post("/v1/admin/reload").json() == {"changed": ["agents"], "after_restart": []}
    until(lambda: names(two) == names(one) == ["a", "c"])
    answer = two.post("/v1/admin/reload")
    assert answer.status == 422 and "is an earlier version" in answer.json()["error"]["message"]
    assert names(two) == names(one) == ["a", "c"]


def test_versions_that_are_not_there(cluster, capsys):
    path = cluster.write("c")
    with pytest.raises(InvalidInputError, match="there is no stored configuration"):
        cluster.start(path, stored=True)
    cluster.start(path)
    assert main(["apply", str(path), "--rollback"]) == 2
    assert "there is no earlier version" in one_line(capsys)
    assert main(["apply", str(path), "--rollback", "7"]) == 2
    assert "there is no version 7" in one_line(capsys)


def test_a_start_with_the_stored_version_follows_one_that_is_applied_meanwhile(cluster):
    path = cluster.write("c")
    cluster.start(path).stop()
    config, stored = starting(ConfigFile(path, {}), stored=True)
    assert main(["apply", str(cluster.write("new", "a", "b", "c"))]) == 0
    cluster.running.append(Running(config, stored=stored, environment={}))
    until(lambda: cluster.running[-1].serves)
    until(lambda: names(cluster.running[-1]) == ["a", "b", "c"])
