"""A tool loop or a conversation stays with its agent; the models that there are."""

import openai
import pytest
from remote import GOOD, HELLO

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
EVEN = "floor: 1.0, attempts: 3"


def script(name):
    call = {**CALL, "id": f"call_{name}"}
    message = {"content": None, "tool_calls": [call]}
    return {"message": message, "finish": "tool_calls", "words": [{"tool_calls": [{"index": 0, **call}]}]}


def ask(chat, messages, **options):
    return chat.with_raw_response.create(model="auto", messages=messages, **options)


def calls_in(answer, streams):
    if not streams:
        return answer.parse().choices[0].message.tool_calls[0].id
    pieces = [piece.choices[0].delta for piece in answer.parse() if piece.choices]
    return next(delta.tool_calls[0].id for delta in pieces if delta.tool_calls)


@pytest.mark.parametrize("streams", [False, True])
def test_results_go_to_the_agent_that_made_the_call(endpoint, serve, agent, client, streams):
    names = ("a", "b", "c")
    service = serve(*(agent(endpoint.script(script(name)), name) for name in names), router=EVEN)
    chat = client(service).chat.completions
    met = set()
    for _ in range(12):
        first = ask(chat, HELLO, tools=TOOLS, stream=streams)
        assert float(first.headers["x-bot-orch-propensity"]) == pytest.approx(1 / 3)
        made = calls_in(first, streams)
        message = {"role": "assistant", "tool_calls": [{**CALL, "id": made}]}
        again = ask(chat, [*HELLO, message, {**RESULT, "tool_call_id": made}], tools=TOOLS)
        assert again.headers["x-bot-orch-agent"] == first.headers["x-bot-orch-agent"] == made[5:]
        assert again.headers["x-bot-orch-propensity"] == "1.0"
        met.add(made)
    shown = service.get(f"/v1/decisions/{again.headers['x-bot-orch-decision-id']}").json()
    assert shown["decision"]["by"] == "tool loop" and set(shown["excluded"].values()) == {"tool loop"}
    assert len(met) == 3


def test_a_chat_that_goes_on_after_the_results_is_drawn_again(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script(script("a")), "a"), agent(endpoint.script(script("b")), "b"), router=EVEN)
    chat = client(service).chat.completions
    made = calls_in(ask(chat, HELLO, tools=TOOLS), False)
    message = {"role": "assistant", "tool_calls": [{**CALL, "id": made}]}
    more = [*HELLO, message, {**RESULT, "tool_call_id": made}, {"role": "user", "content": "and tomorrow?"}]
    assert ask(chat, more, tools=TOOLS).headers["x-bot-orch-propensity"] == "0.5"


def test_results_of_unknown_calls_are_drawn_among_all(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script(GOOD), "a"), agent(endpoint.script(GOOD), "b"), router=EVEN)
    answer = ask(client(service).chat.completions, [*HELLO, RESULT])
    assert answer.headers["x-bot-orch-propensity"] == "0.5"


def test_another_agent_takes_over_if_that_one_fails(endpoint, serve, agent, client):
    down = {"status": 500, "error": {"message": "down"}}
    urls = [endpoint.script(script(name), down) for name in ("a", "b")]
    service = serve(agent(urls[0], "a"), agent(urls[1], "b"), router=EVEN)
    chat = client(service).chat.completions
    made = calls_in(ask(chat, HELLO, tools=TOOLS), False)
    message = {"role": "assistant", "tool_calls": [{**CALL, "id": made}]}
    answer = ask(chat, [*HELLO, message, {**RESULT, "tool_call_id": made}], tools=TOOLS)
    assert answer.headers["x-bot-orch-agent"] != made[5:] and answer.headers["x-bot-orch-attempts"] == "2"


def test_a_function_that_calls_tools_gets_its_results(serve, client):
    lines = [f"{{id: {name}, kind: python, path: 'gateway_agents:calls_a_tool'}}" for name in ("only", "other")]
    service = serve(*lines, router=EVEN)
    chat = client(service).chat.completions
    first = ask(chat, HELLO)
    again = ask(chat, [*HELLO, {"role": "assistant", "tool_calls": [CALL]}, RESULT])
    assert again.headers["x-bot-orch-agent"] == first.headers["x-bot-orch-agent"]
    assert again.headers["x-bot-orch-propensity"] == "1.0"


def test_a_conversation_stays_with_its_agent(endpoint, serve, agent, client):
    lines = [agent(endpoint.script(GOOD), name) for name in ("a", "b", "c")]
    service = serve(*lines, router=f"{EVEN}, sticky_s: 60")
    chat = client(service).chat.completions

    def agents(first, user):
        turns = [{"role": "user", "content": first}]
        found = []
        for _ in range(5):
            answer = ask(chat, turns, user=user)
            turns = [*turns, {"role": "assistant", "content": "The answer"}, {"role": "user", "content": "more"}]
            found.append(answer.headers["x-bot-orch-agent"])
        return found, answer

    same = [agents("hello", f"u{n}") for n in range(3)]
    assert len({name for found, _ in same for name in found}) == 1
    others = [agents(f"other {n}", "ann")[0] for n in range(8)]
    assert all(len(set(found)) == 1 for found in others) and len({found[0] for found in others}) > 1
    shown = service.get(f"/v1/decisions/{same[0][1].headers['x-bot-orch-decision-id']}").json()
    assert shown["decision"]["by"] == "sticky" and shown["session"].startswith("conversation:")
    assert "hello" not in shown["session"]


def test_models(endpoint, serve, agent, client):
    models = client(serve(agent(endpoint.script(GOOD), "org/a"))).models
    assert [each.id for each in models.list()] == ["auto", "org/a"]
    assert (models.retrieve("auto").id, models.retrieve("org/a").id) == ("auto", "org/a")
    with pytest.raises(openai.NotFoundError) as refused:
        models.retrieve("b")
    assert refused.value.code == "model_not_found"
