"""Tasks with a deadline: agents share it, and one that is silent too long is given up for another."""

from functools import partialmethod

import pytest

from bot_orch import Orchestrator

CONFIG = """
version: 1
database: {{database}}
listen: {{{{host: 127.0.0.1, port: {{port}}}}}}
router: {{{{policy: epsilon-greedy, floor: 1.0, seed: 2, {settings}}}}}
agents:
{agents}
"""


def serve(start, settings, *functions):
    agents = "\n".join(f"  - {{{{id: {name}, kind: python, path: 'answering:{name}'}}}}" for name in functions)
    return start(CONFIG.format(settings=settings, agents=agents))


def asked(service, times, deadline_s):
    return [service.post("/v1/tasks", {"task": {"text": "x"}, "deadline_s": deadline_s}) for _ in range(times)]


def first_decisions(service, answers):
    """The decision before the one that is named in the answer, of answers that took two."""
    second = [answer for answer in answers if answer.headers["x-bot-orch-attempts"] == "2"]
    found = [service.get(f"/v1/decisions/{answer.headers['x-bot-orch-decision-id']}").json() for answer in second]
    return [(service.get(f"/v1/decisions/{each['round'][0]}").json(), each) for each in found]


def test_an_agent_that_hangs_is_given_up_for_another(start, monkeypatch):
    monkeypatch.setattr(Orchestrator, "patience", partialmethod(Orchestrator.patience, rule="half"))
    service = serve(start, "attempts: 2", "hanging", "at_once")
    answers = asked(service, 4, deadline_s=1.0)
    assert [answer.status for answer in answers] == [200] * 4
    pairs = first_decisions(service, answers)
    assert pairs
    for first, second in pairs:
        (outcome,) = first["outcomes"]
        assert (first["decision"]["agent"], second["decision"]["agent"]) == ("hanging", "at_once")
        assert (outcome.get("reward"), outcome["reason"]) == (None, "deadline"), outcome
        assert 0.5 <= outcome["elapsed_s"] < 1.0
        assert first["decision"]["propensities"] == {"hanging": 0.5, "at_once": 0.5}
        assert second["decision"]["propensities"] == {"hanging": 0.0, "at_once": 1.0}


def test_without_attempts_the_deadline_is_the_end(start):
    service = serve(start, "attempts: 1", "hanging", "at_once")
    answers = asked(service, 6, deadline_s=0.1)
    assert {answer.status for answer in answers} == {200, 504}


def test_the_deadline_is_that_of_the_whole_round(start):
    """One fails after 0.3 s and the other takes over, in the time that is left."""
    service = serve(start, "attempts: 3", "failing_late", "hanging")
    answers = asked(service, 3, deadline_s=0.6)
    assert {answer.status for answer in answers} == {504}
    pairs = first_decisions(service, answers)
    assert pairs
    for _, second in pairs:
        assert second["outcomes"][0]["elapsed_s"] < 0.5, "not another 0.6 s"


@pytest.mark.parametrize("settings", ["attempts: 0", "attempts: 101"])
def test_mistakes_are_named(start, settings):
    with pytest.raises(Exception, match=settings.split(":")[0]):
        serve(start, settings, "hanging")
