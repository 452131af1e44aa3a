"""Too much at once: bounded waiting, when to come back, and how many calls one request may cost."""

import asyncio
import time

import openai
import pytest
from remote import GOOD, HELLO, attempts, metric
from service_running import until

from bot_orch.agents.base import CallRequest
from bot_orch.core.events import DecisionMade
from bot_orch.service.routing.rules import RoutingConstraints, narrow

DOWN = {"status": 500, "error": {"message": "down", "type": "server_error"}}
LIMITED = {"status": 429, "headers": {"Retry-After": "900"}, "error": {"message": "slow down"}}


def ask(client, **options):
    return client.chat.completions.create(model="auto", messages=HELLO, **options)


def at_once(service, number, **options):
    """The answers to so many simultaneous chats, exceptions included."""

    async def main():
        url = f"http://127.0.0.1:{service.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0, timeout=60) as client:
            return await asyncio.gather(*(ask(client, **options) for _ in range(number)), return_exceptions=True)

    return asyncio.run(main())


def test_a_hundred_chats_at_once_on_three_agents(endpoint, serve, agent):
    """With default limits."""
    url = endpoint.script({"delay_s": 0.1})
    service = serve(*(agent(url, name, "timeout_s: 60") for name in ("one", "two", "three")))
    answers = at_once(service, 100)
    assert [type(each).__name__ for each in answers if isinstance(each, Exception)] == []
    made = attempts(service, 100)
    assert {attempt.ending for attempt in made} == {"completed"}
    done = [
        metric(service, "bot_orch_attempts_total", agent=name, ending="completed") for name in ("one", "two", "three")
    ]
    assert sum(done) == len(endpoint.seen(url)) == 100
    assert min(done) >= 16, "all agents were used"


def test_two_hundred_chats_at_once_on_one_slow_model(endpoint, serve, agent):
    """With default limits: none is refused."""
    url = endpoint.script({"delay_s": 2.0})
    service = serve(agent(url, limits=""))
    answers = at_once(service, 200)
    assert [str(each) for each in answers if isinstance(each, Exception)] == []
    assert len(endpoint.seen(url)) == 200
    assert metric(service, "bot_orch_diverted_total", agent="upstream") == 0


def test_load_does_not_change_whom_the_policy_may_choose(endpoint, serve, agent, client):
    """Many more calls than slots: every decision is drawn from both agents, and waits for the chosen one."""
    url = endpoint.script({"delay_s": 0.05})
    service = serve(agent(url, "one", "concurrency: 2"), agent(url, "two", "concurrency: 2"))
    answers = at_once(service, 40)
    assert [str(each) for each in answers if isinstance(each, Exception)] == []
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    made = [event for row in rows if isinstance(event := row.event(), DecisionMade)]
    assert len(made) == 40 and [each.excluded for each in made if each.excluded] == []
    assert all(each.column("propensity").min() > 0 for each in made)


def test_what_load_diverts_is_counted_and_an_alarm(endpoint, serve, agent, capsys):
    """One agent has one slot and hardly waits: the other one answers, and everybody sees why."""
    slow, quick = endpoint.script({"delay_s": 0.5}), endpoint.script(GOOD)
    service = serve(agent(slow, "slow", "concurrency: 1, wait_s: 0.05"), agent(quick, "quick"))
    for _ in range(5):
        answers = at_once(service, 12)
        assert [str(each) for each in answers if isinstance(each, Exception)] == []
        if metric(service, "bot_orch_diverted_total", agent="slow"):
            break
    diverted = metric(service, "bot_orch_diverted_total", agent="slow")
    assert diverted > 0 and metric(service, "bot_orch_diverted_total", agent="quick") == 0
    until(lambda: b"load</span> kept" in service.get("/").body)
    table = service.get("/dashboard/agents.csv").body.decode().splitlines()
    column = table[0].split(",").index("diverted")
    assert [float(row.split(",")[column]) for row in table[1:]] == [diverted, 0]


def test_the_overhead_counts_the_wait_for_a_slot(endpoint, serve, agent):
    """Three calls of .4 s through one slot: the last one waits for the other two, which is no time of the agent."""
    service = serve(agent(endpoint.script({"delay_s": 0.4}), limits="concurrency: 1, wait_s: 20"))

    async def scenario():
        url = f"http://127.0.0.1:{service.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0, timeout=60) as client:
            raw = client.chat.completions.with_raw_response
            asked = [raw.create(model="auto", messages=HELLO, stream=each) for each in (False, False, True)]
            return await asyncio.gather(*asked)

    shown = sorted(float(each.headers["x-bot-orch-overhead-ms"]) for each in asyncio.run(scenario()))
    assert shown[1] > 350 and shown[2] > 700, "the agent took 400 ms for each"


def test_the_line_is_bounded_and_says_when_to_come_back(endpoint, serve, agent):
    url = endpoint.script({"delay_s": 0.5})
    service = serve(agent(url, limits="concurrency: 1, wait_s: 20, max_waiting: 2"))
    answers = at_once(service, 8)
    refused = [each for each in answers if isinstance(each, openai.APIStatusError)]
    assert (len(refused), len(endpoint.seen(url))) == (5, 3)
    for error in refused:
        assert (error.status_code, error.body["code"]) == (503, "no_agent")
        assert int(error.response.headers["retry-after"]) >= 1
        assert "x-should-retry" not in error.response.headers, "it cost no call: the client may try again"


