"""PydanticAI's own agent and function models."""

import asyncio

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from bot_orch import Router
from bot_orch.integrations.pydantic_ai import RoutedRuns


def run(agent, **options):
    return asyncio.run(agent.run("hello", **options))


def says(text):
    return FunctionModel(lambda messages, info: ModelResponse([TextPart(text)]), model_name=text)


def does(function):
    return FunctionModel(function)


def raises(error):
    def call(messages, info):
        raise error

    return does(call)


def test_success_propensity_and_latency():
    runs = RoutedRuns({"small": says("s"), "large": says("l")}, judge=lambda task, result: 0.5)
    result = run(Agent(capabilities=[runs]))
    (row,) = runs.router.history()
    assert result.output == row["agent"][0]
    assert row["reward"] == 0.5 and row["elapsed_s"] > 0 and 0 < row["propensity"] <= 1


def test_one_choice_per_run():
    def twice(messages, info):
        told = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        return ModelResponse([TextPart("done")] if told else [ToolCallPart("look", {})])

    runs = RoutedRuns({"a": does(twice), "b": does(twice)})
    agent = Agent(capabilities=[runs])
    agent.tool_plain(name="look")(lambda: "seen")
    assert run(agent).output == "done"
    assert len(runs.router.history()) == 1 and runs.router.pending == ()


@pytest.mark.parametrize(("error", "reward"), [(ValueError("x"), 0.0), (TimeoutError("late"), None)])
def test_errors_and_timeouts(error, reward):
    runs = RoutedRuns({"a": raises(error)})
    with pytest.raises(type(error)):
        run(Agent(capabilities=[runs]))
    (row,) = runs.router.history()
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")
    assert row["elapsed_s"] >= 0 and row["propensity"] == 1.0


async def waits(messages, info):
    await asyncio.sleep(60)


def test_a_runs_own_time_limit():
    runs = RoutedRuns({"a": does(waits)})
    with pytest.raises(TimeoutError):
        run(Agent(capabilities=[runs]), timeout=0.05)
    (row,) = runs.router.history()
    assert row["reward"] is None and row["reason"] == "timeout" and row["elapsed_s"] > 0


def test_a_cancelled_run_is_censored():
    runs = RoutedRuns({"a": does(waits)})

    async def play():
        run = asyncio.create_task(Agent(capabilities=[runs]).run("hello"))
        while not runs.router.pending:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(play())
    (row,) = runs.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled" and row["elapsed_s"] > 0


def test_it_learns_which_model_is_right():
    models = {"wrong": says("no"), "right": says("yes")}
    runs = RoutedRuns(models, Router(list(models), "ucb1", seed=2), judge=lambda task, result: result.output == "yes")
    agent = Agent(capabilities=[runs])
    said = [run(agent).output for _ in range(30)]
    assert said[-15:].count("yes") > 11


def test_feedback_and_dollars():
    runs = RoutedRuns({"a": says("x")}, success_reward=None, prices={"a": (1e6, 1e6)})
    result = run(Agent(capabilities=[runs]))
    assert len(runs.router.pending) == 1
    runs.feedback(result.run_id, 0.75)
    (row,) = runs.router.history()
    usage = result.usage
    assert row["reward"] == 0.75 and row["cost_usd"] == usage.input_tokens + usage.output_tokens > 0


def test_a_streamed_run():
    async def stream(messages, info):
        yield "hel"
        yield "lo"

    runs = RoutedRuns({"a": FunctionModel(stream_function=stream)})

    async def play():
        async with Agent(capabilities=[runs]).run_stream("hello") as streamed:
            return await streamed.get_output()

    assert asyncio.run(play()) == "hello"
    (row,) = runs.router.history()
    assert row["reward"] == 1.0 and runs.router.pending == ()


def test_answers_are_checked_before_one_is_delivered():
    """The round has one outcome, and both models were looked at."""
    runs = RoutedRuns(
        {"wrong": says("no"), "right": says("yes")},
        attempts=2,
        check=lambda task, response: response.parts[0].content == "yes",
        judge=lambda task, result: float(result.output == "yes"),
    )
    agent = Agent(capabilities=[runs])
    assert {run(agent).output for _ in range(12)} == {"yes"}
    assert runs.router.pending == ()
    assert all(runs.router._orchestrator._state.parts["team"]["checked"] > 0)


def test_a_failure_asks_the_next_model():
    models = {"broken": raises(ValueError("no")), "right": says("yes")}
    runs = RoutedRuns(models, attempts=2, check=lambda *_: True, judge=lambda *_: 1.0)
    assert {run(Agent(capabilities=[runs])).output for _ in range(6)} == {"yes"}
    assert runs.router.pending == ()


def test_tool_calls_are_not_looked_at():
    def twice(messages, info):
        told = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        return ModelResponse([TextPart("done")] if told else [ToolCallPart("look", {})])

    looked = []
    check = lambda task, response: looked.append(response.parts[0].part_kind) or True  # noqa: E731
    runs = RoutedRuns({"a": does(twice), "b": does(twice)}, attempts=2, check=check, judge=lambda *_: 1.0)
    agent = Agent(capabilities=[runs])
    agent.tool_plain(name="look")(lambda: "seen")
    assert run(agent).output == "done" and set(looked) == {"text"}
