"""Agents that cannot serve a request are not eligible; propensities are those of the rest."""

import openai
import pytest
from remote import GOOD, HELLO

from bot_orch.errors import InvalidInputError
from bot_orch.service.build import check
from bot_orch.service.config import parse_config

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
LACKS = {
    "vision": {"messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, IMAGE]}]},
    "tools": {"messages": HELLO, "tools": TOOLS},
    "JSON mode": {"messages": HELLO, "response_format": {"type": "json_object"}},
    "context length": {"messages": [{"role": "user", "content": "word " * 4000}]},
}
SMALL = "lacks: [vision, tools, json], context_tokens: 4000"
LARGE = "context_tokens: 200000"


def able(line, capabilities):
    return line.replace("kind: openai,", f"kind: openai, {capabilities},")


@pytest.mark.parametrize("lack", LACKS)
def test_only_agents_that_can_are_asked(endpoint, serve, agent, client, lack):
    small, large = endpoint.script(GOOD), endpoint.script(GOOD)
    service = serve(able(agent(small, "small"), SMALL), able(agent(large, "large"), LARGE), router="floor: 0.5")
    answers = [client(service).chat.completions.with_raw_response.create(model="auto", **LACKS[lack]) for _ in range(4)]
    assert {(each.headers["x-bot-orch-agent"], each.headers["x-bot-orch-propensity"]) for each in answers} == {
        ("large", "1.0")
    }
    assert not endpoint.seen(small)
    shown = service.get(f"/v1/decisions/{answers[0].headers['x-bot-orch-decision-id']}").json()
    assert shown["excluded"] == {"small": f"cannot: {lack}"}
    assert shown["decision"]["propensities"] == {"small": 0.0, "large": 1.0}


def test_a_request_that_all_can_serve_is_drawn_among_all(endpoint, serve, agent, client):
    urls = endpoint.script(GOOD), endpoint.script(GOOD)
    service = serve(able(agent(urls[0], "small"), SMALL), able(agent(urls[1], "large"), LARGE), router="floor: 1.0")
    asked = client(service).chat.completions.with_raw_response
    answers = [asked.create(model="auto", messages=HELLO) for _ in range(12)]
    assert {each.headers["x-bot-orch-agent"] for each in answers} == {"small", "large"}
    assert {each.headers["x-bot-orch-propensity"] for each in answers} == {"0.5"}


@pytest.mark.parametrize("model", ["auto", "small"])
@pytest.mark.parametrize("lack", LACKS)
def test_a_request_that_nobody_can_serve_says_what_is_missing(endpoint, serve, agent, client, lack, model):
    url = endpoint.script(GOOD)
    service = serve(able(agent(url, "small"), SMALL))
    with pytest.raises(openai.BadRequestError) as refused:
        client(service).chat.completions.create(model=model, **LACKS[lack])
    assert refused.value.code == "missing_capability" and f"lack of {lack};" in str(refused.value)
    assert not endpoint.seen(url)


def test_the_limit_of_the_answer_counts_as_context(endpoint, serve, agent, client):
    service = serve(able(agent(endpoint.script(GOOD), "small"), SMALL))
    chat = client(service).chat.completions
    assert chat.create(model="auto", messages=HELLO, max_completion_tokens=3900).choices
    with pytest.raises(openai.BadRequestError, match="context length"):
        chat.create(model="auto", messages=HELLO, max_completion_tokens=4000)


def test_a_task_asks_agents_with_chat(endpoint, serve, agent):
    url, other = endpoint.script(GOOD), endpoint.script(GOOD)
    service = serve(able(agent(other, "vectors"), "interfaces: [responses]"), agent(url, "chats"), router="floor: 1")
    assert {service.post("/v1/tasks", {"task": {"text": "x"}}).json()["agent"] for _ in range(6)} == {"chats"}


@pytest.mark.parametrize(
    ("capabilities", "message"),
    [
        ("lacks: [visoin]", "config.agents[0].lacks[0]: invalid enum value 'visoin'; choose from json, tools, vision"),
        ("context_tokens: 0", "config.agents[0].context_tokens: expected `int` >= 1"),
        ("interfaces: [chat, video]", "config.agents[0].interfaces[1]"),
        ("capabilities: {vision: false}", "lacks"),
        ("prefill: message", "config.agents.a.prefill: is nothing for an agent of kind simulated"),
    ],
)
def test_mistakes_are_named(capabilities, message):
    with pytest.raises(InvalidInputError) as refused:
        check(parse_config(f"version: 1\nagents: [{{id: a, kind: simulated, {capabilities}}}]"))
    assert message in str(refused.value)
