"""A stream that breaks off after it has begun: ended by an error, begun again, or continued by another agent."""

import json

import pytest
from remote import attempts
from upstream import DONE, ROLE, chunk, counts, delta, drop, pause, said, status

from bot_orch.core.events import FeedbackGiven
from bot_orch.service.routing.midstream import RESTART_MARKER

BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}], "stream": True}
BEGUN = [ROLE, chunk(delta(content="The sky ")), chunk(delta(content="is "))]
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"ci'}}
PRICE = "output_usd_per_million: 1000000"


def service_of(serve, agent, upstream, *answers, mode, prefill="none", count=2):
    """A service with agents alike; they get the answers in the order in which they are asked."""
    url = upstream.script("shared", *answers)
    able = f"prefill: {prefill}"
    lines = [agent(url, name, price=PRICE)[:-1] + f", {able}}}" for name in ("one", "two", "three")[:count]]
    return serve(*lines, router=f"success_reward: 1.0, midstream: {mode}")


def events_of(service, body=BODY):
    answer = service.post("/v1/chat/completions", body)
    assert answer.status == 200
    return [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line and line != "data: [DONE]"]


def text_of(events):
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in events if each.get("choices"))


def rewards(service, number):
    rows = service.call(lambda: list(service.runtime.writer.log.read()))
    found = [event for row in rows if isinstance(event := row.event(), FeedbackGiven)]
    assert len(found) == number
    return [event.reward for event in found]


@pytest.mark.parametrize("broken", [[*BEGUN, drop], BEGUN, [*BEGUN, {"error": {"message": "no", "code": 500}}]])
def test_restart_marks_where_the_second_answer_begins(serve, agent, upstream, broken):
    service = service_of(serve, agent, upstream, broken, said("The sky ", "is blue."), mode="restart")
    events = events_of(service)
    delivered, _, second = text_of(events).partition(RESTART_MARKER)
    assert "The sky is ".startswith(delivered) and delivered and second == "The sky is blue."
    first, then = attempts(service, 2)
    (note,) = [each["bot_orch"] for each in events if "bot_orch" in each]
    assert note == {"agent": then.agent, "midstream": "restart", "received": len(delivered)}
    assert first.agent != then.agent and (first.ending != "completed") and then.ending == "completed"
    assert first.cost_usd >= 1 and then.cost_usd == 7, "each is billed for what it wrote"
    assert rewards(service, 2) == [0.0, 1.0], "and learned from"
    assert sum("role" in each["choices"][0]["delta"] for each in events if each["choices"]) == 1
    assert len({each["id"] for each in events}) == 1 and events[-1]["choices"][0]["finish_reason"] == "stop"


STYLES = {
    "message": ({"role": "assistant", "content": "The sky is"}, {}),
    "prefix": ({"role": "assistant", "content": "The sky is", "prefix": True}, {}),
    "continue_final_message": (
        {"role": "assistant", "content": "The sky is"},
        {"continue_final_message": True, "add_generation_prompt": False},
    ),
}


@pytest.mark.parametrize("style", STYLES)
def test_continue_asks_for_the_rest(serve, agent, upstream, style):
    """White space at the end is left out of the beginning, which some endpoints require, and is not repeated."""
    service = service_of(serve, agent, upstream, BEGUN, said(" blue", "."), mode="continue", prefill=style)
    events = events_of(service)
    assert text_of(events) == "The sky is blue."
    message, params = STYLES[style]
    _, second = (document for _, document in upstream.requests)
    assert second["messages"] == [*BODY["messages"], message]
    assert {name: second.get(name) for name in params} == params
    assert [each["bot_orch"]["midstream"] for each in events if "bot_orch" in each] == ["continue"]


def test_continue_restarts_where_an_agent_cannot_continue(serve, agent, upstream):
    service = service_of(serve, agent, upstream, BEGUN, said("Blue."), mode="continue")
    assert text_of(events_of(service)) == f"The sky is {RESTART_MARKER}Blue."


def test_an_agent_that_can_continue_is_preferred(serve, agent, upstream):
    """All but one of the agents would begin again, and the one that continues is asked, whatever the policy says."""
    url = upstream.script("shared", *8 * (BEGUN, said(" blue.")))
    lines = [agent(url, name) for name in ("one", "two", "three", "four")]
    able = agent(url, "able")[:-1] + ", prefill: message}"
    service = serve(*lines, able, router="success_reward: 1.0, midstream: continue, rules: [{kind: '', deny: [able]}]")
    assert RESTART_MARKER in text_of(events_of(service)), "a rule comes first"
    service.stop()
    service = serve(*lines, able, router="success_reward: 1.0, midstream: continue, seed: 4")
    found = [events_of(service) for _ in range(6)]
    moved = [each["bot_orch"] for events in found for each in events if "bot_orch" in each]
    begun = [each.agent for each in attempts(service, 12)[::2]]
    for first, note in zip(begun, moved, strict=True):
        assert first == "able" or (note["agent"], note["midstream"]) == ("able", "continue")
    assert set(begun) - {"able"}, "some began with an agent that cannot continue"


