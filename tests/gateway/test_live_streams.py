"""Streams that are long, silent, cancelled or cut: how long they live, and what they cost."""

import openai
import pytest
from remote import HELLO, attempts, metric
from service_running import until

from bot_orch.agents import Limits, OpenAISettings, PythonSettings, make_agent

WORDS = [f"word{number} " for number in range(12)]
PRICE = "input_usd_per_million: 1000000, output_usd_per_million: 100"
OPTIONS = [{}, {"stream_options": {"include_usage": False}}, {"stream_options": {"include_usage": True}}]
PROMPT = -(-len(HELLO[0]["content"]) // 4)


def stream(client, **options):
    return client.chat.completions.create(model="auto", messages=HELLO, stream=True, **options)


def text_of(pieces):
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def test_a_whole_answer_is_not_cut_at_the_first_byte_timeout(endpoint, serve, agent, client):
    """It has its first byte at its end."""
    service = serve(agent(endpoint.script({"delay_s": 1.0}), limits="first_byte_s: 0.2"))
    answer = client(service).chat.completions.create(model="auto", messages=HELLO)
    assert answer.choices[0].message.content == "The answer"


def test_a_function_that_does_not_stream_is_not_cut_either(serve, client):
    """A client that asks it for a stream gets one piece, at its end."""
    own = "{id: own, kind: python, first_byte_s: 0.1, path: 'answering:slow'}"
    assert text_of(stream(client(serve(own)))) == "done"


def test_default_limits_are_generous_where_a_call_holds_no_thread():
    where = OpenAISettings("http://127.0.0.1:1/v1", "m")
    assert Limits().total_s == 600 and make_agent("a", where).limits.total_s == 600
    assert make_agent("a", where).view().concurrency == make_agent("a", where, Limits(total_s=5)).view().concurrency
    assert make_agent("a", where).view().concurrency >= 1000
    assert make_agent("a", where, Limits(concurrency=3)).view().concurrency == 3
    assert make_agent("a", PythonSettings("json:dumps")).view().concurrency == 16


def test_a_live_stream_is_not_cut_at_the_total_timeout(endpoint, serve, agent, client):
    url = endpoint.script({"words": WORDS, "pace_s": 0.1})
    service = serve(agent(url, limits="first_byte_s: 20, timeout_s: 0.8, idle_s: 20"))
    pieces = list(stream(client(service)))
    assert text_of(pieces) == "".join(WORDS) and pieces[-1].choices[0].finish_reason == "stop"
    (attempt,) = attempts(service)
    assert attempt.ending == "completed" and attempt.elapsed_s > 0.8
    assert metric(service, "bot_orch_attempts_total", agent="upstream", ending="completed") == 1


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("then", "ending"), [("hang", "timeout_idle"), ("drop", "truncated_stream")])
def test_a_stream_that_is_cut_costs_what_was_used(endpoint, serve, agent, client, options, then, ending):
    url = endpoint.script({"words": WORDS, "then": then})
    service = serve(agent(url, limits="idle_s: 0.3", price=PRICE))
    pieces = []
    with pytest.raises(openai.APIError) as caught:
        pieces.extend(stream(client(service), **options))  # keeps what came before the error
    assert caught.value.body["code"] == ending
    (attempt,) = attempts(service)
    delivered = text_of(pieces)  # what was under way when a connection breaks may be lost
    assert delivered and "".join(WORDS).startswith(delivered) and (then == "drop" or delivered == "".join(WORDS))
    written = max(delivered.count("word"), -(-len(delivered) // 4))
    assert (attempt.ending, attempt.estimated) == (ending, True)
    assert (attempt.input_tokens, attempt.output_tokens) == (PROMPT, written)
    assert attempt.cost_usd == pytest.approx(PROMPT + written * 1e-4)
    assert metric(service, "bot_orch_spent_last_day_usd") == pytest.approx(attempt.cost_usd)
    assert metric(service, "bot_orch_attempts_total", agent="upstream", ending=ending) == 1


@pytest.mark.parametrize("options", OPTIONS)
def test_a_cancelled_stream_costs_what_was_used(endpoint, serve, agent, client, options):
    url = endpoint.script({"words": WORDS[:3], "then": "hang"})
    service = serve(agent(url, price=PRICE))
    with stream(client(service), **options) as pieces:
        assert [next(pieces).choices[0].delta.content for _ in range(4)] == ["", *WORDS[:3]]
    (attempt,) = attempts(service)
    assert (attempt.ending, attempt.estimated) == ("cancelled_by_caller", True)
    assert (attempt.input_tokens, attempt.output_tokens) == (PROMPT, -(-len("".join(WORDS[:3])) // 4))
    assert metric(service, "bot_orch_spent_last_day_usd") == pytest.approx(attempt.cost_usd) and attempt.cost_usd > 0
    assert until(lambda: endpoint.seen(url)[0].get("gone")), "the endpoint is told"


def test_counts_that_the_endpoint_tells_on_the_way_are_not_estimated(endpoint, serve, agent, client):
    url = endpoint.script({"words": WORDS[:3], "counts": "every", "then": "hang"})
    service = serve(agent(url, price=PRICE))
    with stream(client(service)) as pieces:
        for _ in range(4):
            next(pieces)
    (attempt,) = attempts(service)
    assert (attempt.input_tokens, attempt.output_tokens, attempt.estimated) == (11, 3, False)


def test_a_whole_stream_without_counts_is_estimated(endpoint, serve, agent, client):
    url = endpoint.script({"words": WORDS, "counts": "never"}, {"words": WORDS})
    service = serve(agent(url, price=PRICE))
    through = client(service)
    assert text_of(stream(through)) == text_of(stream(through))
    first, second = attempts(service, 2)
    assert (first.estimated, first.input_tokens) == (True, PROMPT) and first.output_tokens >= len(WORDS)
    assert (second.estimated, second.input_tokens, second.output_tokens) == (False, 11, len(WORDS))


def test_tool_calls_and_reasoning_count_as_written(endpoint, serve, agent, client):
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "x" * 39}}
    words = [{"tool_calls": [call]}, {"reasoning_content": "y" * 40}]
    url = endpoint.script({"words": words, "pace_s": 0.2, "then": "drop"})  # what a lost connection overtakes is unread
    service = serve(agent(url, price=PRICE))
    with pytest.raises(openai.APIError):
        list(stream(client(service)))
    assert attempts(service)[0].output_tokens == 20


@pytest.mark.parametrize("streams", [False, True])
def test_overhead_is_the_services_own_time(endpoint, serve, agent, client, streams):
    """Waiting for agents does not count, also for one that failed before."""
    slow = {"delay_s": 0.4}
    url = endpoint.script({**slow, "status": 500, "error": {"message": "down"}}, slow)
    service = serve(agent(url, "one"), agent(url, "two"))
    answer = client(service).chat.completions.with_raw_response.create(model="auto", messages=HELLO, stream=streams)
    assert answer.headers["x-bot-orch-attempts"] == "2"
    assert 0 <= float(answer.headers["x-bot-orch-overhead-ms"]) < 400
    assert sum(attempt.elapsed_s for attempt in attempts(service, 2)) > 0.8
