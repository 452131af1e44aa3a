"""Guardrails before and after the call, and the cache of answers."""

import sys

import openai
import pytest
from remote import GOOD, HELLO, attempts, metric
from service_running import Running, until

from bot_orch.core.events import DecisionMade, FeedbackGiven
from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

BEFORE = "guardrails: [{when: before, path: 'gateway_screens:no_secrets'}]"
AFTER = "guardrails: [{when: after, path: 'gateway_screens:polite'}]"


@pytest.fixture
def guarded(agent):
    """A service with one agent and further lines of configuration."""
    begun = []

    def begin(url, lines):
        text = f"version: 1\ndatabase: ':memory:'\nlisten: {{port: 0}}\nrouter: {{success_reward: 1.0}}\n{lines}\n"
        line = agent(url, price="per_call_usd: 0.5")
        begun.append(Running(parse_config(f"{text}agents:\n  - {line}\n")))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


def ask(client, text, **options):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.with_raw_response.create(model="auto", messages=messages, **options)


def decisions(service):
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    return [event for row in rows if isinstance(event := row.event(), DecisionMade)]


def outcome(service, error):
    shown = service.get(f"/v1/decisions/{error.response.headers['x-bot-orch-decision-id']}").json()
    (found,) = shown["outcomes"]
    return found


def test_before_the_call(endpoint, guarded, client):
    url = endpoint.script(GOOD)
    service = guarded(url, BEFORE)
    with pytest.raises(openai.BadRequestError, match="no secrets, please") as refused:
        ask(client(service), "a secret")
    assert refused.value.code == "refused_by_guard"
    assert not endpoint.seen(url) and not decisions(service), "it teaches nothing"
    assert metric(service, "bot_orch_guardrail_refusals_total", when="before") == 1
    ask(client(service), "write to ann@example.org")
    ask(client(service), "hello")
    assert [each["document"]["messages"][0]["content"] for each in endpoint.seen(url)] == ["[removed]", "hello"]
    with pytest.raises(openai.BadRequestError, match="no secrets, please"):
        client(service).responses.create(model="auto", input="a secret")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("learned", "reward", "reason"), [("zero", 0.0, "refused"), ("nothing", None, "not_applicable")]
)
def test_after_the_call(endpoint, guarded, client, streams, learned, reward, reason):
    url = endpoint.script({"words": ["rude"]}, {"words": ["harsh"]}, GOOD)
    service = guarded(url, AFTER.replace("}]", f", on_refusal: {learned}}}]"))
    with pytest.raises(openai.BadRequestError, match="that was rude") as refused:
        ask(client(service), "hello", stream=streams)
    found = outcome(service, refused.value)
    assert (found["reward"], found["reason"], found["completed"]) == (reward, reason, learned == "zero")
    assert attempts(service)[0].ending == "completed"

    def said(answer):
        parsed = answer.parse()
        if not streams:
            return parsed.choices[0].message.content
        return "".join(piece.choices[0].delta.content or "" for piece in parsed if piece.choices)

    assert said(ask(client(service), "hello", stream=streams)) == "softened"
    assert said(ask(client(service), "hello", stream=streams)) == "The answer"
    assert metric(service, "bot_orch_guardrail_refusals_total", when="after") == 1


def test_a_task_is_guarded_after_the_call(endpoint, guarded):
    service = guarded(endpoint.script({"words": ["rude"]}), AFTER)
    refused = service.post("/v1/tasks", {"task": {"text": "x"}})
    assert refused.status == 400 and refused.json()["error"]["code"] == "refused_by_guard"


def test_a_program(endpoint, guarded, client):
    code = (
        "import json, sys; seen = json.load(sys.stdin); bad = 'secret' in str(seen['messages']);"
        " print(json.dumps({'refuse': 'said the program'}) if bad else '')"
    )
    service = guarded(
        endpoint.script(GOOD), f'guardrails: [{{when: before, command: ["{sys.executable}", "-c", "{code}"]}}]'
    )
    assert ask(client(service), "hello").parse().choices
    with pytest.raises(openai.BadRequestError, match="said the program"):
        ask(client(service), "secret")


@pytest.mark.parametrize("path", ["broken", "slow"])
def test_one_that_fails_refuses_or_passes(endpoint, guarded, client, path):
    line = f"{{when: before, path: 'gateway_screens:{path}', timeout_s: 0.05, on_error: %s}}"
    url = endpoint.script(GOOD)
    with pytest.raises(openai.BadRequestError, match="a guard has failed"):
        ask(client(guarded(url, f"guardrails: [{line % 'refuse'}]")), "hello")
    assert ask(client(guarded(url, f"guardrails: [{line % 'pass'}]")), "hello").parse().choices


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("guardrails: [{when: before}]", "config.guardrails[0]: needs one of path and command"),
        ("guardrails: [{when: before, path: 'no_such_module_here:f'}]", "cannot be imported"),
        ("cache: {ttl_s: -1}", "config.cache.ttl_s: expected `float` >= 0.0"),
    ],
)
def test_mistakes_are_named(lines, message):
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: simulated}}]\n{lines}"))
    assert message in str(refused.value)


@pytest.mark.parametrize("streams", [False, True])
def test_the_cache(endpoint, guarded, client, streams):
    url = endpoint.script({"words": ["one"]}, {"words": ["two"]}, {"words": ["three"]})
    service = guarded(url, "cache: {ttl_s: 60}")

    def body(answer):
        parsed = answer.parse()
        return [piece.to_dict() for piece in parsed] if streams else parsed.to_dict()

    first, again, other = (ask(client(service), text, stream=streams) for text in ("a", "a", "b"))
    assert body(first) == body(again) != body(other)
    assert again.headers["x-bot-orch-cache"] == "hit" and "x-bot-orch-decision-id" not in again.headers
    assert "x-bot-orch-cache" not in first.headers and "x-bot-orch-decision-id" in first.headers
    assert len(endpoint.seen(url)) == len(decisions(service)) == 2
    assert metric(service, "bot_orch_cache_hits_total", endpoint="chat") == 1
    until(lambda: not service.runtime.ledger.pending)
    rounds, spent = service.call(lambda: (service.runtime.ledger.router.rounds, service.runtime.ledger.spending))
    assert rounds == 2 and spent.recent(service.runtime.writer.now_us(), 86_400.0) == pytest.approx(2 * 0.5)
    learned = [event for row in service.runtime.writer.log.read() if isinstance(event := row.event(), FeedbackGiven)]
    assert len(learned) == 2, "a hit teaches nothing"
    until(lambda: len(attempts(service)) == 2)


def test_the_cache_is_off_and_keeps_no_errors(endpoint, guarded, client):
    down = {"status": 500, "error": {"message": "down"}}
    url = endpoint.script(GOOD)
    service = guarded(url, "")
    assert [ask(client(service), "a").headers.get("x-bot-orch-cache") for _ in range(2)] == [None, None]
    assert len(endpoint.seen(url)) == 2
    service = guarded(endpoint.script(down, GOOD), "cache: {ttl_s: 60}")
    with pytest.raises(openai.InternalServerError):
        ask(client(service), "a")
    assert client(service).chat.completions.create(model="auto", messages=HELLO).choices
