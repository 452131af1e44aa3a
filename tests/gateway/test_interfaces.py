"""Responses with the official client: translated for agents with chat, else passed on."""

import openai
import pytest
from remote import GOOD, HELLO, attempts

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
CALLS = {"message": {"content": None, "tool_calls": [CALL]}, "finish": "tool_calls"}
IN_PIECES = [
    {"tool_calls": [{"index": 0, **CALL, "function": {"name": "weather", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
]
TOOL = {"type": "function", "name": "weather", "description": "Now", "parameters": {"type": "object"}, "strict": True}
MESSAGE_TOOL = {"name": "weather", "description": "Now, in a city", "input_schema": {"type": "object"}}
ASKED = {"type": "input_text", "text": "what?"}
FRAME = {"id": "resp_up", "object": "response", "created_at": 1, "model": "m-1", "status": "completed"}
SAID = {
    "id": "msg_up",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Native", "annotations": []}],
}
COUNTS = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
RESPONSE = {**FRAME, "output": [SAID], "usage": COUNTS, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
PLACE = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
EVENTS = [
    {"type": "response.created", "response": {**RESPONSE, "output": [], "usage": None}, "sequence_number": 0},
    {"type": "response.output_text.delta", **PLACE, "delta": "Native", "logprobs": [], "sequence_number": 1},
    {"type": "response.completed", "response": RESPONSE, "sequence_number": 2},
]


def able(line, *endpoints):
    return line.replace("kind: openai,", f"kind: openai, interfaces: [{', '.join(endpoints)}],")


def ask(where, **options):
    return where.with_raw_response.create(model="auto", **options)


# Responses -----------------------------------------------------------------------------------------------------------


def test_a_response_is_a_chat_for_an_agent_with_chat(endpoint, serve, agent, client):
    url = endpoint.script(GOOD)
    service = serve(agent(url))
    done = ask(client(service).responses, instructions="Be brief.", input="Hello", max_output_tokens=50, user="ann")
    response = done.parse()
    assert (response.output_text, response.status, response.usage.output_tokens) == ("The answer", "completed", 2)
    assert response.max_output_tokens == 50 and response.instructions == "Be brief."
    sent = endpoint.seen(url)[0]
    assert sent["path"].endswith("/v1/chat/completions")
    assert sent["document"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert sent["document"]["max_completion_tokens"] == 50 and sent["document"]["user"] == "ann"
    assert done.headers["x-bot-orch-agent"] == "upstream"
    (attempt,) = attempts(service)
    assert (attempt.ending, attempt.input_tokens, attempt.output_tokens) == ("completed", 11, 2)


def test_items_tools_images_and_formats_are_translated(endpoint, serve, agent, client):
    url = endpoint.script(CALLS)
    given = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": "u"}],
        },
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    shape = {"type": "json_schema", "name": "w", "schema": {"type": "object"}, "strict": True}
    response = client(serve(agent(url))).responses.create(
        model="auto",
        input=given,
        tools=[TOOL],
        tool_choice={"type": "function", "name": "weather"},
        text={"format": shape},
        reasoning={"effort": "low"},
    )
    (item,) = response.output
    assert (item.type, item.call_id, item.name, item.arguments) == (
        "function_call",
        "call_1",
        "weather",
        '{"city": "Rome"}',
    )
    sent = endpoint.seen(url)[0]["document"]
    assert sent["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    assert sent["tools"] == [{"type": "function", "function": {name: TOOL[name] for name in TOOL if name != "type"}}]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert sent["response_format"]["json_schema"] == {"name": "w", "schema": {"type": "object"}, "strict": True}
    assert sent["reasoning_effort"] == "low"


def test_a_streamed_response(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script(GOOD)))
    with client(service).responses.stream(model="auto", input="Hello") as stream:
        kinds = [event.type for event in stream]
        response = stream.get_final_response()
    assert response.output_text == "The answer" and response.usage.output_tokens == 2
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds.count("response.output_text.delta") == 2 and kinds[-1] == "response.completed"
    assert attempts(service)[0].output_tokens == 2


def test_a_streamed_tool_call_and_its_result(endpoint, serve, agent, client):
    urls = [endpoint.script({"words": IN_PIECES, "finish": "tool_calls"}, GOOD) for _ in "ab"]
    service = serve(agent(urls[0], "a"), agent(urls[1], "b"), router="floor: 1.0")
    responses = client(service).responses
    with responses.stream(model="auto", input="Hello", tools=[TOOL]) as stream:
        (item,) = stream.get_final_response().output
    assert (item.call_id, item.arguments) == ("call_1", '{"city": "Rome"}')
    result = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    done = ask(responses, input=[{"role": "user", "content": "Hello"}, item.to_dict(), result], tools=[TOOL])
    assert done.headers["x-bot-orch-propensity"] == "1.0" and done.parse().output_text == "The answer"


def test_a_response_that_is_cut_is_incomplete(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script({"finish": "length"})))
    response = client(service).responses.create(model="auto", input="Hello")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    *_, last = client(service).responses.create(model="auto", input="Hello", stream=True)
    assert last.type == "response.incomplete"


def test_a_stream_that_breaks_ends_with_an_error(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script({"words": ["half"], "then": "drop"})))
    with pytest.raises(openai.APIError):
        list(client(service).responses.create(model="auto", input="Hello", stream=True))


@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_that_declares_responses_gets_them_as_they_are(endpoint, serve, agent, client, streams):
    url = endpoint.script({"document": RESPONSE, "events": EVENTS})
    service = serve(able(agent(url), "chat", "responses"))
    tools = [{"type": "web_search"}]
    done = ask(client(service).responses, input="Hello", tools=tools, store=True, stream=streams)
    said = list(done.parse())[-1].response if streams else done.parse()
    assert (said.id, said.output_text) == ("resp_up", "Native")
    sent = endpoint.seen(url)[0]
    assert sent["path"].endswith("/v1/responses") and sent["document"]["model"] == "m"
    assert sent["document"]["tools"] == tools and sent["document"]["store"] is True
    (attempt,) = attempts(service)
    assert (attempt.input_tokens, attempt.output_tokens, attempt.estimated) == (5, 3, False)


def test_state_of_an_endpoint_goes_to_the_agent_that_has_it(endpoint, serve, agent, client):
    urls = [endpoint.script({"document": {**RESPONSE, "id": f"resp_{name}"}}) for name in "ab"]
    lines = [able(agent(url, name), "responses") for url, name in zip(urls, "ab", strict=True)]
    service = serve(*lines, agent(endpoint.script(GOOD), "chats"), router="floor: 1.0")
    responses = client(service).responses
    for _ in range(8):
        first = ask(responses, input="Hello", tools=[{"type": "web_search"}])
        agent_ = first.headers["x-bot-orch-agent"]
        assert first.headers["x-bot-orch-propensity"] == "0.5" and agent_ in "ab"
        again = ask(responses, input="more", previous_response_id=first.parse().id)
        assert (again.headers["x-bot-orch-agent"], again.headers["x-bot-orch-propensity"]) == (agent_, "1.0")
    shown = service.get(f"/v1/decisions/{first.headers['x-bot-orch-decision-id']}").json()
    assert shown["excluded"] == {"chats": "cannot: tool web_search"}


def test_what_a_chat_cannot_express_is_refused(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script(GOOD)))
    with pytest.raises(openai.BadRequestError, match="previous_response_id") as refused:
        client(service).responses.create(model="auto", input="more", previous_response_id="resp_1")
    assert refused.value.code == "missing_capability"


TOOLS = [{"type": "function", "name": "look", "parameters": {}}, {"type": "namespace", "name": "n", "tools": []}]


def test_tools_of_an_endpoint_that_nobody_has_are_left_out(endpoint, serve, agent, client):
    """Codex offers such tools with every request and works without them; one that is forced is refused."""
    url = endpoint.script(GOOD)
    service = serve(agent(url))
    responses = client(service).responses
    given = {"input": "Hello", "tools": [*TOOLS, {"type": "web_search"}]}
    done = ask(responses, **given, tool_choice="auto")
    assert done.headers["x-bot-orch-left-out"] == "tool namespace, tool web_search"
    assert [tool["function"]["name"] for tool in endpoint.seen(url)[-1]["document"]["tools"]] == ["look"]
    for choice, tools in (({"type": "web_search"}, given["tools"]), ("required", given["tools"][1:])):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(responses, input="Hello", tools=tools, tool_choice=choice)
        assert refused.value.code == "missing_capability"


def test_tools_that_the_named_agent_has_not_are_left_out(endpoint, serve, agent, client):
    chats, native = agent(endpoint.script(GOOD), "chats"), agent(endpoint.script({"document": RESPONSE}), "native")
    service = serve(chats, able(native, "chat", "responses"))
    asked = {"input": "Hello", "tools": TOOLS}
    done = client(service).responses.with_raw_response.create(model="chats", **asked)
    assert done.headers["x-bot-orch-left-out"] == "tool namespace"
    assert ask(client(service).responses, **asked).headers["x-bot-orch-agent"] == "native"


@pytest.mark.parametrize("streams", [False, True])
def test_a_function_answers_responses(serve, client, streams):
    service = serve("{id: own, kind: python, path: 'gateway_agents:at_once'}")
    done = client(service).responses.create(model="auto", input="Hello", stream=streams)
    response = list(done)[-1].response if streams else done
    assert (response.output_text, response.usage.input_tokens, response.model) == ("The answer", 3, "own")


# Names of models, and counts -----------------------------------------------------------------------------------------


def test_an_alias_is_another_name_of_a_model(endpoint, serve, agent, client):
    urls = [endpoint.script(GOOD) for _ in "ab"]
    lines = [agent(url, name) for url, name in zip(urls, "ab", strict=True)]
    service = serve(*lines, router="aliases: {gpt-4o: auto, gpt-4o-mini: b}")
    chats = client(service).chat.completions.with_raw_response
    for _ in range(4):
        assert chats.create(model="gpt-4o-mini", messages=HELLO).headers["x-bot-orch-agent"] == "b"
    assert 0 < float(chats.create(model="gpt-4o", messages=HELLO).headers["x-bot-orch-propensity"]) < 1
    assert {"gpt-4o", "gpt-4o-mini"} <= {each.id for each in client(service).models.list()}
    assert client(service).models.retrieve("gpt-4o").id == "gpt-4o"


def test_tokens_are_counted_without_a_call(endpoint, serve, agent):
    url = endpoint.script(GOOD)
    service = serve(agent(url))
    asked = {"model": "auto", "system": "Be brief.", "messages": [{"role": "user", "content": "word " * 400}]}
    few, many = (
        service.post("/v1/messages/count_tokens", {**asked, **more}) for more in ({}, {"tools": [MESSAGE_TOOL]})
    )
    assert few.status == 200 and 450 < few.json()["input_tokens"] < 600
    assert many.json()["input_tokens"] > few.json()["input_tokens"] and not endpoint.seen(url)
    short = {**asked, "system": "", "messages": [{"role": "user", "content": "hi"}]}
    assert service.post("/v1/messages/count_tokens", short).json() == {"input_tokens": 1}


@pytest.mark.parametrize("body", [{}, {"model": "auto"}, {"model": 1, "input": "a"}])
def test_wrong_bodies_are_named(endpoint, serve, agent, body):
    service = serve(agent(endpoint.script(GOOD)))
    refused = service.post("/v1/responses", body)
    assert refused.status == 400 and refused.json()["error"]["param"] in ("model", "input")
