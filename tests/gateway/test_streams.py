"""What a client sees through the gateway is what it sees at the endpoint itself."""

import json
import threading
from collections import Counter

import openai
import pytest
from upstream import DONE, ID, MODEL, ROLE, USAGE, chunk, completion, counts, delta, gate, said

HELLO = [{"role": "user", "content": "weather in Rome and Oslo?"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]


def call(index, arguments, **first):
    head = {"id": first["id"], "type": "function"} if first else {}
    name = {"name": first["name"]} if first else {}
    return {"index": index, **head, "function": {**name, "arguments": arguments}}


def end(reason, index=0):
    return chunk(delta(index, reason))


PARALLEL_TOOLS = [
    chunk(delta(role="assistant", content=None, tool_calls=[call(0, "", id="call_1", name="weather")])),
    chunk(delta(tool_calls=[call(0, '{"city": ')])),
    chunk(delta(tool_calls=[call(1, "", id="call_2", name="weather")])),
    chunk(delta(tool_calls=[call(0, '"Rome"}'), call(1, '{"city": "Oslo"}')])),
    end("tool_calls"),
    counts,
    DONE,
]
TWO_CHOICES = [
    ROLE,
    chunk(delta(1, role="assistant", content="")),
    chunk(delta(1, content="Oslo")),
    chunk(delta(0, content="Rome")),
    end("stop", 1),
    chunk(delta(0, content=" is")),
    end("length"),
    counts,
    DONE,
]
WITH_SPACE = json.dumps(ROLE, indent=1).replace("\n", "\ndata: ")
#: name: steps of the endpoint, finish reason by choice
ANSWERS = {
    "text": (said("It is ", "sunny."), {0: "stop"}),
    "parallel tool calls": (PARALLEL_TOOLS, {0: "tool_calls"}),
    "length": (said("It is", finish="length"), {0: "length"}),
    "content filter": ([ROLE, end("content_filter"), counts, DONE], {0: "content_filter"}),
    "filter results first": ([chunk(prompt_filter_results=[{"prompt_index": 0}]), *said("Yes")], {0: "stop"}),
    "refusal": ([ROLE, chunk(delta(refusal="I ")), chunk(delta(refusal="cannot.")), *said()[1:]], {0: "stop"}),
    "reasoning": ([ROLE, chunk(delta(reasoning_content="hm")), *said("Yes")[1:]], {0: "stop"}),
    "function call": (
        [chunk(delta(role="assistant", function_call={"name": "f", "arguments": "{}"})), end("function_call"), DONE],
        {0: "function_call"},
    ),
    "audio": ([ROLE, chunk(delta(audio={"id": "a", "transcript": "Yes"})), *said()[1:]], {0: "stop"}),
    "two choices": (TWO_CHOICES, {0: "length", 1: "stop"}),
    "finish with the last word": ([ROLE, chunk(delta(content="Yes", finish="stop")), counts, DONE], {0: "stop"}),
    "no end mark": (said("Yes")[:-1], {0: "stop"}),
    "nothing at all": ([ROLE, end("stop"), DONE], {0: "stop"}),
    "comments and line breaks": ([b": wait\n\n", WITH_SPACE, b": wait\n\n", *said("Yes")[1:]], {0: "stop"}),
}


@pytest.fixture(params=ANSWERS)
def case(request, upstream, serve, agent, client):
    """Clients of the endpoint itself and of the gateway before it, and the finish reasons to expect."""
    steps, finishes = ANSWERS[request.param]
    url = upstream.script("answer", steps)
    service = serve(agent(url))
    return client(url), client(service), service, finishes


def chunks(client, **options):
    return list(client.chat.completions.create(model="auto", messages=HELLO, stream=True, **options))


def finishes_of(pieces):
    return Counter((each.index, each.finish_reason) for piece in pieces for each in piece.choices if each.finish_reason)


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}], ids=["plain", "counts"])
def test_chunks_are_those_of_the_endpoint(case, options):
    direct, through, _, finishes = case
    expected, got = chunks(direct, n=2, tools=TOOLS, **options), chunks(through, n=2, tools=TOOLS, **options)
    assert [piece.model_dump() for piece in got] == [piece.model_dump() for piece in expected]
    assert finishes_of(got) == Counter(finishes.items()), "one finish for every choice"
    assert {(piece.id, piece.model) for piece in got} == {(ID, MODEL)}
    assert not options or [piece.usage.to_dict() for piece in got if piece.usage] in ([USAGE], [])


def helper(client):
    """Events, and the completion or the error, as the client's own accumulator makes them."""
    events = []
    try:
        with client.chat.completions.stream(model="auto", messages=HELLO, tools=TOOLS) as stream:
            events.extend(stream)
            return [event.model_dump() for event in events], stream.get_final_completion().model_dump()
    except (openai.OpenAIError, AssertionError) as error:
        return [event.model_dump() for event in events], type(error)


def test_accumulated_answer_is_that_of_the_endpoint(case):
    direct, through, _, _ = case
    assert helper(through) == helper(direct)


