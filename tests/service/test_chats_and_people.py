"""A chat's client waits: people are asked only where the settings or the request say so."""

import collections

import pytest
from service_running import BASE, hang_up, until

CHAT = {"model": "auto", "messages": [{"role": "user", "content": "LOOK"}]}
PERSON = "  - {{id: person, kind: human, timeout_s: 600{more}}}\n"


def configured(more="", rules="", base=BASE):
    text = base.replace("floor: 0.05,", f"floor: 1.0, rules: [{rules}],")
    return text + PERSON.replace("{more}", more)


def drawn(service, n=24, **more):
    answers = [service.post("/v1/chat/completions", {**CHAT, **more}) for _ in range(n)]
    assert {answer.status for answer in answers} == {200}
    return answers, collections.Counter(answer.headers["x-bot-orch-agent"] for answer in answers)


def waiting(service):
    return b"LOOK" in service.get("/v1/queue").body


def test_a_chat_is_drawn_among_the_others(start):
    service = start(configured())
    answers, counts = drawn(service)
    assert set(counts) == {"quick", "careful"}
    assert {answer.headers["x-bot-orch-propensity"] for answer in answers} == {"0.5"}, "exact among those left"
    shown = service.get(f"/v1/decisions/{answers[0].headers['x-bot-orch-decision-id']}").json()
    assert shown["excluded"] == {"person": "a person, for tasks only"}
    assert sum(shown["decision"]["propensities"].values()) == pytest.approx(1.0)
    made = [service.post("/v1/decisions").json() for _ in range(24)]
    assert {each["agent"] for each in made} == {"quick", "careful", "person"}, "who decides alone gets people, too"


@pytest.mark.parametrize(
    ("more", "rules", "body"),
    [
        (", interfaces: [chat]", "{{deny: [quick, careful]}}", {}),
        ("", "{{pin: person}}", {}),
        ("", "{{kind: legal, allow: [person]}}", {"bot_orch": {"kind": "legal"}}),
        ("", "", {"model": "person"}),
    ],
)
def test_people_are_asked_where_somebody_says_so(start, more, rules, body):
    service = start(configured(more, rules))
    with hang_up(service, "/v1/chat/completions", {**CHAT, **body}):
        until(lambda: waiting(service))


def test_people_are_asked_if_there_is_nobody_else_and_by_the_kill_switch(start):
    alone = BASE.partition("agents:")[0] + "agents:\n"
    service = start(configured(base=alone))
    with hang_up(service, "/v1/chat/completions", CHAT):
        until(lambda: waiting(service))
    switched = start(configured(), database="':memory:'")
    switched.post("/v1/admin/kill-switch", {"agent": "person"})
    with hang_up(switched, "/v1/chat/completions", CHAT):
        until(lambda: waiting(switched))


def test_a_rule_of_another_kind_does_not_count(start):
    service = start(configured(rules="{{kind: legal, allow: [person]}}"))
    assert set(drawn(service)[1]) == {"quick", "careful"}
