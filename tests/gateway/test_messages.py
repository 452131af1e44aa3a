"""Anthropic's Messages, as an endpoint with the official client and as a kind of agent with both clients."""

import json
from contextlib import ExitStack

import anthropic
import openai
import pytest
from remote import GOOD, HELLO, attempts
from service_running import Running

from bot_orch.service.config import parse_config

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
PIECES = [
    {"tool_calls": [{"index": 0, **CALL, "function": {"name": "weather", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
]
CALLS = {"message": {"content": None, "tool_calls": [CALL]}, "finish": "tool_calls"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "description": "Now", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "weather", "description": "Now", "parameters": SCHEMA}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}
HEAD = {"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-up", "stop_sequence": None}
USED = {"input_tokens": 9, "output_tokens": 4}
TEXT = {**HEAD, "content": [{"type": "text", "text": "Native"}], "stop_reason": "end_turn", "usage": USED}
TOOLS = {**HEAD, "content": [{"type": "text", "text": "Look"}, USE], "stop_reason": "tool_use", "usage": USED}


def events(document):
    """A message as its endpoint streams it."""
    first = {**document, "content": [], "stop_reason": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    yield {"type": "message_start", "message": first}
    yield {"type": "ping"}
    for index, block in enumerate(document["content"]):
        empty = {**block, "input": {}} if block["type"] == "tool_use" else {**block, "text": ""}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        if block["type"] == "tool_use":
            said = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in ("", said[:5], said[5:])]
        else:
            deltas = [{"type": "text_delta", "text": part} for part in (block["text"][:2], block["text"][2:])]
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": document["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 4}}
    yield {"type": "message_stop"}


@pytest.fixture
def claude():
    """Anthropic's client of a service."""
    with ExitStack() as stack:

        def connect(service, key="unused"):
            url = f"http://127.0.0.1:{service.port}"
            return stack.enter_context(
                anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)
            ).messages

        yield connect


def native(url, name="claude", extra=""):
    return f'{{id: {name}, kind: anthropic, base_url: "{url}", model: claude-1{extra}}}'


def said(*answers):
    return [{"document": each, "events": list(events(each))} for each in answers]


# The endpoint --------------------------------------------------------------------------------------------------------


def test_a_message_to_an_agent_with_chat(endpoint, serve, agent, claude):
    url = endpoint.script(GOOD)
    service = serve(agent(url))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    done = claude(service).with_raw_response.create(
        model="auto",
        max_tokens=50,
        system=[{"type": "text", "text": "Be brief."}],
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hm."}, USE]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"},
                    {"type": "text", "text": "Go on"},
                ],
            },
        ],
        stop_sequences=["END"],
        tools=[TOOL],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        metadata={"user_id": "ann"},
    )
    message = done.parse()
    assert (message.content[0].text, message.stop_reason, message.usage.input_tokens) == ("The answer", "end_turn", 11)
    assert done.headers["x-bot-orch-agent"] == "upstream"
    sent = endpoint.seen(url)[0]["document"]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert sent["messages"][1]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AAAA"},
    }
    assert sent["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert sent["messages"][3:] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "sunny"},
        {"role": "user", "content": "Go on"},
    ]
    assert (sent["max_completion_tokens"], sent["stop"], sent["user"]) == (50, ["END"], "ann")
    assert (sent["tools"], sent["tool_choice"], sent["parallel_tool_calls"]) == ([FUNCTION], "required", False)


@pytest.mark.parametrize(("finish", "stopped"), [("length", "max_tokens"), ("content_filter", "refusal")])
def test_stop_reasons(endpoint, serve, agent, claude, finish, stopped):
    service = serve(agent(endpoint.script({"finish": finish})))
    assert claude(service).create(model="auto", max_tokens=5, messages=HELLO).stop_reason == stopped


def test_a_streamed_message(endpoint, serve, agent, claude):
    service = serve(agent(endpoint.script(GOOD)))
    with claude(service).stream(model="auto", max_tokens=50, messages=HELLO) as stream:
        assert "".join(stream.text_stream) == "The answer"
        message = stream.get_final_message()
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 2)
    assert attempts(service)[0].output_tokens == 2


@pytest.mark.parametrize("streams", [False, True])
def test_tokens_of_a_cache_are_told_apart(endpoint, serve, agent, claude, streams):
    """Anthropic's clients price them apart; the input is without them."""
    counts = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 80}}
    frame = {"id": "chatcmpl-1", "created": 1, "model": "m-1"}
    choice = {"index": 0, "finish_reason": "stop"}
    whole = {**frame, "choices": [{**choice, "message": {"role": "assistant", "content": "So"}}], "usage": counts}
    pieces = [{**frame, "choices": [{**choice, "delta": {"content": "So"}}]}, {**frame, "choices": [], "usage": counts}]
    service = serve(agent(endpoint.script({"document": whole, "events": pieces})))
    asked = {"model": "auto", "max_tokens": 50, "messages": HELLO}
    if streams:
        with claude(service).stream(**asked) as stream:
            used = stream.get_final_message().usage
    else:
        used = claude(service).create(**asked).usage
    assert (used.input_tokens, used.cache_read_input_tokens, used.output_tokens) == (20, 80, 2)


