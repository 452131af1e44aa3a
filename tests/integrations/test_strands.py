"""Strands' own agent and model router, with fake models."""

import asyncio

import pytest

pytest.importorskip("strands")

from strands import Agent
from strands.models import Model
from strands.models.routing import ModelRouter, RoutingCandidate

from bot_orch import InvalidInputError, Router
from bot_orch.integrations.strands import LearnedStrategy


class Fake(Model):
    """Says a text, raises an error, or waits."""

    def __init__(self, does):
        self.does = does

    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *_, **__):
        raise NotImplementedError

    async def stream(self, *_, **__):
        if isinstance(self.does, Exception):
            raise self.does
        if isinstance(self.does, float):
            await asyncio.sleep(self.does)
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": str(self.does)}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
        usage = {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


def agent_of(strategy, **does):
    candidates = [RoutingCandidate(Fake(what), name=name) for name, what in does.items()]
    return Agent(
        model=ModelRouter(candidates, strategy=strategy), hooks=[strategy], callback_handler=None, retry_strategy=None
    )


def ask(agent):
    return asyncio.run(agent.invoke_async("hello"))


def said(result):
    return result.message["content"][0]["text"]


def test_success_propensity_and_latency():
    strategy = LearnedStrategy(["small", "large"], judge=lambda task, result: 0.5)
    result = ask(agent_of(strategy, small="s", large="l"))
    (row,) = strategy.router.history()
    assert said(result) == row["agent"][0]
    assert row["reward"] == 0.5 and row["elapsed_s"] > 0 and 0 < row["propensity"] <= 1
    assert result.state["bot_orch"]["propensity"] == row["propensity"]


@pytest.mark.parametrize(("error", "reward"), [(ValueError("x"), 0.0), (TimeoutError("late"), None)])
def test_errors_and_timeouts(error, reward):
    strategy = LearnedStrategy(["a"])
    with pytest.raises(Exception, match=str(error)):
        ask(agent_of(strategy, a=error))
    (row,) = strategy.router.history()
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")
    assert row["elapsed_s"] >= 0 and row["propensity"] == 1.0 and strategy.router.pending == ()


def test_after_a_failure_another_one_is_asked():
    strategy = LearnedStrategy(Router(["bad", "worse", "good"], "ucb1", seed=3))
    agent = agent_of(strategy, bad=ValueError("x"), worse=TimeoutError("y"), good="fine")
    for _ in range(6):
        assert said(ask(agent)) == "fine"
    rows = strategy.router.history()
    failed = {row["agent"]: (row["reward"], row["reason"]) for row in rows if row["agent"] != "good"}
    assert failed == {"bad": (0.0, "crashed"), "worse": (None, "timeout")}
    assert [row["agent"] for row in rows].count("good") == 6 and strategy.router.pending == ()
    rounds = "".join(row["agent"][0] for row in rows).split("g")
    assert "".join(rounds) and all(len(set(tried)) == len(tried) for tried in rounds)  # nobody twice in an invocation


def test_when_all_fail_the_error_surfaces():
    strategy = LearnedStrategy(["a", "b"])
    with pytest.raises(Exception, match="x"):
        ask(agent_of(strategy, a=ValueError("x"), b=ValueError("x")))
    assert sorted(row["agent"] for row in strategy.router.history()) == ["a", "b"]
    assert strategy.router.pending == ()


def test_a_cancelled_invocation_is_censored():
    strategy = LearnedStrategy(["a"])

    async def play():
        call = asyncio.create_task(agent_of(strategy, a=60.0).invoke_async("hello"))
        while not strategy.router.pending:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(play())
    (row,) = strategy.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled" and row["elapsed_s"] > 0


def test_it_learns_which_model_is_right():
    router = Router(["wrong", "right"], "ucb1", seed=2)
    strategy = LearnedStrategy(router, judge=lambda task, result: float(said(result) == "yes"))
    agent = agent_of(strategy, wrong="no", right="yes")
    answers = [said(ask(agent)) for _ in range(30)]
    assert answers[-15:].count("yes") > 11


def test_feedback_and_dollars():
    strategy = LearnedStrategy(["a"], success_reward=None, prices={"a": (1.0, 10.0)})
    result = ask(agent_of(strategy, a="x"))
    assert len(strategy.router.pending) == 1
    strategy.feedback(result.state["bot_orch"]["decision_id"], 0.75)
    (row,) = strategy.router.history()
    assert row["reward"] == 0.75 and row["cost_usd"] == pytest.approx(0.002)


def test_candidates_need_names():
    strategy = LearnedStrategy(["a"])
    agent = Agent(model=ModelRouter([Fake("x")], strategy=strategy), hooks=[strategy], callback_handler=None)
    with pytest.raises(InvalidInputError, match="name="):
        ask(agent)
