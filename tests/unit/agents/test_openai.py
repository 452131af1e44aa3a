"""What goes over the wire to an OpenAI-compatible endpoint, and what is read back."""

from __future__ import annotations

import asyncio
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch.agents import CallFailure, CallRequest, Ending, Limits, OpenAIRunner, OpenAISettings, Usage
from bot_orch.agents.faults import FaultServer
from bot_orch.agents.replies import load_json, reply_from_completion, reply_from_value
from bot_orch.agents.sse import EventReader
from bot_orch.errors import InvalidInputError, MissingExtraError


def exchange(request, mode="call", fault="ok", limits=None, **options):
    """One request through a fault server: (what arrived, chunks or reply)."""

    async def scenario():
        async with FaultServer() as server:
            settings = OpenAISettings(server.base_url(fault), "m-1", allow_private=True, **options)
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
    assert "stream_options" not in exchange(CallRequest("r"), "stream", stream_usage=False)[0].requests[0].document


def test_connection_is_kept_after_a_stream():
    async def scenario():
        async with FaultServer() as server:
            runner = OpenAIRunner(OpenAISettings(server.base_url("ok"), "m", allow_private=True))
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