@pytest.mark.parametrize("streams", [False, True])
def test_a_tool_loop_stays(endpoint, serve, agent, claude, streams):
    calls = {"words": PIECES, "finish": "tool_calls"} if streams else CALLS
    urls = [endpoint.script(calls, GOOD) for _ in "ab"]
    service = serve(agent(urls[0], "a"), agent(urls[1], "b"), router="floor: 1.0")
    options = {"model": "auto", "max_tokens": 50, "tools": [TOOL]}
    if streams:
        with claude(service).stream(messages=HELLO, **options) as stream:
            message = stream.get_final_message()
    else:
        message = claude(service).create(messages=HELLO, **options)
    (use,) = message.content
    assert (use.type, use.id, use.input, message.stop_reason) == ("tool_use", "call_1", {"city": "Rome"}, "tool_use")
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]}
    turns = [*HELLO, {"role": "assistant", "content": [use.to_dict()]}, result]
    again = claude(service).with_raw_response.create(messages=turns, **options)
    assert again.headers["x-bot-orch-propensity"] == "1.0"


def test_errors_have_their_shape(endpoint, serve, agent, claude):
    service = serve(agent(endpoint.script({"status": 400, "error": {"message": "no", "code": "invalid_value"}})))
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude(service).create(model="auto", max_tokens=5, messages=HELLO)
    assert refused.value.body["type"] == "error" and refused.value.body["error"]["message"] == "no"
    with pytest.raises(anthropic.NotFoundError) as refused:
        claude(service).create(model="none", max_tokens=5, messages=HELLO)
    assert refused.value.body["error"]["type"] == "not_found_error"
    file = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}
    with pytest.raises(anthropic.BadRequestError, match="lack of document"):
        claude(service).create(model="auto", max_tokens=5, messages=[{"role": "user", "content": [file]}])


def test_a_stream_that_breaks_ends_with_an_error(endpoint, serve, agent, claude):
    service = serve(agent(endpoint.script({"words": ["half"], "then": "drop"})))
    with (
        pytest.raises(anthropic.APIStatusError),
        claude(service).stream(model="auto", max_tokens=5, messages=HELLO) as stream,
    ):
        list(stream)


def test_the_key_is_a_token(endpoint, agent, claude, monkeypatch):
    monkeypatch.setenv("APP_TOKEN", "t" * 32)
    text = (
        "version: 1\ndatabase: ':memory:'\nlisten: {port: 0}\ntokens: [{name: app, scopes: [decide], env: APP_TOKEN}]\n"
    )
    service = Running(parse_config(f"{text}agents:\n  - {agent(endpoint.script(GOOD))}\n"))
    try:
        assert claude(service, "t" * 32).create(model="auto", max_tokens=5, messages=HELLO).content
        with pytest.raises(anthropic.AuthenticationError):
            claude(service, "u" * 32).create(model="auto", max_tokens=5, messages=HELLO)
    finally:
        service.stop()


# The kind of agent ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_messages_are_passed_on_to_an_agent_that_speaks_them(endpoint, serve, claude, streams):
    url = endpoint.script(*said(TEXT))
    service = serve(native(url))
    options = {"model": "auto", "max_tokens": 50, "messages": HELLO, "extra_body": {"top_k": 3}}
    if streams:
        with claude(service).stream(**options) as stream:
            message = stream.get_final_message()
    else:
        message = claude(service).create(**options)
    assert (message.id, message.content[0].text, message.usage.output_tokens) == ("msg_up", "Native", 4)
    sent = endpoint.seen(url)[0]
    assert sent["path"].endswith("/v1/messages") and sent["headers"]["anthropic-version"] == "2023-06-01"
    assert sent["document"]["top_k"] == 3 and sent["document"]["model"] == "claude-1"
    (attempt,) = attempts(service)
    assert (attempt.input_tokens, attempt.output_tokens, attempt.estimated) == (9, 4, False)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_what_a_body_needs_is_told_to_an_agent_that_gets_it(endpoint, serve, agent, claude, kind):
    """Without the header, Anthropic refuses the fields that it allows; other interfaces do not have them."""
    url = endpoint.script(*said(TEXT)) if kind == "anthropic" else endpoint.script(GOOD)
    service = serve(native(url) if kind == "anthropic" else agent(url))
    beta = {"anthropic-beta": "context-management-2025-06-27,effort-2025-11-24"}
    claude(service).create(model="auto", max_tokens=50, messages=HELLO, extra_headers=beta)
    found = endpoint.seen(url)[0]["headers"].get("anthropic-beta")
    assert found == (beta["anthropic-beta"] if kind == "anthropic" else None)


