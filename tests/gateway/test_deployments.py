"""Several deployments of one agent, and variants of one model."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from remote import GOOD, HELLO, attempts

from bot_orch.agents import CallFailure, Ending
from bot_orch.agents.deployments import Deployment, DeploymentPool
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

DOWN = {"status": 500, "error": {"message": "down"}}
LIMITED = {"status": 429, "error": {"message": "slow down"}, "headers": {"Retry-After": "30"}}


def pooled(*urls, extra="", fields=()):
    places = ", ".join(
        f'{{base_url: "{url}"{more}}}' for url, more in zip(urls, fields or [""] * len(urls), strict=True)
    )
    settings = f"{{model: m, allow_private: true, deployments: [{places}]{extra}}}"
    return f"{{id: one, kind: openai, retry: {{tries: 1}}, settings: {settings}}}"


def ask(client, **options):
    return client.chat.completions.with_raw_response.create(model="auto", messages=HELLO, **options)


@pytest.mark.parametrize("rotation", ["least_used", "round_robin"])
def test_calls_are_spread_and_learned_as_one_agent(endpoint, serve, client, rotation):
    urls = [endpoint.script(GOOD) for _ in range(3)]
    service = serve(pooled(*urls, extra=f", rotation: {rotation}"))
    through = client(service)
    assert {ask(through).headers["x-bot-orch-agent"] for _ in range(6)} == {"one"}
    assert [len(endpoint.seen(url)) for url in urls] == [2, 2, 2]
    assert {each.agent for each in attempts(service, 6)} == {"one"}
    assert [each["id"] for each in service.get("/v1/models").json()["data"]] == ["auto", "one"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fault", [DOWN, LIMITED, {"status": 401, "error": {"message": "key"}}, {"then": "drop"}])
def test_a_deployment_that_fails_is_skipped(endpoint, serve, client, streams, fault):
    if fault.get("then") and not streams:
        pytest.skip("only streams break off")
    bad, good = endpoint.script({"words": [], **fault}), endpoint.script(GOOD)
    service = serve(pooled(bad, good))
    for _ in range(4):
        answer = ask(client(service), stream=streams)
        said = answer.parse()
        assert "The " in (str([p.to_dict() for p in said]) if streams else said.choices[0].message.content)
    assert (len(endpoint.seen(bad)), len(endpoint.seen(good))) == (1, 4)
    assert Counter(each.ending for each in attempts(service, 5))["completed"] == 4


def test_a_deployment_comes_back(endpoint, serve, client):
    first, second = endpoint.script(DOWN, GOOD), endpoint.script(GOOD)
    through = client(serve(pooled(first, second, extra=", rest_s: 0.0")))
    for _ in range(4):
        ask(through)
    assert len(endpoint.seen(first)) >= 2


def test_all_down_is_the_failure_of_the_agent(endpoint, serve, client):
    urls = endpoint.script(DOWN), endpoint.script(DOWN)
    service = serve(pooled(*urls))
    with pytest.raises(openai.InternalServerError, match="down"):
        ask(client(service))
    assert [len(endpoint.seen(url)) for url in urls] == [1, 1]
    assert [each.ending for each in attempts(service, 2)] == ["upstream_5xx"] * 2


def test_limits_of_a_minute(endpoint, serve, client):
    urls = endpoint.script(GOOD), endpoint.script(GOOD)
    through = client(serve(pooled(*urls, fields=(", rpm: 2", ", tpm: 25"))))
    for _ in range(4):
        ask(through)
    assert [len(endpoint.seen(url)) for url in urls] == [2, 2], "13 tokens each: the second is over its limit"
    with pytest.raises(openai.RateLimitError) as limited:
        ask(through)
    assert 50 < int(limited.value.response.headers["retry-after"]) <= 60


def test_a_region_restricts_deployments(endpoint, serve, client):
    eu, us = endpoint.script(GOOD), endpoint.script(GOOD)
    through = client(serve(pooled(eu, us, fields=(", region: eu", ", region: us"))))
    for _ in range(3):
        ask(through, extra_body={"bot_orch": {"region": "us"}})
    assert [len(endpoint.seen(url)) for url in (eu, us)] == [0, 3]
    with pytest.raises(openai.BadRequestError, match="lack of region"):
        ask(through, extra_body={"bot_orch": {"region": "asia"}})


def test_the_pool():
    now = [0.0]
    pool = DeploymentPool([Deployment("a", rpm=1), Deployment("b")], rest_s=10.0, clock=lambda: now[0])
    first = pool.choose(1)
    entry = pool.begin(first, 1)
    assert (first, pool.choose(1)) == (0, 1)
    pool.end(first, entry)
    pool.failed(1, CallFailure(Ending.UPSTREAM_5XX))
    assert pool.choose(1) == 1, "it rests, and there is no other"
    pool.failed(1, CallFailure(Ending.RATE_LIMITED, retry_after_s=20.0))
    assert pool.choose(1) is None and pool.wait_s() == 20.0
    now[0] = 20.0
    assert pool.choose(1) == 1
    now[0] = 60.0
    assert pool.choose(1) == 0, "a minute is over"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{model: m}", "base_url: or deployments must be given"),
        ('{model: m, base_url: "https://a.example/v1", deployments: [{base_url: "https://b.example"}]}', "not both"),
        ('{model: m, deployments: [{base_url: "http://127.0.0.1/v1"}]}', "deployments[0].base_url"),
        ('{model: m, deployments: [{base_url: "https://b.example", rpm: 0}]}', "rpm: is 0"),
        ('{model: m, deployments: [{base_url: "https://b.example", rmp: 1}]}', "did you mean 'rpm'?"),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: openai, settings: {settings}}}]"))
    assert message in str(refused.value)


@pytest.mark.parametrize("streams", [False, True])
def test_variants_of_one_model_are_agents(endpoint, serve, agent, client, streams):
    url = endpoint.script(GOOD)
    variants = [
        agent(url, "brief", extra=', system: "Be brief.", params: {temperature: 0.2}'),
        agent(url, "plain"),
    ]
    through = client(serve(*variants))
    own = [{"role": "system", "content": "Own."}, *HELLO]
    for model, messages in (("brief", HELLO), ("brief", own), ("plain", HELLO)):
        answer = through.chat.completions.create(model=model, messages=messages, temperature=0.9, stream=streams)
        list(answer)
    first, second, third = (each["document"] for each in endpoint.seen(url))
    assert first["messages"] == [{"role": "system", "content": "Be brief."}, *HELLO] and first["temperature"] == 0.2
    assert second["messages"][0] == {"role": "system", "content": "Be brief.\n\nOwn."}
    assert third["messages"] == HELLO and third["temperature"] == 0.9


@pytest.mark.parametrize("streams", [False, True])
def test_calls_that_a_deployment_failed_are_attempts_in_the_log(endpoint, serve, client, streams):
    urls = [endpoint.script(DOWN), endpoint.script(LIMITED), endpoint.script(GOOD)]
    service = serve(pooled(*urls))
    answer = ask(client(service), stream=streams)
    assert not streams or list(answer.parse())
    found = attempts(service, 3)
    assert [(each.number, each.ending, each.status) for each in found] == [
        (1, "upstream_5xx", 500),
        (2, "rate_limited", 429),
        (3, "completed", 200),
    ]
    shown = service.get(f"/v1/decisions/{answer.headers['x-bot-orch-decision-id']}").json()
    assert [each["ending"] for each in shown["attempts"]] == ["upstream_5xx", "rate_limited", "completed"]
    assert all(each.elapsed_s > 0 for each in found) and service.get("/v1/agents").json()[0]["circuit"] == "closed"


def test_limits_hold_for_fifty_calls_at_once(endpoint, serve):
    urls = [endpoint.script(GOOD) for _ in range(3)]
    service = serve(
        pooled(*urls, fields=(", rpm: 10", ", rpm: 15", ", tpm: 130")).replace(
            "retry:", "limits: {concurrency: 50}, retry:"
        )
    )
    body = {"model": "auto", "messages": HELLO, "max_tokens": 11}
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: service.post("/v1/chat/completions", body), range(50)))
    served = [len(endpoint.seen(url)) for url in urls]
    assert served[:2] == [10, 15] and served[2] >= 1
    told = Counter(answer.status for answer in answers)
    assert told[200] == sum(served) and told[200] + told[429] + told[503] == 50
    assert served[2] * 13 <= 130, "of 13 tokens each"
