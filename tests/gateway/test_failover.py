"""Agents that cannot be used: another one is asked, the circuit opens, and nothing is learned about quality."""

import time

import openai
import pytest
from remote import GOOD, HELLO, attempts

REFUSED = {"status": 401, "error": {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"}}
FORBIDDEN = {"status": 403, "error": {"message": "no access"}}
SPENT = {"status": 429, "error": {"message": "check your plan", "code": "insufficient_quota"}}
#: Settings under which chance chooses, so that what is learned does not hide an agent.
EVEN = "attempts: 3, success_reward: 1.0, floor: 1.0"


def ask(client, **options):
    """One chat, to its end."""
    answer = client.chat.completions.create(model="auto", messages=HELLO, **options)
    return "".join(each.choices[0].delta.content or "" for each in answer if each.choices) if options else answer


def views(service):
    return {each["id"]: each for each in service.get("/v1/agents").json()}


def estimates(service):
    return {name: term["estimate"] for name, term in service.post("/v1/decisions", {}).json()["terms"].items()}


def outcome_of(service, decision_id):
    (outcome,) = service.get(f"/v1/decisions/{decision_id}").json()["outcomes"]
    return outcome


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("refusal", [REFUSED, FORBIDDEN, SPENT], ids=["401", "403", "no credit"])
def test_a_refused_key_opens_the_circuit_and_says_nothing_of_quality(endpoint, serve, agent, client, refusal, streams):
    dead, good = endpoint.script(refusal), endpoint.script(GOOD)
    service = serve(agent(dead, "dead"), agent(good, "one"), agent(good, "two"), router=EVEN)
    before, through = estimates(service), client(service)
    for _ in range(60):
        assert ask(through, **({"stream": True} if streams else {}))
    assert len(endpoint.seen(dead)) <= 5, "not a third of the chats"
    view = views(service)["dead"]
    assert (view["circuit"], view["available"]) == ("open", False)
    assert view["reason"] == "circuit open: key refused, or no credit (401, 402, 403, 407)"
    denied = [each for each in attempts(service, 60) if each.ending == "upstream_denied"]
    outcomes = [outcome_of(service, each.decision_id) for each in denied]
    assert {(each["effect"], each["reward"], each["reason"]) for each in outcomes} == {
        ("noted", None, "not_applicable")
    }
    assert estimates(service)["dead"] == before["dead"] != estimates(service)["one"]


def test_who_is_refused_for_an_open_circuit_reads_why_it_is_open(endpoint, serve, agent, client):
    url = endpoint.script(REFUSED)
    service = serve(agent(url))
    codes, said = [], []
    for _ in range(6):
        with pytest.raises(openai.InternalServerError) as caught:
            ask(client(service))
        codes.append((caught.value.status_code, caught.value.code))
        said.append(caught.value.response.text)
    assert codes[0] == (502, "upstream_denied") and codes[-1] == (503, "no_agent")
    assert "key refused" in said[-1] and "sk-secret" not in "".join(said)
    assert len(endpoint.seen(url)) <= 5


def test_a_wrong_address_is_a_failure_of_the_agent_and_leaves_its_circuit_closed(endpoint, serve, agent, client):
    """A caller may bring it about, with the id of something that is not there."""
    lost, good = endpoint.script({"status": 404, "error": {"message": "no"}}), endpoint.script(GOOD)
    service = serve(agent(lost, "lost"), agent(good, "good"), router=EVEN)
    for _ in range(30):
        assert ask(client(service)).choices[0].message.content == "The answer"
    assert len(endpoint.seen(lost)) > 5 and views(service)["lost"]["circuit"] == "closed"
    assert {each.ending for each in attempts(service, 30)} == {"completed", "upstream_missing"}


def slow_down(seconds=None):
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    return {"status": 429, "headers": headers, "error": {"message": "slow down", "code": "rate_limit_exceeded"}}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("seconds", [None, 2], ids=["429", "Retry-After"])
def test_after_a_429_another_agent_is_asked_before_any_wait(endpoint, serve, agent, client, seconds, streams):
    busy, good = endpoint.script(slow_down(seconds)), endpoint.script(GOOD)
    service = serve(agent(busy, "busy", tries=2), agent(good, "good", tries=2), router=EVEN)
    through, took, calls = client(service), [], 0
    while len(endpoint.seen(busy)) < 3:
        begun = time.monotonic()
        assert ask(through, **({"stream": True} if streams else {}))
        took.append(time.monotonic() - begun)
        calls += 1
        service.post("/v1/admin/agents/busy/reset")  # ends the hold
    assert max(took) < 1.5, "nobody waits two seconds"
    made = attempts(service, calls + 3)
    assert [each.number for each in made if each.agent == "busy"] == [1, 1, 1], "it is not asked twice in a round"
    outcomes = [outcome_of(service, each.decision_id) for each in made if each.agent == "busy"]
    assert {(each["reward"], each["reason"]) for each in outcomes} == {(None, "not_applicable")}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("others", ["none", "not eligible", "busy too", "held"])
def test_only_where_no_other_may_serve_an_agent_is_waited_for(endpoint, serve, agent, client, others, streams):
    url = endpoint.script(slow_down(1), GOOD)
    names = ["one"] if others == "none" else ["one", "two"]
    busy = {"busy too": endpoint.script(slow_down(1), GOOD), "held": endpoint.script(slow_down(60))}
    lines = [agent(url if name == "one" else busy.get(others, endpoint.script(GOOD)), name, tries=2) for name in names]
    service, options = serve(*lines, router=EVEN), {"stream": True} if streams else {}
    if others == "held":  # it has asked for a minute
        with pytest.raises(openai.RateLimitError):
            client(service).chat.completions.create(model="two", messages=HELLO)
    begun = time.monotonic()
    answer = client(service).chat.completions.create(
        model="one" if others == "not eligible" else "auto", messages=HELLO, **options
    )
    assert list(answer) if streams else answer.choices[0].message.content == "The answer"
    assert 1.0 <= time.monotonic() - begun < 5.0
    made = attempts(service, 2 if others in ("none", "not eligible") else 3)
    (done,) = (each for each in made if each.ending == "completed")
    assert done.number == 2 and (done.agent == "one" or others == "busy too")
