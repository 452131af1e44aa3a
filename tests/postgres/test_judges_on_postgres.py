"""Judges on PostgreSQL: values, ranks and audits in one state, also after a restart."""

import json

import pytest
from service_running import Running, until
from test_judges import chat, configured, decision_of, python
from test_processes import same_state

from bot_orch.core.events import FeedbackGiven
from bot_orch.log.stores.postgres.log import PostgresLog
from bot_orch.log.verification import replay
from bot_orch.service.config import parse_config

STRICT = {"name": "strict", "kind": "python", "settings": {"path": "judging_fixtures:says_long"}}
TEXT = configured({"name": "people", "kind": "thumbs"}, python(), STRICT, more="audit: {rate: 1.0, by: strict}")


@pytest.fixture
def replicas(database):
    running = []

    def start():
        running.append(Running(parse_config(TEXT.format(database=json.dumps(database), port=0))))
        return running[-1]

    yield start
    for each in running:
        if each.thread.is_alive():
            each.stop()


def told(service, decision_id):
    return [
        (each["judge"], each["reward"], each["effect"])
        for each in service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]
    ]


def test_both_processes_show_what_judges_said(replicas, database):
    services = [replicas(), replicas()]
    made = [decision_of(chat(service, model)) for service in services for model in ("short", "long")]
    for each in made:
        until(lambda each=each: len(told(services[0], each)) == 2)
    assert told(services[1], made[0]) == [("length", 0.2, "learned"), ("strict", 0.0, "audited")]
    same_state(*services)
    up = {"decision_id": made[0], "reward": 0.9}
    assert services[1].post("/v1/feedback", up).json()["effect"] == "replaced", "judged at the other replica"
    state = same_state(*services)
    views = [service.get("/v1/judges").json() for service in services]
    assert views[0] == views[1]
    length = next(view for view in views[0] if view["name"] == "length")["agents"]
    assert [(each["agent"], each["count"], each["audited"], each["bias"]) for each in length] == [
        ("long", 2, 2, 0.0),
        ("short", 2, 2, pytest.approx(0.2)),
    ]
    for service in services:
        service.stop()
    again = replicas()
    assert again.get("/v1/judges").json() == views[0] and again.runtime.ledger.router.judge_of(made[0])
    again.stop()
    log = PostgresLog(database)
    assert replay(log).ok and state["fingerprint"]
    events = [event for row in log.read() if isinstance(event := row.event(), FeedbackGiven)]
    assert len(events) == 9 and {event.judge for event in events} == {"length", "strict", "people"}
    log.close()