@pytest.mark.parametrize("refusal", [status(400), status(422)])
def test_an_agent_that_refuses_the_beginning_is_asked_for_the_whole(serve, agent, upstream, refusal):
    """The refusal is of a request that was not the client's: nothing is learned from it."""
    script = BEGUN, [refusal], said("Blue.")
    service = service_of(serve, agent, upstream, *script, mode="continue", prefill="message")
    assert text_of(events_of(service)) == f"The sky is {RESTART_MARKER}Blue."
    first, second, third = attempts(service, 3)
    assert first.agent != second.agent == third.agent
    assert rewards(service, 3) == [0.0, None, 1.0]


def test_an_answer_may_break_off_twice(serve, agent, upstream):
    third = said("and clear.")
    script = BEGUN, [chunk(delta(content="blue "))], third
    service = service_of(serve, agent, upstream, *script, mode="continue", prefill="message", count=3)
    assert text_of(events_of(service)) == "The sky is blue and clear."
    assert upstream.requests[-1][1]["messages"][-1]["content"] == "The sky is blue"


FIXED = {
    "a tool call": [ROLE, chunk(delta(tool_calls=[CALL]))],
    "a function call": [ROLE, chunk(delta(function_call={"name": "weather", "arguments": ""}))],
    "two choices": [ROLE, chunk(delta(content="a")), chunk(delta(1, content="b"))],
}


@pytest.mark.parametrize("mode", ["restart", "continue"])
@pytest.mark.parametrize("name", FIXED)
def test_what_cannot_change_hands_ends_in_an_error(serve, agent, upstream, name, mode):
    service = service_of(serve, agent, upstream, FIXED[name], said("Blue."), mode=mode, prefill="message")
    events = events_of(service)
    assert events[-1]["error"]["code"] == "truncated_stream" and len(upstream.requests) == 1


@pytest.mark.parametrize("mode", ["error", "restart", "continue"])
def test_never_a_truncated_answer_without_an_error(serve, agent, upstream, mode):
    """Nobody is left to take over: the stream ends in an error, not in [DONE]."""
    service = service_of(serve, agent, upstream, BEGUN, mode=mode)
    answer = service.post("/v1/chat/completions", BODY)
    assert DONE.encode() not in answer.body and b'"error"' in answer.body
    assert len(upstream.requests) == (1 if mode == "error" else 2)


def test_a_function_takes_over_from_an_endpoint(serve, agent, upstream):
    """Its texts become chunks of the same answer, with one role and one finish reason."""
    own = "{id: own, kind: python, path: 'gateway_agents:in_words'}"
    router = "success_reward: 1.0, midstream: restart"
    service = serve(agent(upstream.script("shared", BEGUN), "one"), own, router=router)
    events = []
    while not upstream.requests:  # until the endpoint comes first
        events = events_of(service)
    assert text_of(events) == f"The sky is {RESTART_MARKER}The answer"
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert sum("role" in each["choices"][0]["delta"] for each in events) == 1


def test_other_interfaces_get_the_same_text(serve, agent, upstream):
    service = service_of(serve, agent, upstream, BEGUN, said("blue."), mode="continue", prefill="message")
    body = {"model": "auto", "max_tokens": 50, "messages": BODY["messages"], "stream": True}
    answer = service.post("/v1/messages", body)
    events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    texts = [each["delta"]["text"] for each in events if each["type"] == "content_block_delta"]
    assert "".join(texts) == "The sky is blue." and events[-1]["type"] == "message_stop"


def test_the_official_client_reads_one_answer(serve, agent, upstream, client):
    service = service_of(serve, agent, upstream, BEGUN, said("blue."), mode="continue", prefill="message")
    with client(service).chat.completions.stream(model="auto", messages=BODY["messages"]) as stream:
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert (message.role, message.content) == ("assistant", "The sky is blue.")


ENDINGS = {"finish, then the connection breaks": [pause(0.3), drop], "finish, then the end": []}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_finished_answer_needs_no_end_mark(serve, agent, upstream, name):
    steps = [*BEGUN, chunk(delta(content="blue.")), chunk(delta(finish="stop")), counts, *ENDINGS[name]]
    service = service_of(serve, agent, upstream, steps, mode="error")
    assert text_of(events_of(service)) == "The sky is blue."
    (attempt,) = attempts(service)
    assert attempt.ending == "completed"
