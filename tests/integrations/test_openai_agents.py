"""The OpenAI Agents SDK's own runner, with fake models."""

import asyncio

import pytest

pytest.importorskip("agents.models.interface")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bot_orch import InvalidInputError, Router
from bot_orch.integrations.openai_agents import RoutedHandoffs, RoutedModels

set_tracing_disabled(True)


class Fake(Model):
    """Says a text, raises an error, waits, or hands off to whoever is offered."""

    def __init__(self, does):
        self.does, self.calls = does, 0

    async def output(self, named):
        self.calls += 1
        if isinstance(self.does, Exception):
            raise self.does
        if isinstance(self.does, float):
            await asyncio.sleep(self.does)
        if self.does is Model:
            names = [each.tool_name for each in named["handoffs"]]
            assert len(names) == 1
            return [ResponseFunctionToolCall(type="function_call", name=names[0], arguments="{}", call_id="1")]
        text = ResponseOutputText(type="output_text", text=str(self.does), annotations=[])
        return [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])]

    async def get_response(self, *_, **named):
        usage = Usage(requests=1, input_tokens=1000, output_tokens=100, total_tokens=1100)
        return ModelResponse(output=await self.output(named), usage=usage, response_id=f"r{self.calls}")

    async def stream_response(self, *_, **named):
        response = Response(
            id="s1",
            created_at=0,
            model="fake",
            object="response",
            output=await self.output(named),
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def models_of(**does):
    return {name: Fake(what) for name, what in does.items()}


def config(provider):
    return RunConfig(model_provider=provider, tracing_disabled=True)


async def ask(provider, model=None):
    return await Runner.run(Agent(name="assistant", model=model), "hello", run_config=config(provider))


def run(provider, model=None):
    return asyncio.run(ask(provider, model))


def test_success_propensity_and_latency():
    provider = RoutedModels(models_of(small="s", large="l"), judge=lambda task, reply: 0.5 * (task.text == "hello"))
    result = run(provider)
    (row,) = provider.router.history()
    assert result.final_output == row["agent"][0]
    assert row["reward"] == 0.5 and row["elapsed_s"] >= 0 and 0 < row["propensity"] <= 1


@pytest.mark.parametrize(("error", "reward"), [(ValueError("x"), 0.0), (TimeoutError("late"), None)])
def test_errors_and_timeouts(error, reward):
    provider = RoutedModels(models_of(a=error))
    with pytest.raises(type(error)):
        run(provider)
    (row,) = provider.router.history()
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")
    assert row["elapsed_s"] >= 0 and row["propensity"] == 1.0


async def cancelled(call, router):
    task = asyncio.create_task(call)
    while not router.pending:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_is_censored():
    provider = RoutedModels(models_of(a=60.0))
    asyncio.run(cancelled(ask(provider), provider.router))
    (row,) = provider.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled" and row["elapsed_s"] > 0


def test_it_learns_which_model_is_right():
    models = models_of(wrong="no", right="yes")
    provider = RoutedModels(
        models,
        Router(list(models), "ucb1", seed=2),
        judge=lambda task, reply: float(reply.output[0].content[0].text == "yes"),
    )
    said = [run(provider).final_output for _ in range(30)]
    assert said[-15:].count("yes") > 11


def test_feedback_and_dollars():
    provider = RoutedModels(models_of(a="x"), success_reward=None, prices={"a": (1.0, 10.0)})
    result = run(provider)
    assert len(provider.router.pending) == 1
    provider.feedback(result.last_response_id, 0.75)
    (row,) = provider.router.history()
    assert row["reward"] == 0.75 and row["cost_usd"] == pytest.approx(0.002)


def test_a_stream():
    provider = RoutedModels(models_of(a="x"))

    async def play():
        result = Runner.run_streamed(Agent(name="assistant"), "hello", run_config=config(provider))
        return [event async for event in result.stream_events()], result.final_output

    assert asyncio.run(play())[1] == "x"
    (row,) = provider.router.history()
    assert row["reward"] == 1.0 and provider.router.pending == ()


def test_a_model_by_name_is_not_routed():
    provider = RoutedModels(models_of(a="x", b="y"))
    assert run(provider, "b").final_output == "y" and provider.router.history() == []
    with pytest.raises(InvalidInputError, match="not among"):
        run(provider, "c")


def desk(triage=Model, **does):
    people = [Agent(name=name, model=Fake(what)) for name, what in does.items()]
    choice = RoutedHandoffs(
        people, Router(list(does), "ucb1", seed=4), judge=lambda task, output: float(output == "solved")
    )
    return choice, Agent(name="triage", model=Fake(triage), handoffs=choice.handoffs)


async def hand(choice, triage):
    with choice.routed("hello"):
        return await Runner.run(triage, "hello", hooks=choice, run_config=RunConfig(tracing_disabled=True))


def test_handoffs_are_chosen_and_learned():
    choice, triage = desk(refunds="solved", sales="sorry")
    outputs = [asyncio.run(hand(choice, triage)).final_output for _ in range(30)]
    assert outputs[-15:].count("solved") > 11
    rows = choice.router.history()
    assert len(rows) == 30 and all(0 < row["propensity"] <= 1 and row["elapsed_s"] >= 0 for row in rows)


@pytest.mark.parametrize(("error", "reward"), [(ValueError("x"), 0.0), (TimeoutError("late"), None)])
def test_a_handoff_that_fails(error, reward):
    choice, triage = desk(a=error)
    with pytest.raises(type(error)):
        asyncio.run(hand(choice, triage))
    (row,) = choice.router.history()
    assert row["reward"] == reward and row["reason"] == ("crashed" if reward == 0 else "timeout")


def test_a_handoff_that_is_cancelled():
    choice, triage = desk(a=60.0)
    asyncio.run(cancelled(hand(choice, triage), choice.router))
    (row,) = choice.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled"


@pytest.mark.parametrize("triage", ["I know it myself", ValueError("x")], ids=["answer", "error"])
def test_a_handoff_that_was_not_taken_says_nothing(triage):
    choice, agent = desk(triage, a="solved")
    try:
        asyncio.run(hand(choice, agent))
    except ValueError:
        assert isinstance(triage, ValueError)
    (row,) = choice.router.history()
    assert row["reward"] is None and row["reason"] == "cancelled" and choice.router.pending == ()


def test_a_run_that_is_not_routed_is_refused():
    choice, triage = desk(a="solved")
    with pytest.raises(InvalidInputError, match="choice.routed"):
        asyncio.run(Runner.run(triage, "hello", hooks=choice, run_config=RunConfig(tracing_disabled=True)))


def test_answers_are_checked_before_one_is_delivered():
    """The wrong model's answer fails the check, and the other one is asked; the round has one outcome."""
    said = lambda reply: reply.output[0].content[0].text  # noqa: E731
    provider = RoutedModels(
        models_of(wrong="no", right="yes"),
        attempts=2,
        check=lambda task, reply: said(reply) == "yes",
        judge=lambda task, reply: float(said(reply) == "yes"),
    )
    assert {run(provider).final_output for _ in range(12)} == {"yes"}
    assert provider.router.pending == ()
    checked = provider.router._orchestrator._state.parts["team"]["checked"]
    assert all(checked > 0), "both were looked at"


def test_a_failure_asks_the_next_model():
    provider = RoutedModels(
        models_of(broken=ValueError("x"), right="yes"), attempts=2, check=lambda *_: True, judge=lambda *_: 1.0
    )
    assert {run(provider).final_output for _ in range(6)} == {"yes"}


def test_a_check_needs_a_verdict():
    with pytest.raises(ValueError, match="success_reward: would teach"):
        RoutedModels(models_of(a="x", b="y"), attempts=2, check=lambda *_: True)
    with pytest.raises(ValueError, match="pass both, or neither"):
        RoutedModels(models_of(a="x", b="y"), attempts=2)
