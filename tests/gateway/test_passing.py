"""Headers, repeats and other small things between a client and the agents."""

import asyncio
import sys

import openai
import pytest
from remote import GOOD, HELLO, attempts
from service_running import Running, until

from bot_orch.service.config import load_config, parse_config
from bot_orch.service.problems import Problem
from bot_orch.service.repeats import KeptAnswer, Repeats

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
DOWN = {"status": 500, "error": {"message": "down"}}


def ask(client, key=None, messages=HELLO, **options):
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.chat.completions.with_raw_response.create(
        model="auto", messages=messages, extra_headers=headers, **options
    )


# Trace headers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_trace_headers_reach_the_agent_and_the_id_comes_back(endpoint, serve, agent, client, streams):
    url = endpoint.script(GOOD)
    through = client(serve(agent(url)), default_headers={**TRACE, "X-Request-Id": "r-7", "X-Other": "no"})
    answer = ask(through, stream=streams)
    seen = endpoint.seen(url)[0]["headers"]
    assert {name: seen.get(name) for name in TRACE} == TRACE
    assert seen["x-request-id"] == answer.headers["x-request-id"] == "r-7" and "x-other" not in seen


def test_a_request_without_an_id_gets_one_also_if_it_fails(endpoint, serve, agent, client):
    url = endpoint.script(DOWN)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client(serve(agent(url))))
    given = caught.value.request_id
    assert given.startswith("req-") and endpoint.seen(url)[0]["headers"]["x-request-id"] == given


def test_a_task_passes_them_on_too(endpoint, serve, agent):
    url = endpoint.script(GOOD)
    done = serve(agent(url)).post("/v1/tasks", {"task": {"text": "x"}}, headers={**TRACE, "X-Request-Id": "r-8"})
    assert done.headers["x-request-id"] == endpoint.seen(url)[0]["headers"]["x-request-id"] == "r-8"
    assert endpoint.seen(url)[0]["headers"]["traceparent"] == TRACE["traceparent"]


# Idempotency-Key -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_a_repeat_gets_the_same_answer_without_another_call(endpoint, serve, agent, client, streams):
    url = endpoint.script({"words": ["one"]}, {"words": ["two"]})
    through = client(serve(agent(url)))

    def text(answer):
        parsed = answer.parse()
        return [piece.to_dict() for piece in parsed] if streams else parsed.to_dict()

    first, again, other = (ask(through, key, stream=streams) for key in ("k", "k", "l"))
    assert text(first) == text(again) != text(other)
    assert first.headers["x-bot-orch-decision-id"] == again.headers["x-bot-orch-decision-id"]
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert first.headers["content-type"] == again.headers["content-type"]
    assert len(endpoint.seen(url)) == 2


def test_another_body_under_the_same_key_is_refused(endpoint, serve, agent, client):
    url = endpoint.script(GOOD)
    through = client(serve(agent(url)), max_retries=2)
    ask(through, "k")
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        ask(through, "k", messages=[{"role": "user", "content": "something else"}])
    assert caught.value.code == "idempotency_conflict" and len(endpoint.seen(url)) == 1


