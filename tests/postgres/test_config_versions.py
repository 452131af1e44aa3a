"""Replicas change their configuration together, one with another file refuses to start, a roll-back heals all."""

import contextlib
import json
import threading

import psycopg
import pytest
from service_running import Running, until

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.stores.postgres.configs import PostgresConfigs
from bot_orch.eventlog.verification import replay
from bot_orch.eventlog.versions import ProposalPendingError
from bot_orch.service import server
from bot_orch.service.config.documents import ConfigDiffersError, ConfigFile
from bot_orch.service.configuring.start import agreed

AGENT = "  - {{id: {0}, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0}}}}\n"
NEEDS_KEY = (
    '  - {id: c, kind: openai, settings: {base_url: "https://models.example/v1", model: m, api_key: "${KEY}"}}\n'
)
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
        config, versions = agreed(ConfigFile(path, environment or {}), stored=stored)
        self.running.append(Running(config, versions=versions, environment=environment or {}))
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


def test_all_adopt_a_version_together_and_a_roll_back_heals_all(cluster, capsys):
    one, two = (cluster.start(cluster.write(name)) for name in ("one", "two"))
    new = cluster.write("new", "a", "b", "c")
    assert main(["apply", str(new), "--dry-run"]) == 0
    assert "agents.c (new)" in capsys.readouterr().out and names(one) == ["a", "b"]
    assert main(["apply", str(new)]) == 0
    assert "version 2 adopted; 2 of 2 process(es) run it" in capsys.readouterr().out
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
    assert [line.split()[:2] for line in listed.splitlines()[:3]] == [
        ["3", "adopted"],
        ["2", "adopted"],
        ["1", "adopted"],
    ]
    cluster.stop()
    with contextlib.closing(open_log(cluster.database)) as log:
        assert replay(log).ok


