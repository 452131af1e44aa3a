"""``success_reward`` is a default: a report takes its place, with or without judges, and the fold is exact."""

import pytest
from service_running import Running, until

from bot_orch.core.events import FeedbackGiven
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.service.config import parse_config

CONFIG = """
version: 1
database: {database}
listen: {{port: 0}}
router: {{policy: ucb1, seed: 1, success_reward: 1.0}}
agents:
  - {{id: quick, kind: python, path: 'answering:echoed'}}
"""


@pytest.fixture
def serve(tmp_path):
    started = []

    def begin(judges=""):
        started.append(Running(parse_config((CONFIG + judges).format(database=tmp_path / "log.sqlite"))))
        return started[-1]

    yield begin
    for service in started:
        service.stop()


def ask(service, text="hello"):
    asked = {"model": "auto", "messages": [{"role": "user", "content": text}]}
    answer = service.post("/v1/chat/completions", asked)
    assert answer.status == 200, answer
    decision = answer.headers["x-bot-orch-decision-id"]
    until(lambda: reports(service, decision))
    return decision


def reports(service, decision):
    rows = service.call(lambda: service.runtime.writer.log.about(decision))
    return [event for row in rows if isinstance(event := row.event(), FeedbackGiven)]


def policy(service):
    part = service.call(lambda: service.runtime.ledger.router._state.parts["policy"])
    return float(part["count"][0]), float(part["total"][0])


@pytest.mark.parametrize("judges", ["", "judges: [{{name: thumbs, kind: thumbs}}]\n"], ids=["none", "thumbs"])
def test_a_report_takes_the_place_of_success(serve, tmp_path, judges):
    service = serve(judges)
    decisions = [ask(service) for _ in range(2)]
    assert [each.default for each in reports(service, decisions[0])] == [True] and policy(service) == (2.0, 2.0)
    for decision in decisions:
        told = service.post("/v1/feedback", {"decision_id": decision, "reward": 0.25})
        assert (told.status, told.json()["effect"]) == (200, "replaced")
    assert policy(service) == (2.0, 0.5)
    live = service.call(lambda: service.runtime.ledger.fingerprint())
    service.stop()
    log = open_log(tmp_path / "log.sqlite")
    try:
        assert fold(log, use_snapshot=False).fingerprint() == live
    finally:
        log.close()