def test_simultaneous_repeats_make_one_call(endpoint, serve, agent):
    url = endpoint.script({"delay_s": 0.3})
    service = serve(agent(url))

    async def main():
        where = f"http://127.0.0.1:{service.port}/v1"
        async with openai.AsyncOpenAI(base_url=where, api_key="unused", max_retries=0) as client:
            return await asyncio.gather(*(ask(client, "k") for _ in range(8)))

    answers = asyncio.run(main())
    assert len({answer.headers["x-bot-orch-decision-id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 7
    assert len(endpoint.seen(url)) == len(attempts(service)) == 1


def test_a_failure_is_not_kept(endpoint, serve, agent, client):
    url = endpoint.script(DOWN, GOOD)
    through = client(serve(agent(url)))
    with pytest.raises(openai.InternalServerError):
        ask(through, "k")
    assert ask(through, "k").parse().choices[0].message.content == "The answer"


@pytest.mark.parametrize("then", ["drop", "hang"])
def test_a_stream_that_did_not_end_is_not_kept(endpoint, serve, agent, client, then):
    url = endpoint.script({"words": ["half "], "then": then}, GOOD)
    service = serve(agent(url))
    with ask(client(service), "k", stream=True).parse() as pieces:
        next(pieces)
        if then == "drop":
            with pytest.raises(openai.APIError):
                list(pieces)
    attempts(service)
    said = [piece.choices[0].delta.content for piece in ask(client(service), "k", stream=True).parse()]
    assert said == ["", "The ", "answer", None] and len(endpoint.seen(url)) == 2


def test_memory_of_answers_is_bounded():
    now = [0.0]
    repeats = Repeats(3, 100, keep_s=10.0, clock=lambda: now[0])

    async def put(key, size):
        assert await repeats.claim(key, b"d") is None
        repeats.keep(key, KeptAnswer(b"x" * size, b"text/plain", {}))

    async def scenario():
        for number in range(5):
            await put(f"k{number}", 20)
        assert (len(repeats), repeats.size) == (3, 60) and await repeats.claim("k4", b"d")
        await put("large", 26)
        assert (len(repeats), repeats.size) == (3, 60), "one answer has a quarter at most"
        with pytest.raises(Problem):
            await repeats.claim("k4", b"other")
        now[0] = 10.0
        assert await repeats.claim("k4", b"other") is None, "forgotten after a while"

    asyncio.run(scenario())


def test_who_waits_for_an_answer_that_fails_goes_on():
    repeats = Repeats()

    async def scenario():
        assert await repeats.claim("k", b"d") is None
        waiting = [asyncio.ensure_future(repeats.claim("k", b"d")) for _ in range(2)]
        await asyncio.sleep(0)
        repeats.drop("k")
        done, left = await asyncio.wait(waiting, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == [None] and len(left) == 1, "one of them answers, the other waits"
        repeats.keep("k", KeptAnswer(b"yes", b"text/plain", {}))
        assert (await left.pop()).body == b"yes"

    asyncio.run(scenario())


# Functions, times, sizes ---------------------------------------------------------------------------------------------


def test_a_function_beside_the_configuration_file(tmp_path, monkeypatch, client):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_file.py").write_text(
        "import also_beside\n\ndef answer(request):\n    return also_beside.TEXT\n"
    )
    (tmp_path / "also_beside.py").write_text("TEXT = 'found'\n")
    file = tmp_path / "bot-orch.yaml"
    own = "{id: own, kind: python, path: 'beside_the_file:answer'}"
    file.write_text(f"version: 1\nlisten: {{port: 0}}\nagents: [{own}]\n")
    service = Running(load_config(file))
    try:
        assert ask(client(service)).parse().choices[0].message.content == "found"
    finally:
        service.stop()


def test_survival_learns_from_measured_times(endpoint, serve, agent, client):
    quick, slow = endpoint.script(GOOD), endpoint.script({"delay_s": 0.15})
    service = serve(agent(quick, "quick"), agent(slow, "slow"), router="reward: {id: survival}, floor: 0.5")
    answers = [ask(client(service)) for _ in range(14)]
    first = answers[0].headers["x-bot-orch-decision-id"]
    (outcome,) = service.get(f"/v1/decisions/{first}").json()["outcomes"]
    assert (outcome["effect"], outcome["completed"], outcome["reward"]) == ("learned", True, None)
    assert len({answer.headers["x-bot-orch-agent"] for answer in answers}) == 2
    terms = until(lambda: service.post("/v1/decisions", {"task": {}}).json()["terms"])
    assert terms["quick"]["estimate"] > terms["slow"]["estimate"]


def test_large_requests_are_passed_on(endpoint, serve, agent, tmp_path, client):
    url = endpoint.script(GOOD)
    text = "version: 1\ndatabase: ':memory:'\nlisten: {port: 0}\nagents:\n  - " + agent(url, limits="timeout_s: 60")
    service = Running(parse_config(text))
    try:
        image = "data:image/png;base64," + "A" * 3_000_000
        content = [{"type": "text", "text": "what is it?"}, {"type": "image_url", "image_url": {"url": image}}]
        assert ask(client(service), messages=[{"role": "user", "content": content}]).parse().choices
    finally:
        service.stop()
    assert len(endpoint.seen(url)[0]["document"]["messages"][0]["content"][1]["image_url"]["url"]) == len(image)
