"""Until the answer has begun, another agent may take over; a role or an empty text is not the beginning of one."""

import json

import pytest
from service_running import PATIENCE_S, hang_up, until
from upstream import DONE, ROLE, chunk, counts, delta, drop, hang, pause, said

from bot_orch.core.events import AttemptEnded

BODY = {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}
EMPTY = chunk(delta(role="assistant", content=None, tool_calls=[], reasoning_content=""))
ERROR = {"error": {"message": "overloaded", "code": 529}}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
#: what comes before the first piece, and how it goes wrong then: the ending of the first attempt
FALSE_STARTS = {
    "role, then silence": ([ROLE, hang], "timeout_first_byte"),
    "role and empty pieces, then silence": ([ROLE, EMPTY, chunk(delta(content="")), hang], "timeout_first_byte"),
    "comments, then silence": ([b": processing\n\n" * 3, hang], "timeout_first_byte"),
    "filter results, then silence": ([chunk(prompt_filter_results=[]), hang], "timeout_first_byte"),
    "role of two choices, then silence": ([ROLE, chunk(delta(1, role="assistant")), hang], "timeout_first_byte"),
    "role, then the end of the connection": ([ROLE, drop], "truncated_stream"),
    "role, then an orderly end": ([ROLE], "truncated_stream"),
    "role, then an error": ([ROLE, ERROR], "upstream_5xx"),
    "role, then no JSON": ([ROLE, '{"choices": ['], "malformed"),
    "nothing but the end mark": ([DONE], "malformed"),
    "nothing but counts": ([counts, DONE], "malformed"),
}
GOOD = said("It is ", "sunny.")


def pair(serve, agent, upstream, *answers, limits="first_byte_s: 60, timeout_s: 60"):
    """A service with two agents alike; whichever is asked first gets the first answer."""
    url = upstream.script("shared", *answers)
    return serve(agent(url, "one", limits), agent(url, "two", limits))


def attempts(service, number):
    """The attempts so far, once there are so many: their rows are written behind the answer."""

    def read():
        rows = service.call(lambda: list(service.runtime.writer.log.read()))
        found = [event for row in rows if isinstance(event := row.event(), AttemptEnded)]
        return found if len(found) >= number else None

    return until(read)


@pytest.mark.parametrize("name", FALSE_STARTS)
def test_another_agent_takes_over(serve, agent, upstream, client, name):
    steps, ending = FALSE_STARTS[name]
    hurried = "first_byte_s: 2, timeout_s: 60"
    limits = hurried if ending == "timeout_first_byte" else "first_byte_s: 60, timeout_s: 60"
    service = pair(serve, agent, upstream, steps, GOOD, limits=limits)
    answer = client(service).chat.completions.with_raw_response.create(**BODY, stream=True)
    pieces = [piece.to_dict() for piece in answer.parse()]
    assert [piece["choices"][0]["delta"].get("content") for piece in pieces] == ["", "It is ", "sunny.", None]
    assert pieces[0] == {**ROLE, "usage": None}, "what was held back comes first, and nothing of the other agent"
    assert answer.headers["x-bot-orch-attempts"] == "2"
    first, second = attempts(service, 2)
    assert (first.ending, first.first_byte_s, second.ending) == (ending, None, "completed")
    assert second.agent == answer.headers["x-bot-orch-agent"] != first.agent


BEGINNINGS = {
    "content": delta(content="It"),
    "another choice": delta(1, content="It"),
    "tool call": delta(tool_calls=[CALL]),
    "function call": delta(function_call={"name": "weather", "arguments": ""}),
    "refusal": delta(refusal="I"),
    "reasoning": delta(reasoning="hm"),
    "reasoning_content": delta(reasoning_content="hm"),
    "audio": delta(audio={"id": "audio_1"}),
    "finish reason": delta(finish="content_filter"),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_no_other_agent_once_the_answer_has_begun(serve, agent, upstream, name):
    """The client has a piece: it gets the error instead of a second answer after it."""
    begun = [ROLE, chunk(BEGINNINGS[name]), ERROR]
    service = pair(serve, agent, upstream, begun, GOOD)
    answer = service.post("/v1/chat/completions", {**BODY, "stream": True})
    assert answer.status == 200 and answer.headers["x-bot-orch-attempts"] == "1"
    events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line]
    assert events[:-1] == [{**each, "usage": None} for each in begun[:-1]]
    assert events[-1]["error"]["code"] == "upstream_5xx"
    (attempt,) = attempts(service, 1)
    assert attempt.ending == "upstream_5xx" and attempt.first_byte_s is not None


def test_first_byte_timeout_does_not_cut_an_answer_that_has_begun(serve, agent, upstream):
    steps = [ROLE, chunk(delta(tool_calls=[CALL])), pause(2.5), chunk(delta(finish="tool_calls")), DONE]
    service = pair(serve, agent, upstream, steps, limits="first_byte_s: 2, timeout_s: 60")
    answer = service.post("/v1/chat/completions", {**BODY, "stream": True})
    assert answer.status == 200 and answer.body.endswith(b"data: [DONE]\n\n")
    (attempt,) = attempts(service, 1)
    assert attempt.ending == "completed" and attempt.first_byte_s < 2 < attempt.elapsed_s


def test_first_byte_is_measured_at_the_first_piece_of_the_answer(serve, agent, upstream):
    service = pair(serve, agent, upstream, [ROLE, pause(0.4), EMPTY, pause(0.4), *GOOD[1:]])
    assert service.post("/v1/chat/completions", {**BODY, "stream": True}).status == 200
    (attempt,) = attempts(service, 1)
    assert 0.7 < attempt.first_byte_s <= attempt.elapsed_s


def test_all_agents_that_only_clear_their_throat(serve, agent, upstream):
    service = pair(serve, agent, upstream, [ROLE, drop])
    answer = service.post("/v1/chat/completions", {**BODY, "stream": True})
    assert (answer.status, answer.json()["error"]["code"]) == (502, "truncated_stream")
    assert answer.headers["x-bot-orch-attempts"] == "2"


def test_a_caller_who_leaves_before_the_answer_begins(serve, agent, upstream):
    """The endpoint is told, and no other agent is asked."""
    service = pair(serve, agent, upstream, [ROLE, hang])
    with hang_up(service, "/v1/chat/completions", {**BODY, "stream": True}):
        until(lambda: upstream.requests)
    assert upstream.departed.wait(PATIENCE_S)
    (attempt,) = attempts(service, 1)
    assert attempt.ending == "cancelled_by_caller" and len(upstream.requests) == 1


def test_a_generator_that_begins_with_nothing(serve, agent, upstream):
    """The same for agents of other kinds: an empty text is no beginning."""
    own = "{id: own, kind: python, first_byte_s: 0.3, path: 'PATH'}"
    service = serve(own.replace("PATH", "gateway_agents:empty_then_hangs"))
    answer = service.post("/v1/chat/completions", {**BODY, "stream": True})
    assert (answer.status, answer.json()["error"]["code"]) == (504, "timeout_first_byte")
