"""LangChain's own agent and fake models."""

import asyncio

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage

from bot_orch import Router
from bot_orch.integrations.langchain import RoutingMiddleware


class Broken(FakeListChatModel):
    error: object = None

    def _call(self, *_, **__):
        raise self.error

    async def _agenerate(self, *_, **__):
        if isinstance(self.error, float):
            await asyncio.sleep(self.error)
        raise self.error


def fake(text):
    return FakeListChatModel(responses=[text])


def ask(agent, text="hello"):
    return agent.invoke({"messages": [("user", text)]})["messages"][-1]


def test_success_propensity_and_latency():
    routing = RoutingMiddleware({"small": fake("s"), "large": fake("l")}, judge=lambda task, answer: 0.5)
    message = ask(create_agent(fake("unused"), middleware=[routing]))
    (row,) = routing.router.history()
    told = message.response_metadata["bot_orch"]
    assert message.text == row["agent"][0] and told["agent"] == row["agent"]
    assert row["reward"] == 0.5 and row["elapsed_s"] >= 0 and row["propensity"] == told["propensity"] > 0


@pytest.mark.parametrize(("error", "reward"), [(ValueError("x"), 0.0), (TimeoutError("late"), None)])
def test_errors_and_timeouts(error, reward):
    routing = RoutingMiddleware({"a": Broken(responses=["x"], error=error)})
    with pytest.raises(type(error)):
        ask(create_agent(fake("unused"), middleware=[routing]))
    (row,) = routing.router.history()
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")


def test_a_cancelled_call_is_censored():
    routing = RoutingMiddleware({"a": Broken(responses=["x"], error=60.0)})
    agent = create_agent(fake("unused"), middleware=[routing])

    async def play():
        call = asyncio.create_task(agent.ainvoke({"messages": [("user", "hello")]}))
        while not routing.router.pending:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(play())
    (row,) = routing.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled"


def test_it_learns_which_model_is_right():
    models = {"wrong": fake("no"), "right": fake("yes")}
    routing = RoutingMiddleware(
        models, Router(list(models), "ucb1", seed=2), judge=lambda task, answer: float(answer.result[0].text == "yes")
    )
    agent = create_agent(fake("unused"), middleware=[routing])
    said = [ask(agent).text for _ in range(40)]
    assert said[-20:].count("yes") > 15


def test_feedback_and_dollars():
    priced = FakeListChatModel(responses=["x"])
    routing = RoutingMiddleware({"a": priced}, success_reward=None, prices={"a": (1.0, 10.0)})

    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    request = ModelRequest(model=priced, messages=[])
    routing.wrap_model_call(request, lambda _: ModelResponse(result=[AIMessage("x", usage_metadata=usage)]))
    (decision_id,) = routing.router.pending
    routing.feedback(decision_id, 0.75)
    (row,) = routing.router.history()
    assert row["reward"] == 0.75 and row["cost_usd"] == pytest.approx(0.002)


def test_a_model_without_a_price_has_no_dollars():
    routing = RoutingMiddleware({"a": fake("x")}, prices={"b": (1.0, 10.0)})
    ask(create_agent(fake("unused"), middleware=[routing]))
    (row,) = routing.router.history()
    assert row["cost_usd"] is None
