"""People behind a queue, and simulated agents."""

from __future__ import annotations

import asyncio

import pytest

from bot_orch.agents import (
    BreakerSettings,
    BreakerState,
    CallFailure,
    CallRequest,
    Ending,
    HumanAnswer,
    HumanSettings,
    Limits,
    SimulatedRunner,
    SimulatedSettings,
    make_agent,
)
from bot_orch.errors import InvalidInputError
from bot_orch.survival.causes import Cause, cause_of


class QueueService:
    """A queue with one drawer."""

    def __init__(self, answer=None):
        self.asked, self.withdrawn, self._answer = [], [], answer

    async def enqueue(self, request, answer_within_s):
        self.asked.append((request.id, answer_within_s))
        return "t-1"

    async def answer(self, ticket):
        if self._answer is None:
            await asyncio.get_running_loop().create_future()
        return self._answer

    async def withdraw(self, ticket, ending):
        self.withdrawn.append((ticket, ending))


def person(desk, within_s=60.0):
    return make_agent(
        "p", HumanSettings(within_s), Limits(total_s=0.001), queue=desk, breaker=BreakerSettings(failures=1)
    )


async def ending_of(awaitable):
    with pytest.raises(CallFailure) as caught:
        await awaitable
    return caught.value


def test_person_answers():
    async def scenario():
        desk = QueueService(HumanAnswer("yes", by="ann"))
        reply = await person(desk).call(CallRequest("r"))
        assert (reply.text, reply.extra["by"], desk.asked, desk.withdrawn) == ("yes", "ann", [("r", 60.0)], [])
        chunks = [chunk async for chunk in person(desk).stream(CallRequest("r"))]
        assert chunks[-1].reply.text == "yes"

    asyncio.run(scenario())


def test_nobody_answers_in_time():
    async def scenario():
        desk = QueueService()
        guard = person(desk, 0.01)
        failure = await ending_of(guard.call(CallRequest("r")))
        assert (failure.ending, desk.withdrawn) == (Ending.UNANSWERED, [("t-1", Ending.UNANSWERED)])
        assert cause_of(failure.outcome()) is Cause.CENSORED
        assert guard.breaker.state is BreakerState.CLOSED

    asyncio.run(scenario())


def test_person_declines():
    async def scenario():
        guard = person(QueueService(HumanAnswer(rejected=True, reason="not mine")))
        failure = await ending_of(guard.call(CallRequest("r")))
        assert (failure.ending, cause_of(failure.outcome())) == (Ending.REJECTED, Cause.OTHER_FAILURE)
        assert guard.breaker.state is BreakerState.CLOSED

    asyncio.run(scenario())


@pytest.mark.parametrize("deadline_s", [None, 0.01])
def test_task_is_withdrawn_when_the_caller_leaves(deadline_s):
    async def scenario():
        desk = QueueService()
        calling = asyncio.ensure_future(person(desk).call(CallRequest("r", deadline_s=deadline_s)))
        await asyncio.sleep(0.001)
        if deadline_s is None:
            calling.cancel()
        (result,) = await asyncio.gather(calling, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError) if deadline_s is None else result.ending == "caller_deadline"
        assert desk.withdrawn == [("t-1", Ending.CANCELLED_BY_CALLER)]

    asyncio.run(scenario())


def test_person_needs_a_queue():
    with pytest.raises(InvalidInputError, match="queue"):
        make_agent("p", HumanSettings())
    with pytest.raises(InvalidInputError):
        HumanSettings(0.0)


# Simulated -----------------------------------------------------------------------------------------------------------


class Naps:
    def __init__(self):
        self.taken = []

    async def __call__(self, seconds):
        self.taken.append(seconds)


def play(settings, n=200, agent_id="sim"):
    naps = Naps()
    runner = SimulatedRunner(settings, agent_id, naps)

    async def scenario():
        found = await asyncio.gather(*(runner.call(CallRequest(f"r-{i}")) for i in range(n)), return_exceptions=True)
        return found, naps.taken

    return asyncio.run(scenario())


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def test_same_seed_same_play():
    settings = SimulatedSettings(seed=3, profile={"a": 1, "b": 2})
    first, again, other = play(settings), play(settings), play(SimulatedSettings(seed=4))
    assert first == again
    assert first[1] != other[1]
    assert play(settings, agent_id="twin")[1] != first[1]


def test_latency_quality_and_labels_are_as_set():
    replies, naps = play(SimulatedSettings(median_s=0.2, sigma=0.5, quality=0.6, profile={"a": 3.0, "b": 1.0}), 2000)
    assert sorted(naps)[1000] == pytest.approx(0.2, rel=0.1)
    assert mean(reply.extra["quality"] for reply in replies) == pytest.approx(0.6, abs=0.02)
    assert mean(reply.extra["label"] == "a" for reply in replies) == pytest.approx(0.75, abs=0.04)
    assert all(reply.extra["reward"] == reply.extra["quality"] for reply in replies)


def test_agent_that_games_the_judge_is_paid_more_than_it_is_worth():
    replies, _ = play(SimulatedSettings(quality=0.2, flattery=0.7, profile={"flattery": 1.0}))
    assert mean(reply.extra["reward"] for reply in replies) > 0.85
    assert mean(reply.extra["quality"] for reply in replies) < 0.25
    assert {reply.extra["label"] for reply in replies} == {"flattery"}


def test_crashes():
    found, _ = play(SimulatedSettings(crash=0.3), 1000)
    crashed = [each for each in found if isinstance(each, CallFailure)]
    assert len(crashed) / 1000 == pytest.approx(0.3, abs=0.05)
    assert {failure.ending for failure in crashed} == {Ending.CRASHED}


def test_stream_says_the_same_as_a_call():
    async def scenario():
        settings = SimulatedSettings(median_s=0.001)
        reply = await SimulatedRunner(settings).call(CallRequest("r"))
        chunks = [chunk async for chunk in make_agent("simulated", settings).stream(CallRequest("r"))]
        assert "".join(chunk.text for chunk in chunks) == reply.text == chunks[-1].reply.text
        assert chunks[-1].reply.extra == reply.extra

    asyncio.run(scenario())


@pytest.mark.parametrize("bad", [{"quality": 2.0}, {"median_s": -1.0}, {"profile": {}}, {"profile": {"a": 0.0}}])
def test_simulated_settings_are_checked(bad):
    with pytest.raises(InvalidInputError):
        SimulatedSettings(**bad)