def test_a_chat_is_translated(endpoint, serve, client):
    url = endpoint.script(*said(TEXT))
    service = serve(native(url))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    called = {**CALL, "id": "toolu_0"}
    done = client(service).chat.completions.create(
        model="auto",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "toolu_0", "content": "sunny"},
            {"role": "user", "content": "Go on"},
        ],
        tools=[FUNCTION],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        parallel_tool_calls=False,
        stop="END",
        user="ann",
        temperature=0.5,
    )
    assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("Native", "stop")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (9, 4)
    sent = endpoint.seen(url)[0]["document"]
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image", "source": source}]},
        {"role": "assistant", "content": [{**USE, "id": "toolu_0"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_0", "content": [{"type": "text", "text": "sunny"}]},
                {"type": "text", "text": "Go on"},
            ],
        },
    ]
    assert (sent["system"], sent["max_tokens"], sent["stop_sequences"]) == ("Be brief.", 4096, ["END"])
    assert (sent["tools"], sent["metadata"], sent["temperature"]) == ([TOOL], {"user_id": "ann"}, 0.5)
    assert sent["tool_choice"] == {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}


@pytest.mark.parametrize("streams", [False, True])
def test_tool_calls_come_back_as_a_chat(endpoint, serve, client, streams):
    service = serve(native(endpoint.script(*said(TOOLS))))
    options = {"stream_options": {"include_usage": True}} if streams else {}
    done = client(service).chat.completions.create(
        model="auto", messages=HELLO, tools=[FUNCTION], stream=streams, **options
    )
    if streams:
        pieces = list(done)
        deltas = [piece.choices[0].delta for piece in pieces if piece.choices]
        text = "".join(delta.content or "" for delta in deltas)
        calls = [call for delta in deltas for call in delta.tool_calls or ()]
        made, arguments = calls[0].id, "".join(call.function.arguments or "" for call in calls)
        finish, usage = [p.choices[0].finish_reason for p in pieces if p.choices][-1], pieces[-1].usage
    else:
        choice, usage = done.choices[0], done.usage
        text, finish, call = choice.message.content, choice.finish_reason, choice.message.tool_calls[0]
        made, arguments = call.id, call.function.arguments
    assert (text, made, json.loads(arguments), finish) == ("Look", "toolu_1", {"city": "Rome"}, "tool_calls")
    assert (usage.prompt_tokens, usage.completion_tokens) == (9, 4)
    assert attempts(service)[0].ending == "completed"


@pytest.mark.parametrize(
    ("status", "kind", "ending"),
    [(529, "overloaded_error", "upstream_5xx"), (429, "rate_limit_error", "rate_limited")],
)
def test_its_errors_are_read(endpoint, serve, client, status, kind, ending):
    url = endpoint.script({"status": status, "error": {"type": kind, "message": "Overloaded"}})
    service = serve(native(url))
    with pytest.raises(openai.APIStatusError, match="Overloaded"):
        client(service).chat.completions.create(model="auto", messages=HELLO)
    assert attempts(service)[0].ending == ending


def test_an_error_inside_a_stream(endpoint, serve, client):
    broken = [
        *list(events(TEXT))[:4],
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ]
    service = serve(native(endpoint.script({"events": broken})))
    with pytest.raises(openai.APIError, match="Overloaded"):
        list(client(service).chat.completions.create(model="auto", messages=HELLO, stream=True))


def test_the_key_is_sent_its_way(endpoint, serve, client, monkeypatch):
    monkeypatch.setenv("CLAUDE_KEY", "k-1")
    url = endpoint.script(*said(TEXT))
    client(serve(native(url, extra=', api_key: "${CLAUDE_KEY}"'))).chat.completions.create(model="auto", messages=HELLO)
    headers = endpoint.seen(url)[0]["headers"]
    assert headers["x-api-key"] == "k-1" and "authorization" not in headers


@pytest.mark.parametrize("streams", [False, True])
def test_responses_through_an_anthropic_agent(endpoint, serve, client, streams):
    service = serve(native(endpoint.script(*said(TOOLS))))
    done = client(service).responses.create(model="auto", input="Hello", stream=streams)
    response = list(done)[-1].response if streams else done
    assert [item.type for item in response.output] == ["message", "function_call"]
    assert response.output[1].call_id == "toolu_1"
