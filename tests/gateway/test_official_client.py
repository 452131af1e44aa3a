"""The official client through the gateway to a real endpoint: what it sees, what log and metrics say."""

import asyncio

import openai
import pydantic
import pytest
from remote import GOOD, HELLO, attempts, metric
from service_running import until

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


def agrees(service, ending, tokens=None):
    """One attempt, the same in the log and the metrics."""
    (attempt,) = attempts(service)
    assert attempt.ending == ending
    assert tokens is None or (attempt.input_tokens, attempt.output_tokens) == tokens
    assert metric(service, "bot_orch_attempts_total", agent="upstream", ending=ending) == 1
    return attempt


@pytest.fixture
def open_async():
    """Runs a coroutine function with an asynchronous client of the service."""

    def run(service, work):
        async def main():
            url = f"http://127.0.0.1:{service.port}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0, timeout=60) as client:
                return await work(client.chat.completions)

        return asyncio.run(main())

    return run


def test_sync(endpoint, serve, agent, client):
    service = serve(agent(endpoint.script(GOOD), price="per_call_usd: 0.25"))
    done = client(service).chat.completions.create(model="auto", messages=HELLO)
    assert (done.choices[0].message.content, done.usage.completion_tokens) == ("The answer", 2)
    assert agrees(service, "completed", (11, 2)).cost_usd == 0.25
    assert metric(service, "bot_orch_spent_last_day_usd") == 0.25
    assert metric(service, "bot_orch_requests_total", route="/v1/chat/completions", status="200") == 1


def test_async(endpoint, serve, agent, open_async):
    service = serve(agent(endpoint.script(GOOD)))
    done = open_async(service, lambda chat: chat.create(model="auto", messages=HELLO))
    assert done.choices[0].message.content == "The answer"
    agrees(service, "completed", (11, 2))


def test_async_stream(endpoint, serve, agent, open_async):
    service = serve(agent(endpoint.script(GOOD)))

    async def work(chat):
        stream = await chat.create(model="auto", messages=HELLO, stream=True, stream_options={"include_usage": True})
        return [piece async for piece in stream]

    pieces = open_async(service, work)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "The answer"
    assert pieces[-1].usage.completion_tokens == 2
    agrees(service, "completed", (11, 2))


@pytest.mark.parametrize("streams", [False, True])
def test_tools(endpoint, serve, agent, client, streams):
    answer = {"message": {"content": None, "tool_calls": [CALL]}, "finish": "tool_calls"}
    url = endpoint.script({**answer, "words": [{"tool_calls": [{"index": 0, **CALL}]}]} if streams else answer)
    service = serve(agent(url))
    chat = client(service).chat.completions
    if streams:
        with chat.stream(model="auto", messages=HELLO, tools=TOOLS) as stream:
            done = stream.get_final_completion()
    else:
        done = chat.create(model="auto", messages=HELLO, tools=TOOLS)
    (choice,) = done.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.arguments == CALL["function"]["arguments"]
    assert endpoint.seen(url)[0]["document"]["tools"] == TOOLS
    agrees(service, "completed")


@pytest.mark.parametrize("streams", [False, True])
def test_structured_output(endpoint, serve, agent, client, streams):
    url = endpoint.script({"words": ['{"city": "Rome", ', '"degrees": 31}']})
    service = serve(agent(url))
    chat = client(service).chat.completions
    if streams:
        with chat.stream(model="auto", messages=HELLO, response_format=Weather) as stream:
            done = stream.get_final_completion()
    else:
        done = chat.parse(model="auto", messages=HELLO, response_format=Weather)
    assert done.choices[0].message.parsed == Weather(city="Rome", degrees=31)
    assert endpoint.seen(url)[0]["document"]["response_format"]["json_schema"]["name"] == "Weather"
    agrees(service, "completed")


def test_cancel(endpoint, serve, agent, open_async):
    """A cancelled task of the caller: the endpoint is told, no other agent is asked, nothing counts against it."""
    url = endpoint.script({"then": "hang"})
    service = serve(agent(url))

    async def work(chat):
        asking = asyncio.ensure_future(chat.create(model="auto", messages=HELLO))
        while not await asyncio.to_thread(endpoint.seen, url):
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    open_async(service, work)
    assert until(lambda: endpoint.seen(url)[0].get("gone"))
    agrees(service, "cancelled_by_caller")
    assert service.get("/v1/agents").json()[0]["circuit"] == "closed"


def test_a_client_that_gives_up_waiting(endpoint, serve, agent, client):
    url = endpoint.script({"then": "hang"})
    service = serve(agent(url))
    with pytest.raises(openai.APITimeoutError):
        client(service, timeout=0.5).chat.completions.create(model="auto", messages=HELLO)
    agrees(service, "cancelled_by_caller")
    assert len(endpoint.seen(url)) == 1