def test_a_database_without_a_log_is_no_obstacle(cluster, capsys):
    path = cluster.write("first")
    assert main(["validate", str(path)]) == 0 and main(["doctor", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_replica_with_another_file_refuses_to_start_and_disturbs_nobody(cluster, capsys):
    old = cluster.write("old")
    one = cluster.start(old)
    until(lambda: one.serves)
    before = cluster.rows("SELECT count(*), max(seq) FROM bot_orch.events")
    other = cluster.write("other", "a", "b", "extra")
    assert main(["serve", str(other)]) == 2
    line = one_line(capsys)
    assert "agents.extra (new)" in line and f"bot-orch apply {other}" in line and "--stored" in line
    assert main(["validate", str(other)]) == 0, "apply would take it"
    assert f"bot-orch apply {other}" in capsys.readouterr().err
    main(["doctor", str(other)])
    assert "warning  configuration" in capsys.readouterr().out
    assert main(["validate", str(old)]) == 0 and "apply" not in capsys.readouterr().err
    assert cluster.rows("SELECT count(*), max(seq) FROM bot_orch.events") == before
    assert len(cluster.rows("SELECT FROM bot_orch.configured")) == 1
    assert decided_by(one) == {"a", "b"}
    assert main(["apply", str(other)]) == 0
    assert names(one) == ["a", "b", "extra"]
    with pytest.raises(ConfigDiffersError, match=r"agents\.extra \(gone\)"):
        cluster.start(old)
    two = cluster.start(old, stored=True)
    assert names(two) == ["a", "b", "extra"] and decided_by(one) and decided_by(two)


def test_a_replica_that_cannot_prepare_a_version_refuses_it_for_all(cluster, capsys):
    path = cluster.write("c")
    one, two = cluster.start(path, {"KEY": "k" * 20}), cluster.start(path)
    new = cluster.write("new", "a", "b", NEEDS_KEY)
    assert main(["apply", str(new)]) == 2
    said = capsys.readouterr()
    assert "not checked here, KEY is not set" in said.out
    assert "version 2 was refused, version 1 goes on" in said.err and "needs the environment variable KEY" in said.err
    assert names(one) == names(two) == ["a", "b"] and decided_by(one) and decided_by(two)
    two.stop()
    assert main(["apply", str(new)]) == 0
    assert names(one) == ["a", "b", "c"]
    (document,) = cluster.rows("SELECT document FROM bot_orch.configs WHERE version = 3")[0]
    assert "${KEY}" in document and "k" * 20 not in document


def test_a_dead_process_holds_up_a_version_for_its_lease_at_most(cluster, capsys):
    one = cluster.start(cluster.write("c"))
    store = PostgresConfigs(cluster.database)
    store.join("dead:1", 1)
    store.close()
    assert main(["apply", str(cluster.write("new", "a", "c"))]) == 0
    assert "version 2 proposed to 2 processes" in capsys.readouterr().out
    assert names(one) == ["a", "c"]


def silence(replica):
    """Its heartbeats about the configuration end, as if it were cut off."""
    keeper = replica.server.config.app.state.versions.keeper
    replica.call(keeper._running.cancel)
    return keeper


def test_a_process_that_missed_a_version_serves_no_router_until_it_has_it(cluster, capsys):
    path = cluster.write("c")
    one, two = cluster.start(path), cluster.start(path)
    until(lambda: one.serves)
    keeper = silence(two)
    assert main(["apply", str(cluster.write("new", "a", "c", floor="0.5"))]) == 0
    assert names(one) == ["a", "c"]
    one.stop()
    assert two.post("/v1/decisions").status == 503, "the log names a version that is not prepared here"
    assert not two.serves
    two.call(keeper.start)
    until(lambda: two.serves)
    assert names(two) == ["a", "c"] and decided_by(two)


def test_routers_come_and_go_with_a_version(cluster, capsys):
    one, two = (cluster.start(cluster.write("c")) for _ in range(2))
    more = cluster.write("more", rest="routers: {support: {agents: [{id: helper, kind: simulated}]}}")
    assert main(["apply", str(more)]) == 0
    assert "routers.support (new)" in capsys.readouterr().out
    assert [each.post("/r/support/v1/decisions").json()["agent"] for each in (one, two)] == ["helper", "helper"]
    assert main(["apply", str(more), "--rollback", "1"]) == 0
    assert [each.post("/r/support/v1/decisions").status for each in (one, two)] == [404, 404]
    assert decided_by(one) and decided_by(two)


def test_a_reload_changes_what_is_the_process_s_own_and_refuses_the_rest(cluster):
    path = cluster.write("c")
    one = cluster.start(path)
    text = path.read_text()
    path.write_text(text.replace("log_level: error", "log_level: warning"))
    assert one.post("/v1/admin/reload").json() == {"changed": ["log_level"], "after_restart": []}
    path.write_text(text.replace("floor: 0.2", "floor: 0.3"))
    answer = one.post("/v1/admin/reload")
    assert answer.status == 422 and "router.floor" in answer.json()["error"]["message"]
    assert "bot-orch apply" in answer.json()["error"]["message"]


def test_versions_that_are_not_there_and_two_proposals_at_once_are_refused(cluster, capsys):
    path = cluster.write("c")
    with pytest.raises(InvalidInputError, match="there is no stored configuration"):
        cluster.start(path, stored=True)
    cluster.start(path)
    assert main(["apply", str(path), "--rollback"]) == 2
    assert "there is no earlier version" in one_line(capsys)
    assert main(["apply", str(path), "--rollback", "7"]) == 2
    assert "version 7 was never in force" in one_line(capsys)
    store = PostgresConfigs(cluster.database)
    store.propose("version: 1", "digest", "somebody")
    with pytest.raises(ProposalPendingError, match="version 2 is being proposed by somebody; try again"):
        store.propose("version: 1", "digest", "somebody else")
    store.close()


def test_a_start_with_the_stored_version_takes_one_that_is_adopted_meanwhile(cluster, monkeypatch):
    path = cluster.write("c")
    cluster.start(path).stop()
    config, versions = agreed(ConfigFile(path, {}), stored=True)
    assert main(["apply", str(cluster.write("new", "a", "b", "c"))]) == 0
    made, make = [], server.make_server

    def kept(*arguments, **options):
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(server, "make_server", kept)
    serving = threading.Thread(
        daemon=True, target=server.serve, args=(config, lambda: config, print), kwargs={"versions": versions}
    )
    serving.start()
    until(lambda: made and made[-1].started)
    assert len(made) == 2 and len(made[-1].config.app.state.runtime.config.agents) == 3
    made[-1].should_exit = True
    serving.join(60)