def test_waiting_has_an_end(endpoint, serve, agent, client):
    url = endpoint.script({"delay_s": 1.0})
    service = serve(agent(url, limits="concurrency: 1, wait_s: 0.05"))
    refused = [each for each in at_once(service, 2) if isinstance(each, openai.APIStatusError)]
    assert [(each.status_code, each.body["code"]) for each in refused] == [(503, "refused_busy")]
    assert refused[0].response.headers["retry-after"] == "1"


def test_retry_after_holds_an_agent_back_no_longer_than_a_minute(endpoint, serve, agent, client):
    url, most = endpoint.script(LIMITED, GOOD), 60
    service = serve(agent(url))
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client(service))
    assert caught.value.response.headers["retry-after"] == str(most)
    assert caught.value.body["message"] == "slow down"
    (view,) = service.get("/v1/agents").json()
    assert most - 5 < view["held_s"] <= most and view["retry_in_s"] == pytest.approx(view["held_s"], abs=0.5)
    assert (view["available"], view["circuit"]) == (False, "closed") and "slow down" in view["reason"]
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(service))
    assert caught.value.body["code"] == "no_agent"
    assert caught.value.body["details"]["excluded"] == {"upstream": "the agent asked to slow down"}
    assert most - 5 < int(caught.value.response.headers["retry-after"]) <= most
    assert len(endpoint.seen(url)) == 1


def test_an_agent_that_is_held_back_can_be_reset(endpoint, serve, agent, client):
    url = endpoint.script(LIMITED, GOOD)
    service = serve(agent(url))
    with pytest.raises(openai.RateLimitError):
        ask(client(service))
    assert service.post("/v1/admin/agents/nobody/reset").status == 404
    assert service.post("/v1/admin/agents/upstream/reset").json() == {"agent": "upstream", "available": True}
    (view,) = service.get("/v1/agents").json()
    assert (view["held_s"], view["reason"], view["available"]) == (0.0, "", True)
    assert ask(client(service)).choices[0].message.content == "The answer"


def test_reset_closes_the_circuit(endpoint, serve, agent, client):
    url = endpoint.script(*[DOWN] * 3, GOOD)
    service = serve(agent(url))
    for _ in range(5):
        with pytest.raises(openai.InternalServerError):
            ask(client(service))
    (view,) = service.get("/v1/agents").json()
    assert view["circuit"] == "open" and "circuit" in view["reason"] and 5 < view["retry_in_s"] <= 10
    service.post("/v1/admin/agents/upstream/reset")
    assert ask(client(service)).choices[0].message.content == "The answer"


@pytest.mark.parametrize("answer", [DOWN, {**LIMITED, "headers": {}}], ids=["500", "429"])
@pytest.mark.parametrize("streams", [False, True])
def test_one_call_of_the_client_makes_few_calls_of_agents(endpoint, serve, agent, client, answer, streams):
    """The official client retries twice by itself, the service fails over, the guard retries."""
    url = endpoint.script(answer)
    service = serve(*(agent(url, name, tries=3) for name in ("one", "two", "three")))
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client(service, max_retries=2), stream=streams)
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(endpoint.seen(url)) == len(attempts(service, 4)) == 4, "router.attempts and one more"
    assert {attempt.agent for attempt in attempts(service, 4)} == {"one", "two", "three"}, "others before repetitions"
    assert (
        metric(service, "bot_orch_requests_total", route="/v1/chat/completions", status=str(caught.value.status_code))
        == 1
    )


def test_an_agent_alone_is_retried(endpoint, serve, agent, client):
    url = endpoint.script(DOWN, GOOD)
    service = serve(agent(url, tries=2))
    assert ask(client(service)).choices[0].message.content == "The answer"
    assert [attempt.ending for attempt in attempts(service, 2)] == ["upstream_5xx", "completed"]


def test_a_client_comes_back_when_it_was_told_to(endpoint, serve, agent, client):
    """A refusal that cost no call is retried by the official client, after Retry-After."""
    url = endpoint.script({**LIMITED, "headers": {"Retry-After": "1"}}, GOOD)
    service = serve(agent(url))
    with pytest.raises(openai.RateLimitError):
        ask(client(service))
    begun = time.monotonic()
    assert ask(client(service, max_retries=2)).choices[0].message.content == "The answer"
    assert time.monotonic() - begun < 20
    assert until(lambda: metric(service, "bot_orch_requests_total", route="/v1/chat/completions", status="503") >= 1)
    assert len(endpoint.seen(url)) == 2


def test_people_get_no_task_because_models_are_busy(endpoint, serve, agent):
    """The policy may choose a person; a line at the models does not send all others there."""
    url = endpoint.script({"delay_s": 2.0})
    models = [agent(url, name, "concurrency: 1, wait_s: 20") for name in ("one", "two")]
    service = serve(*models, "{id: person, kind: human}")
    runtime = service.runtime

    def left(eligible):
        constraints = RoutingConstraints(eligible=eligible, calls=True)
        return narrow(constraints, runtime.config.router, runtime.ledger, guards=runtime.guards, now_us=0).left

    async def ask_of(names, eligible):
        asked = [runtime.guards[name].call(CallRequest(name, text="x")) for name in names]
        calls = [asyncio.ensure_future(each) for each in asked]
        await asyncio.sleep(0.05)
        found = left(eligible)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return found

    for names, eligible, expected in (
        ((), None, ["one", "two", "person"]),
        (("one",), None, ["one", "two", "person"]),
        (("one", "two"), None, ["one", "two", "person"]),
        (("one",), ("one", "two"), ["one", "two"]),
    ):
        asked = asyncio.run_coroutine_threadsafe(ask_of(names, eligible), service.loop)
        assert asked.result(60) == expected
