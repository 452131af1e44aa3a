"""LiteLLM's own router with a provider that is a class of this file."""

import asyncio
import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is fetched from the network
pytest.importorskip("litellm")

import litellm

from bot_orch import Router
from bot_orch.integrations.litellm import LearnedRouting

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's own warnings, many of them
GOOD, OTHER = "fake/good", "fake/other"
SAID = {}  # what each model does: a text, an exception, or seconds to wait


class Provider(litellm.CustomLLM):
    async def acompletion(self, model, messages, *_, **__):
        does = SAID[f"fake/{model}"]
        if isinstance(does, Exception):
            raise does
        if isinstance(does, float):
            await asyncio.sleep(does)
        message = litellm.Message(role="assistant", content=str(does))
        usage = litellm.Usage(prompt_tokens=10, completion_tokens=20, total_tokens=30)
        return litellm.ModelResponse(model=model, choices=[litellm.Choices(message=message)], usage=usage)

    async def astreaming(self, model, *_, **__):
        usage = {"completion_tokens": 1, "prompt_tokens": 1, "total_tokens": 2}
        text = SAID[f"fake/{model}"]
        yield {"text": text, "index": 0, "is_finished": True, "finish_reason": "stop", "tool_use": None, "usage": usage}


@pytest.fixture(autouse=True)
def provider(monkeypatch):
    monkeypatch.setattr(litellm, "custom_provider_map", [{"provider": "fake", "custom_handler": Provider()}])
    monkeypatch.setattr(litellm, "callbacks", [])
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    SAID.clear()


def router_of(routing, **options):
    litellm.callbacks.append(routing)
    prices = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
    models = [{"model_name": "chat", "litellm_params": {"model": name, **prices}} for name in SAID]
    return litellm.Router(model_list=models, plugins=[routing], disable_cooldowns=True, **options)


async def ask(router, **options):
    return await router.acompletion(model="chat", messages=[{"role": "user", "content": "hello"}], **options)


async def reported(routing, rounds):
    """LiteLLM logs in the background."""
    for _ in range(500):
        if len(routing.router.history()) >= rounds and not routing.router.pending:
            break
        await asyncio.sleep(0.01)
    return routing.router.history()


def play(routing, **options):
    async def one():
        reply = await ask(router_of(routing, num_retries=0), **options)
        return reply, await reported(routing, 1)

    return asyncio.run(one())


def test_success_propensity_latency_and_dollars():
    SAID.update({GOOD: "good", OTHER: "other"})
    routing = LearnedRouting([GOOD, OTHER], judge=lambda task, reply: 0.5 if task.text == "hello" else 0.0)
    reply, (row,) = play(routing)
    assert row["agent"] == "fake/" + reply.choices[0].message.content
    assert row["reward"] == 0.5 and row["elapsed_s"] > 0 and 0 < row["propensity"] <= 1
    usage = reply.usage
    assert row["cost_usd"] == pytest.approx(0.001 * usage.prompt_tokens + 0.01 * usage.completion_tokens)


@pytest.mark.parametrize(
    ("error", "reward"),
    [(ValueError("x"), 0.0), (litellm.Timeout(message="late", model="good", llm_provider="fake"), None)],
    ids=["error", "timeout"],
)
def test_errors_and_timeouts(error, reward):
    SAID[GOOD] = error
    routing = LearnedRouting([GOOD])

    async def one():
        with pytest.raises(Exception, match="x|late"):
            await ask(router_of(routing, num_retries=0))
        return await reported(routing, 1)

    (row,) = asyncio.run(one())
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")
    assert row["elapsed_s"] >= 0 and row["propensity"] == 1.0


def test_a_retry_tries_another_model():
    SAID.update({GOOD: "good", OTHER: litellm.InternalServerError("x", model="other", llm_provider="fake")})
    routing = LearnedRouting(Router([GOOD, OTHER], "ucb1", seed=1))

    async def many():
        router = router_of(routing, num_retries=1, retry_after=0)
        for number in range(4):
            assert (await ask(router)).choices[0].message.content == "good"
            await reported(routing, number + 1)
        return await reported(routing, 5)

    rows = asyncio.run(many())
    assert [row["agent"] for row in rows].count(GOOD) == 4 and routing.router.pending == ()
    assert {row["reward"] for row in rows if row["agent"] == OTHER} == {0.0}


def test_a_cancelled_call_is_censored():
    SAID[GOOD] = 60.0
    routing = LearnedRouting([GOOD])

    async def one():
        call = asyncio.create_task(ask(router_of(routing)))
        while not routing.router.pending:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(0)

    asyncio.run(one())
    (row,) = routing.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled" and row["elapsed_s"] > 0


def test_it_learns_which_model_is_right():
    SAID.update({OTHER: "no", GOOD: "yes"})
    router = Router([OTHER, GOOD], "ucb1", seed=2)
    routing = LearnedRouting(router, judge=lambda task, reply: float(reply.choices[0].message.content == "yes"))

    async def many():
        router, said = router_of(routing, num_retries=0), []
        for number in range(20):
            said.append((await ask(router)).choices[0].message.content)
            await reported(routing, number + 1)
        return said

    assert asyncio.run(many())[-10:].count("yes") > 7


@pytest.mark.parametrize("name", [lambda reply: reply.id, lambda reply: reply._hidden_params["litellm_call_id"]])
def test_feedback_by_call_id(name):
    SAID[GOOD] = "x"
    routing = LearnedRouting([GOOD], success_reward=None)

    async def one():
        reply = await ask(router_of(routing))
        for _ in range(300):
            if routing.find(name(reply)) is not None:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        return reply

    reply = asyncio.run(one())
    assert len(routing.router.pending) == 1
    routing.feedback(name(reply), 0.75)
    (row,) = routing.router.history()
    assert row["reward"] == 0.75 and row["cost_usd"] > 0 and row["elapsed_s"] > 0


def test_a_stream():
    SAID[GOOD] = "word"
    routing = LearnedRouting([GOOD])

    async def one():
        parts = [part async for part in await ask(router_of(routing), stream=True)]
        return parts, await reported(routing, 1)

    parts, (row,) = asyncio.run(one())
    assert parts and row["reward"] == 1.0 and row["elapsed_s"] > 0


def test_models_that_the_router_does_not_know_are_left_alone():
    SAID[GOOD] = "x"
    routing = LearnedRouting([OTHER])

    async def one():
        return await ask(router_of(routing))

    assert asyncio.run(one()).choices[0].message.content == "x"
    assert routing.router.history() == [] and routing.router.pending == ()