def test_wire_has_one_end_mark_and_the_decision(case):
    _, _, service, _ = case
    answer = service.post("/v1/chat/completions", {"model": "auto", "messages": HELLO, "stream": True})
    lines = [line for line in answer.body.decode().splitlines() if line.startswith("data:")]
    assert lines.count("data: [DONE]") == 1 and lines[-1] == "data: [DONE]"
    known = service.get(f"/v1/decisions/{answer.headers['x-bot-orch-decision-id']}").json()
    assert known["decision"]["agent"] == answer.headers["x-bot-orch-agent"] == "upstream"


def test_tool_calls_survive(upstream, serve, agent, client):
    """The case above compares; this one says what the answer is."""
    through = client(serve(agent(upstream.script("answer", PARALLEL_TOOLS))))
    with through.chat.completions.stream(model="auto", messages=HELLO, tools=TOOLS) as stream:
        (choice,) = stream.get_final_completion().choices
    assert choice.finish_reason == "tool_calls"
    made = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in choice.message.tool_calls]
    assert made == [("call_1", "weather", {"city": "Rome"}), ("call_2", "weather", {"city": "Oslo"})]


def test_counts_are_known_here_even_if_the_caller_did_not_ask(upstream, serve, agent, client):
    service = serve(agent(upstream.script("answer", said("Yes")), price="per_call_usd: 1"))
    for options in ({}, {"stream_options": {"include_usage": False}}, {"stream_options": {"include_usage": True}}):
        pieces = chunks(client(service), **options)
        assert upstream.requests[-1][1]["stream_options"]["include_usage"] is True
        wanted = bool(options) and options["stream_options"]["include_usage"]
        assert any(piece.usage for piece in pieces) == wanted


def test_whole_documents_are_those_of_the_endpoint(upstream, serve, agent, client):
    tools = [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    url = upstream.script("answer", [completion("tool_calls", content=None, tool_calls=tools)])
    direct, through = (
        each.chat.completions.create(model="auto", messages=HELLO, tools=TOOLS).to_dict()
        for each in (client(url), client(serve(agent(url))))
    )
    assert through == direct


def test_pieces_are_passed_on_as_they_come(upstream, serve, agent, client):
    go_on = threading.Event()
    script = [ROLE, chunk(delta(content="one ")), gate(go_on), *said("two")[1:]]
    service = serve(agent(upstream.script("answer", script)))
    with client(service).chat.completions.create(model="auto", messages=HELLO, stream=True) as stream:
        assert [next(stream).choices[0].delta.content for _ in range(2)] == ["", "one "]
        go_on.set()
        assert [piece.choices[0].delta.content for piece in stream] == ["two", None]


# Agents of other kinds: their chunks are made here -------------------------------------------------------------------


def own(name):
    return f"{{id: own, kind: python, path: 'gateway_agents:{name}'}}"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (own("in_words"), "The answer"),
        (own("at_once"), "The answer"),
        (own("silent"), ""),
        ("{id: own, kind: simulated, params: {median_s: 0.0, sigma: 0.0}}", "own says: this one is good"),
    ],
    ids=["generator", "function", "nothing said", "simulated"],
)
@pytest.mark.parametrize("hops", [1, 2])
def test_chunks_of_other_kinds(serve, client, agent, line, text, hops):
    service = serve(line)
    if hops == 2:
        service = serve(agent(f"http://127.0.0.1:{service.port}/v1").replace("model: m", "model: auto"))
    through = client(service)
    answer = through.chat.completions.with_raw_response.create(
        model="auto", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    pieces = list(answer.parse())
    assert finishes_of(pieces) == Counter({(0, "stop"): 1})
    assert [bool(piece.usage) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len({(piece.id, piece.created, piece.model) for piece in pieces}) == 1 and pieces[0].model == "own"
    assert hops == 2 or pieces[0].id == f"chatcmpl-{answer.headers['x-bot-orch-decision-id']}"
    with through.chat.completions.stream(model="auto", messages=HELLO) as stream:
        (choice,) = stream.get_final_completion().choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", text, "stop")


def test_a_function_that_hands_over_a_completion(serve, client):
    """Its tool calls and finish reason reach a client that streams, too."""
    with client(serve(own("calls_a_tool"))).chat.completions.stream(
        model="auto", messages=HELLO, tools=TOOLS
    ) as stream:
        done = stream.get_final_completion()
    assert (done.id, done.choices[0].finish_reason) == (ID, "tool_calls")
    assert done.choices[0].message.tool_calls[0].function.arguments == '{"city": "Rome"}'


def test_events_after_the_end_mark_are_not_part_of_the_answer(upstream, serve, agent):
    service = serve(agent(upstream.script("answer", [*said("Yes"), chunk(delta(content="No"))])))
    body = service.post("/v1/chat/completions", {"model": "auto", "messages": HELLO, "stream": True}).body
    assert b'"Yes"' in body and b'"No"' not in body and body.count(b"[DONE]") == 1
