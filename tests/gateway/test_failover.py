"""Agents that cannot be used: another one is asked, the circuit opens, and nothing is learned about quality."""

import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from remote import GOOD, HELLO, attempts, metric
from service_running import until

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


HUNG = {"then": "hang", "words": []}


def lost(service, callers, rounds, *, timeout_s, streams):
    """How many chats get no answer, of callers who ask one after the other and give up after so many seconds."""
    url, options = f"http://127.0.0.1:{service.port}/v1", {"stream": True} if streams else {}

    def call(_):
        failed = 0
        with openai.OpenAI(base_url=url, api_key="unused", max_retries=0, timeout=timeout_s) as through:
            for _ in range(rounds):
                try:
                    ask(through, **options)
                except openai.APIConnectionError:
                    failed += 1
        return failed

    with ThreadPoolExecutor(callers) as pool:
        return sum(pool.map(call, range(callers)))


def preferred(service, through, name, rounds=60, **options):
    """Teach that one agent is better; returns its share of the next decisions."""
    for _ in range(rounds):
        raw = through.chat.completions.with_raw_response.create(model="auto", messages=HELLO, **options)
        list(raw.parse())
        made = raw.headers
        reward = 1.0 if made["x-bot-orch-agent"] == name else 0.0
        body = {"decision_id": made["x-bot-orch-decision-id"], "reward": reward}
        assert service.post("/v1/feedback", body).status == 200
    return service.post("/v1/decisions", {}).json()["propensities"][name]


@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_that_falls_silent_loses_few_requests_of_impatient_callers(endpoint, serve, agent, client, streams):
    """It accepts and sends nothing; callers give up long before the gateway would."""
    url, good = endpoint.script(*[GOOD] * 90, HUNG), endpoint.script(GOOD)
    lines = (agent(url, "hung", limits=""), agent(good, "one"), agent(good, "two"))
    service = serve(*lines, router="attempts: 3, floor: 0.05", policy="bot")
    assert preferred(service, client(service), "hung", **({"stream": True} if streams else {})) > 0.9
    while len(endpoint.seen(url)) < 90:
        ask(client(service))
    assert lost(service, 8, 5, timeout_s=1.0, streams=streams) <= 10, "the first of each caller, not most of forty"
    view = views(service)["hung"]
    assert view["circuit"] != "closed" and "without a byte" in view["reason"]
    assert metric(service, "bot_orch_attempts_total", agent="hung", ending="abandoned") >= 3


@pytest.mark.parametrize("streams", [False, True])
def test_one_that_is_silent_from_the_start_is_given_up_if_there_is_another(endpoint, serve, agent, streams):
    url, good = endpoint.script(HUNG), endpoint.script(GOOD)
    service = serve(agent(url, "hung"), agent(good, "one"), router=EVEN)
    assert 3 <= lost(service, 8, 5, timeout_s=2.0, streams=streams) <= 10
    alone = serve(agent(url, "hung"))
    assert lost(alone, 4, 1, timeout_s=2.0, streams=streams) == 4
    assert views(alone)["hung"]["circuit"] == "closed", "its first answer may be under way"


@pytest.mark.parametrize("streams", [False, True])
def test_callers_in_a_hurry_do_not_open_the_circuit_of_an_agent_that_is_as_slow_as_ever(
    endpoint, serve, agent, client, streams
):
    slow, good = endpoint.script({"delay_s": 0.8}), endpoint.script(GOOD)
    service = serve(agent(slow, "slow"), agent(good, "good"), router=EVEN)
    options = {"stream": True} if streams else {}
    while len(endpoint.seen(slow)) < 2:
        ask(client(service), **options)
    assert lost(service, 4, 4, timeout_s=0.4, streams=streams) >= 3
    assert views(service)["slow"]["circuit"] == "closed"
    until(lambda: metric(service, "bot_orch_attempts_total", agent="slow", ending="cancelled_by_caller") >= 3)
    assert metric(service, "bot_orch_attempts_total", agent="slow", ending="abandoned") == 0
