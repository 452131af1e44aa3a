"""One agent at several places, and variants of one model."""

import openai
import pytest
from remote import GOOD, HELLO, attempts

from bot_orch.agents import endpoints
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

DOWN = {"status": 500, "error": {"message": "down"}}
LIMITED = {"status": 429, "error": {"message": "slow down"}, "headers": {"Retry-After": "30"}}
DENIED = {"status": 401, "error": {"message": "key"}}
ROLE_ONLY = {"then": "drop", "words": []}


@pytest.fixture
def places(agent):
    """One line of configuration: an agent at these addresses; what is behind them may be changed."""

    def line(*urls, fields=(), extra=""):
        more = fields or [""] * len(urls)
        listed = ", ".join(f'{{base_url: "{url}"{each}}}' for url, each in zip(urls, more, strict=True))
        return agent("URL", "one", extra=extra).replace('base_url: "URL"', f"endpoints: [{listed}]")

    return line


def ask(client, **options):
    return client.chat.completions.with_raw_response.create(model="auto", messages=HELLO, **options)


def test_the_first_place_is_asked_and_all_are_one_agent(endpoint, serve, client, places):
    urls = [endpoint.script(GOOD) for _ in range(3)]
    service = serve(places(*urls))
    through = client(service)
    assert {ask(through).headers["x-bot-orch-agent"] for _ in range(4)} == {"one"}
    assert [len(endpoint.seen(url)) for url in urls] == [4, 0, 0]
    assert [each["id"] for each in service.get("/v1/models").json()["data"]] == ["auto", "one"]


