"""What goes over the wire to an OpenAI-compatible endpoint, and what is read back."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from fault_proxy import FaultServer
from hypothesis import given
from hypothesis import strategies as st

from bot_orch.agents import (
    CallFailure,
    CallReply,
    CallRequest,
    Chunk,
    Ending,
    Limits,
    OpenAIRunner,
    OpenAISettings,
    Usage,
)
from bot_orch.agents.kinds.openai import EventReader
from bot_orch.agents.replies import StreamedAnswer, in_one_piece, load_json, reply_from_completion, reply_from_value
from bot_orch.errors import InvalidInputError, MissingExtraError


def exchange(request, mode="call", fault="ok", limits=None, **options):
    """One request through a fault server: (what arrived, chunks or reply)."""

    async def scenario():
        async with FaultServer() as server:
            settings = OpenAISettings(server.base_url(fault), "m-1", **options)
            runner = OpenAIRunner(settings, limits)
            try:
                result = await runner.call(request) if mode == "call" else [c async for c in runner.stream(request)]
            finally:
                await runner.close()
            return server, result

    return asyncio.run(scenario())


def test_request_and_reply():
    params = {"temperature": 0.5, "model": "theirs", "stream": True, "messages": [], "stream_options": {}}
    server, reply = exchange(CallRequest("r", text="2 + 2?", params=params), api_key="k-1", headers={"X-Org": "o"})
    seen = server.requests[0]
    assert seen.path == "/ok/v1/chat/completions"
    message = {"role": "user", "content": "2 + 2?"}
    assert seen.document == {"model": "m-1", "messages": [message], "temperature": 0.5}
    assert (seen.headers["authorization"], seen.headers["x-org"]) == ("Bearer k-1", "o")
    assert seen.headers["accept-encoding"] == "identity"
    assert (reply.text, reply.usage, reply.status) == ("The answer is 4.", Usage(5, 3), 200)
    assert load_json(reply.raw)["model"] == "m"
    assert 0 < reply.first_byte_s <= reply.elapsed_s


def test_stream_passes_events_on_and_keeps_its_own_question_to_itself():
    server, chunks = exchange(CallRequest("r", text="2 + 2?"), "stream")
    assert server.requests[0].document["stream_options"] == {"include_usage": True}
    assert "".join(chunk.text for chunk in chunks) == chunks[-1].reply.text == "The answer is 4."
    assert chunks[-1].reply.usage == Usage(5, 3)
    assert [chunk.reply is None for chunk in chunks] == [True] * 4 + [False]
    assert all(load_json(chunk.raw)["choices"] for chunk in chunks[:-1])  # no bare token counts
    asked = CallRequest("r", params={"stream_options": {"include_usage": True}})
    assert load_json(exchange(asked, "stream")[1][-2].raw)["usage"]


def event(*choices, **fields):
    return json.dumps({"id": "c", "choices": list(choices), **fields}).encode()


def delta(index=0, finish=None, **parts):
    return {"index": index, "delta": parts, "finish_reason": finish}


@pytest.mark.parametrize(
    "choice",
    [
        delta(role="assistant"),
        delta(role="assistant", content=""),
        delta(role="assistant", content=None, refusal=None, tool_calls=[], reasoning_content=""),
        delta(),
        delta(index=1, role="assistant", content=""),
        delta(finish="", content=""),
        {"index": 0, "finish_reason": None, "content_filter_results": {"hate": {"filtered": False}}},
    ],
)
def test_nothing_begins_with(choice):
    chunk = StreamedAnswer().add(event(choice))
    assert not chunk.begins and chunk.raw == event(choice)


@pytest.mark.parametrize(
    "choice",
    [
        delta(content=" "),
        delta(index=1, content="x"),
        delta(refusal="I"),
        delta(reasoning="hm"),
        delta(reasoning_content="hm"),
        delta(tool_calls=[{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}]),
        delta(function_call={"name": "f", "arguments": ""}),
        delta(audio={"id": "a", "data": "UklG"}),
        delta(finish="content_filter"),
    ],
)
def test_an_answer_begins_with(choice):
    assert StreamedAnswer().add(event(choice)).begins


def test_events_without_choices_pass_unless_they_are_our_own_question():
    ours, theirs = StreamedAnswer(), StreamedAnswer(counts=True)
    counts, filters = event(usage={"prompt_tokens": 1}), event(prompt_filter_results=[])
    assert [ours.add(counts), ours.add(filters).begins] == [None, False]
    assert theirs.add(counts).raw == counts and not theirs.add(counts).begins


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ([delta(content="a", finish="stop")], None),
        ([delta(content="a"), "[DONE]"], None),
        ([delta(content="a")], Ending.TRUNCATED_STREAM),
        ([delta(content="a", finish="")], Ending.TRUNCATED_STREAM),
        ([delta(content="a", finish="stop"), delta(1, content="b")], Ending.TRUNCATED_STREAM),
        ([delta(content="a", finish="stop"), delta(1, content="b", finish="length")], None),
        ([], Ending.TRUNCATED_STREAM),
        (["[DONE]"], Ending.MALFORMED),
        ([delta("zero", content="a")], Ending.MALFORMED),
        (["[DONE]", delta(content="a")], Ending.MALFORMED),
    ],
)
def test_whole_answers(events, ending):
    def read():
        answer = StreamedAnswer()
        for each in events:
            answer.add(each.encode() if isinstance(each, str) else event(each))
        return answer.reply(200)

    if ending is None:
        assert read().text == "a"
        return
    with pytest.raises(CallFailure) as caught:
        read()
    assert caught.value.ending is ending


@pytest.mark.parametrize(
    ("options", "sent", "counted"),
    [
        (None, {"include_usage": True}, False),
        ({"include_usage": False}, {"include_usage": True}, False),
        ({"include_obfuscation": False}, {"include_obfuscation": False, "include_usage": True}, False),
        ({"include_usage": True}, {"include_usage": True}, True),
        ("odd", "odd", False),
    ],
)
def test_counts_are_always_asked_for_and_passed_on_if_the_caller_asked(options, sent, counted):
    server, chunks = exchange(CallRequest("r", params={"stream_options": options}), "stream")
    assert server.requests[0].document["stream_options"] == sent
    assert chunks[-1].reply.usage == Usage(5, 3)
    assert any(not load_json(chunk.raw)["choices"] for chunk in chunks[:-1]) == counted


def test_a_completion_in_one_piece_keeps_tool_calls_and_finish_reasons():
    async def pieces(reply):
        return [chunk async for chunk in in_one_piece(reply)]

    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    document = {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    first, last = asyncio.run(pieces(reply_from_completion(json.dumps(document).encode(), 200)))
    (choice,) = load_json(first.raw)["choices"]
    assert choice["delta"]["tool_calls"] == [{"index": 0, **call}] and choice["finish_reason"] == "tool_calls"
    assert first.begins and load_json(first.raw)["id"] == "c" and last.reply.raw is not None
    for raw in (b"", b"[]", b"{}", b'{"choices": [{"message": "x"}]}', b'{"choices": []}', b'{"choices": [3]}'):
        assert asyncio.run(pieces(CallReply("x", raw=raw)))[0] == Chunk("x")


def test_connection_is_kept_after_a_stream():
    async def scenario():
        async with FaultServer() as server:
            runner = OpenAIRunner(OpenAISettings(server.base_url("ok"), "m"))
            for number in range(3):
                assert [chunk async for chunk in runner.stream(CallRequest(str(number)))][-1].reply
            await runner.close()
            assert server.connections == 1

    asyncio.run(scenario())


def test_request_over_the_cap_is_not_sent():
    for params, limits in (({}, Limits(max_request_bytes=10)), ({"x": float("nan")}, None), ({"x": {1, 2}}, None)):
        with pytest.raises(CallFailure) as caught:
            exchange(CallRequest("r", text="secret prompt", params=params), limits=limits)
        assert caught.value.ending is Ending.REFUSED_REQUEST
        assert "secret" not in str(caught.value)


def test_errors_carry_the_upstream_document_but_do_not_print_it():
    with pytest.raises(CallFailure) as caught:
        exchange(CallRequest("r", text="secret prompt"), fault="bad_request", api_key="k-secret")
    assert caught.value.status == 400
    assert load_json(caught.value.raw)["error"]["type"] == "fault"
    assert "secret" not in str(caught.value)


def test_retry_after_is_read():
    with pytest.raises(CallFailure) as caught:
        exchange(CallRequest("r"), fault="rate_limited")
    assert (caught.value.retry_after_s, caught.value.started) == (7.0, False)


def test_closed_runner_does_not_open_again():
    async def scenario():
        runner = OpenAIRunner(OpenAISettings("https://agent.example/v1", "m"))
        await runner.close()
        with pytest.raises(CallFailure) as caught:
            await runner.call(CallRequest("r"))
        assert caught.value.ending is Ending.SHUTDOWN

    asyncio.run(scenario())


def test_settings_hide_secrets_and_refuse_broken_ones():
    settings = OpenAISettings("https://agent.example/v1", "m", api_key="k-secret", headers={"X-Key": "h-secret"})
    assert "secret" not in repr(settings)
    for bad in ({"api_key": "k\r\nX: y"}, {"headers": {"X": "a\nb"}}, {"model": ""}):
        with pytest.raises(InvalidInputError):
            OpenAISettings(**{"base_url": "https://agent.example/v1", "model": "m", **bad})


def test_missing_aiohttp_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "bot_orch.agents.connection", raising=False)
    monkeypatch.delattr("bot_orch.agents.connection", raising=False)
    with pytest.raises(MissingExtraError, match="service"):
        OpenAIRunner(OpenAISettings("https://agent.example/v1", "m"))


def test_importing_the_package_does_not_import_aiohttp(tmp_path):
    import subprocess

    code = "import sys, bot_orch.agents; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nan",
        b"[1",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": "x"}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"1",
    ],
)
def test_completions_of_the_wrong_shape_are_malformed(data):
    with pytest.raises(CallFailure) as caught:
        reply_from_completion(data, 200)
    assert caught.value.ending is Ending.MALFORMED


@pytest.mark.parametrize("value", [None, 3, {}, {"text": 3}, {"output": {1, 2}}, {"text": "a", "extra": 3}])
def test_program_answers_of_the_wrong_shape_are_malformed(value):
    with pytest.raises(CallFailure) as caught:
        reply_from_value(value)
    assert caught.value.ending is Ending.MALFORMED


@pytest.mark.parametrize("usage", [None, 3, {"prompt_tokens": "x"}, {"prompt_tokens": -1}, {"prompt_tokens": True}])
def test_odd_token_counts_count_as_zero(usage):
    assert reply_from_value({"text": "a", "usage": usage}).usage == Usage()


@given(
    st.lists(st.binary(max_size=12).filter(lambda b: b"\n" not in b and b"\r" not in b), max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=10),
)
def test_events_do_not_depend_on_how_bytes_arrive(payloads, end, sizes):
    wire = b"".join(b": note" + end + b"data: " + payload + end + end for payload in payloads) + b": last" + end
    reader, events, position, turn = EventReader(), [], 0, 0
    while position < len(wire):
        step = sizes[turn % len(sizes)]
        events += reader.feed(wire[position : position + step])
        position, turn = position + step, turn + 1
    assert events == payloads
