"""Judges across reloads: the bench changes between two answers, and what was learned stays."""

import logging

import pytest
from service_running import Running, until
from test_judges import chat, decision_of

from bot_orch.service.config import load_config

TEXT = """
version: 1
database: log.sqlite
listen: {port: 0}
router: {policy: ucb1, seed: 5}
judges: JUDGES
agents: [{id: short, kind: python, path: "judging_fixtures:short"}]
"""
LONG = '[{name: words, kind: python, settings: {path: "judging_fixtures:says_long"}}]'
OK = '[{name: words, kind: python, settings: {path: "judging_fixtures:says_ok"}}]'


@pytest.fixture
def files(tmp_path):
    """Writes a configuration file and starts a service with it."""
    path, running = tmp_path / "c.yaml", []
    level = logging.getLogger("bot_orch").level

    def write(judges=LONG):
        path.write_text(TEXT.replace("JUDGES", judges))

    def start():
        running.append(Running(load_config(path), read=lambda: load_config(path)))
        return running[-1]

    yield write, start
    for each in running:
        each.stop()
    logging.getLogger("bot_orch").setLevel(level)  # a reload sets it


def values(service):
    """Judge, agent and mean value of everything that was judged."""
    views = service.get("/v1/judges").json()
    return [(view["name"], each["agent"], each["mean"]) for view in views for each in view["agents"]]


def ask(service):
    return decision_of(chat(service, "auto"))


def test_a_reload_changes_judges(files):
    write, start = files
    write(LONG)
    service = start()
    ask(service)
    until(lambda: values(service) == [("words", "short", 0.0)])
    write(OK)
    assert service.post("/v1/admin/reload").json() == {"changed": ["judges"], "after_restart": []}
    ask(service)
    until(lambda: values(service) == [("words", "short", 0.5)])
    write("[]")
    assert service.post("/v1/admin/reload").json()["changed"] == ["judges"]
    assert service.get("/v1/judges").json()[0]["kind"] == "former"


def test_a_reload_adds_audits_and_keeps_what_was_learned(files):
    write, start = files
    write(LONG)
    service = start()
    first = ask(service)
    until(lambda: service.runtime.ledger.router.judge_of(first))
    write(LONG[:-1] + ", " + OK[1:].replace("words", "strict") + "\naudit: {rate: 1.0, by: strict}")
    assert service.post("/v1/admin/reload").json()["changed"] == ["judges", "audit"]
    ask(service)
    (view,) = until(lambda: [each for each in service.get("/v1/judges").json()[0]["agents"] if each["audited"]])
    assert (view["count"], view["audited"], view["bias"]) == (2, 1, -1.0)