def test_a_place_has_a_key_and_a_model_of_its_own(endpoint, serve, client, places, monkeypatch):
    monkeypatch.setenv("FIRST", "sk-first")
    monkeypatch.setenv("OTHERS", "sk-others")
    urls = [endpoint.script(DOWN), endpoint.script(GOOD)]
    fields = (", api_key: '${FIRST}'", ", model: m-there")
    ask(client(serve(places(*urls, fields=fields, extra=", api_key: '${OTHERS}'"))))
    seen = [endpoint.seen(url)[0] for url in urls]
    assert [each["headers"]["authorization"] for each in seen] == ["Bearer sk-first", "Bearer sk-others"]
    assert [each["document"]["model"] for each in seen] == ["m", "m-there"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fault", [DOWN, LIMITED, DENIED, ROLE_ONLY])
def test_the_next_place_is_asked_and_the_failed_one_rests(endpoint, serve, client, places, streams, fault):
    if fault is ROLE_ONLY and not streams:
        pytest.skip("only streams break off")
    bad, good = endpoint.script(fault), endpoint.script(GOOD)
    service = serve(places(bad, good))
    for _ in range(4):
        said = ask(client(service), stream=streams).parse()
        assert "The " in (str([p.to_dict() for p in said]) if streams else said.choices[0].message.content)
    assert (len(endpoint.seen(bad)), len(endpoint.seen(good))) == (1, 4)
    found = [each.ending for each in attempts(service, 5)]
    assert found.count("completed") == 4 and found[0] != "completed"
    assert service.get("/v1/agents").json()[0]["circuit"] == "closed"


def test_a_place_that_is_away(endpoint, serve, client, places):
    good = endpoint.script(GOOD)
    service = serve(places("http://127.0.0.1:9/v1", good))
    assert ask(client(service)).parse().choices[0].message.content == "The answer"
    assert [each.ending for each in attempts(service, 2)] == ["connection", "completed"]


def test_a_silent_place_rests_for_the_next_request(endpoint, serve, agent, client):
    silent, good = endpoint.script({"then": "hang"}), endpoint.script(GOOD)
    listed = f'endpoints: [{{base_url: "{silent}"}}, {{base_url: "{good}"}}]'
    service = serve(agent("URL", "one", "timeout_s: 0.5").replace('base_url: "URL"', listed))
    through = client(service)
    with pytest.raises(openai.InternalServerError):
        ask(through)
    assert ask(through).parse().choices[0].message.content == "The answer"


def test_a_place_comes_back(endpoint, serve, client, places, monkeypatch):
    monkeypatch.setattr(endpoints, "_REST_S", 0.0001)
    first, second = endpoint.script(DOWN, GOOD), endpoint.script(GOOD)
    through = client(serve(places(first, second)))
    for _ in range(3):
        ask(through)
    assert (len(endpoint.seen(first)), len(endpoint.seen(second))) == (3, 1)


def test_all_down_is_the_failure_of_the_agent(endpoint, serve, client, places):
    urls = endpoint.script(DOWN), endpoint.script(DOWN)
    service = serve(places(*urls))
    with pytest.raises(openai.InternalServerError, match="down"):
        ask(client(service))
    assert [len(endpoint.seen(url)) for url in urls] == [1, 1]
    assert [each.ending for each in attempts(service, 2)] == ["upstream_5xx"] * 2


def test_failed_places_leave_calls_for_the_other_agents(endpoint, serve, agent, client):
    down, good = endpoint.script(*[DOWN] * 8), endpoint.script(GOOD)
    listed = "endpoints: [" + ", ".join([f'{{base_url: "{down}"}}'] * 4) + "]"
    service = serve(agent("URL", "one", tries=2).replace('base_url: "URL"', listed), agent(good, "two"))
    through = client(service)
    assert [ask(through).headers["x-bot-orch-agent"] for _ in range(3)] == ["two"] * 3
    assert len(endpoint.seen(down)) >= 4


def test_a_request_that_is_at_fault_goes_to_one_place(endpoint, serve, client, places):
    urls = endpoint.script({"status": 400, "error": {"message": "messages: wrong"}}), endpoint.script(GOOD)
    service = serve(places(*urls))
    for _ in range(2):
        with pytest.raises(openai.BadRequestError, match="wrong"):
            ask(client(service))
    assert [len(endpoint.seen(url)) for url in urls] == [2, 0]


@pytest.mark.parametrize("streams", [False, True])
def test_calls_that_a_place_failed_are_attempts_in_the_log(endpoint, serve, client, places, streams):
    urls = [endpoint.script(DOWN), endpoint.script(LIMITED), endpoint.script(GOOD)]
    service = serve(places(*urls))
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
    assert all(each.elapsed_s > 0 for each in found)


def test_passed_requests_go_to_a_place_that_is_well(endpoint, serve, client, places):
    bad, good = endpoint.script(DOWN), endpoint.script(GOOD, {"document": {"data": []}})
    service = serve(places(bad, good), after="passthrough: {agent: one}")
    ask(client(service))
    assert service.post("/v1/embeddings", {"input": "a"}).json() == {"data": []}
    assert len(endpoint.seen(bad)) == 1


def test_passed_requests_go_on_to_the_next_place_if_one_is_away(endpoint, serve, places):
    good = endpoint.script({"document": {"data": []}}, {"document": {"data": [1]}})
    service = serve(places("http://127.0.0.1:9/v1", good), after="passthrough: {agent: one}")
    found = [service.post("/v1/embeddings", {"input": "a"}) for _ in range(2)]
    assert [each.json() for each in found] == [{"data": []}, {"data": [1]}]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("model: m", "base_url: or endpoints must be given"),
        ('model: m, base_url: "https://a.example/v1", endpoints: [{base_url: "https://b.example"}]', "not both"),
        ('model: m, endpoints: [{base_url: "http://169.254.169.254/v1"}]', "endpoints[0].base_url"),
        ('model: m, endpoints: [{base_url: "https://b.example", mdoel: 1}]', "did you mean 'model'?"),
        ('model: m, deployments: [{base_url: "https://b.example"}]', "write endpoints"),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: openai, {settings}}}]"))
    assert message in str(refused.value)


@pytest.mark.parametrize("streams", [False, True])
def test_variants_of_one_model_are_agents(endpoint, serve, agent, client, streams):
    url = endpoint.script(GOOD)
    variants = [
        agent(url, "brief", extra=', params: {system: "Be brief.", temperature: 0.2}'),
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
