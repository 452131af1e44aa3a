"""The guard: retries, places, prices, holds, shutdown, and whose time is counted."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from fault_proxy import FaultServer

from bot_orch.agents import (
    BreakerSettings,
    BreakerState,
    CallFailure,
    CallReply,
    CallRequest,
    Chunk,
    Ending,
    Guard,
    Limits,
    OpenAIRunner,
    OpenAISettings,
    Price,
    Retry,
    Usage,
)
from bot_orch.errors import InvalidInputError


class Scripted:
    """A runner that ends as told, one entry per call; then answers."""

    def __init__(self, *endings, started=True, retry_after_s=None, pause_s=0.0):
        self.endings, self.calls = list(endings), 0
        self.started, self.retry_after_s, self.pause_s = started, retry_after_s, pause_s
        self.at_once = self.most_at_once = 0

    async def call(self, request):
        self.calls += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.at_once -= 1
        if self.endings:
            raise CallFailure(self.endings.pop(0), started=self.started, retry_after_s=self.retry_after_s)
        return CallReply("yes", usage=Usage(1000, 500))

    async def stream(self, request):
        reply = await self.call(request)
        yield Chunk("ye")
        yield Chunk("s")
        yield Chunk(reply=reply)

    async def close(self):
        pass


class Naps:
    """Pauses between tries, noted instead of slept."""

    def __init__(self):
        self.taken = []

    async def __call__(self, seconds):
        self.taken.append(seconds)


def guard_of(runner, limits=None, **options):
    naps = Naps()
    return Guard("a", runner, limits, **{"retry": Retry(tries=3), "sleep": naps, **options}), naps


async def ending_of(awaitable):
    with pytest.raises(CallFailure) as caught:
        await awaitable
    return caught.value


async def read(stream):
    async with aclosing(stream) as chunks:
        return [chunk async for chunk in chunks]


RETRYABLE = [ending for ending in Ending if ending.meaning.retryable]


@pytest.mark.parametrize("ending", [ending for ending in Ending if ending.meaning.attempted and ending != "completed"])
def test_retries_only_what_a_moment_may_cure(ending):
    async def scenario():
        runner = Scripted(ending)
        guard, naps = guard_of(runner, breaker=BreakerSettings(failures=9))
        if ending not in RETRYABLE:
            failure = await ending_of(guard.call(CallRequest("r")))
            assert (failure.ending, runner.calls, naps.taken) == (ending, 1, [])
            return
        reply = await guard.call(CallRequest("r"))
        assert [attempt.ending for attempt in reply.attempts] == [ending, Ending.COMPLETED]
        assert [attempt.number for attempt in reply.attempts] == [1, 2]
        assert len(naps.taken) == 1

    asyncio.run(scenario())


def test_pauses_grow_with_jitter_and_are_the_same_for_the_same_request():
    async def scenario():
        pauses = []
        for _ in range(2):
            guard, naps = guard_of(
                Scripted(*[Ending.UPSTREAM_5XX] * 4), retry=Retry(tries=4), breaker=BreakerSettings(failures=9)
            )
            await ending_of(guard.call(CallRequest("r")))
            pauses.append(naps.taken)
        first, second, third = pauses[0]
        assert pauses[0] == pauses[1]
        assert 0.125 <= first <= 0.25 <= second <= 0.5 <= third <= 1.0
        other, naps = guard_of(Scripted(Ending.UPSTREAM_5XX))
        await other.call(CallRequest("another"))
        assert naps.taken[0] != first

    asyncio.run(scenario())


def test_agent_with_side_effects_is_asked_again_only_if_it_cannot_have_begun():
    async def scenario():
        careful = Retry(tries=3, idempotent=False)
        began, _ = guard_of(Scripted(Ending.CONNECTION), retry=careful)
        assert (await ending_of(began.call(CallRequest("r")))).ending is Ending.CONNECTION
        not_begun, _ = guard_of(Scripted(Ending.CONNECTION, started=False), retry=careful)
        assert len((await not_begun.call(CallRequest("r"))).attempts) == 2

    asyncio.run(scenario())


def test_retry_stops_at_the_deadline_the_breaker_and_a_long_retry_after():
    async def scenario():
        slow, naps = guard_of(Scripted(Ending.UPSTREAM_5XX), retry=Retry(tries=3, pause_s=5.0))
        assert (await ending_of(slow.call(CallRequest("r", deadline_s=2.0)))).ending is Ending.UPSTREAM_5XX
        broken, _ = guard_of(Scripted(*[Ending.UPSTREAM_5XX] * 9), breaker=BreakerSettings(failures=2))
        assert len((await ending_of(broken.call(CallRequest("r")))).attempts) == 2
        told, _ = guard_of(Scripted(Ending.RATE_LIMITED, retry_after_s=60.0))
        assert (await ending_of(told.call(CallRequest("r")))).ending is Ending.RATE_LIMITED
        assert naps.taken == []

    asyncio.run(scenario())


def test_stream_is_retried_before_the_first_piece_and_never_after():
    class Breaks(Scripted):
        async def stream(self, request):
            self.calls += 1
            yield Chunk("half ")
            raise CallFailure(Ending.CONNECTION)

    async def scenario():
        guard, _ = guard_of(Scripted(Ending.UPSTREAM_5XX))
        chunks = await read(guard.stream(CallRequest("r")))
        assert "".join(chunk.text for chunk in chunks) == "yes"
        assert [attempt.ending for attempt in chunks[-1].reply.attempts] == [Ending.UPSTREAM_5XX, Ending.COMPLETED]
        runner = Breaks()
        guard, _ = guard_of(runner)
        failure = await ending_of(read(guard.stream(CallRequest("r"))))
        assert (failure.ending, runner.calls) == (Ending.CONNECTION, 1)
        assert failure.first_byte_s is not None

    asyncio.run(scenario())


def test_retry_over_http():
    async def scenario():
        async with FaultServer(then={"unavailable": "ok"}) as server:
            settings = OpenAISettings(server.base_url("unavailable"), "m")
            for ask in ("call", "stream"):
                server.requests.clear()
                guard, _ = guard_of(OpenAIRunner(settings))
                result = getattr(guard, ask)(CallRequest("r"))
                reply = await result if ask == "call" else (await read(result))[-1].reply
                await guard.close()
                assert (reply.text, len(reply.attempts), len(server.requests)) == ("The answer is 4.", 2, 2)

    asyncio.run(scenario())


def test_concurrency_cap_refuses_or_waits():
    async def scenario():
        runner = Scripted(pause_s=0.01)
        refusing, _ = guard_of(runner, Limits(concurrency=3, wait_s=0.0))
        results = await asyncio.gather(*(refusing.call(CallRequest(str(n))) for n in range(10)), return_exceptions=True)
        refused = [result for result in results if isinstance(result, CallFailure)]
        assert (runner.most_at_once, len(refused)) == (3, 7)
        assert {failure.ending for failure in refused} == {Ending.REFUSED_BUSY}
        assert all(failure.outcome() is None for failure in refused)
        runner = Scripted(pause_s=0.001)
        waiting, _ = guard_of(runner, Limits(concurrency=3, wait_s=60.0))
        replies = await asyncio.gather(*(waiting.call(CallRequest(str(n))) for n in range(30)))
        assert (runner.most_at_once, len(replies), waiting.view().in_flight) == (3, 30, 0)

    asyncio.run(scenario())


class RoleFirst(Scripted):
    """A role, then the script's next failure or the answer: as endpoints do that open the stream before the model."""

    async def stream(self, request):
        self.calls += 1
        yield Chunk(raw=b"role %d" % self.calls)
        yield Chunk("")
        await asyncio.sleep(self.pause_s)
        if self.endings:
            raise CallFailure(self.endings.pop(0))
        yield Chunk("yes", raw=b"yes")
        yield Chunk(raw=b"after")
        yield Chunk(reply=CallReply("yes"))


def test_stream_is_retried_after_a_role_alone_and_what_was_held_back_comes_in_order():
    async def scenario():
        guard, _ = guard_of(RoleFirst(Ending.CONNECTION))
        chunks = await read(guard.stream(CallRequest("r")))
        assert [chunk.raw for chunk in chunks] == [b"role 2", None, b"yes", b"after", None]
        first, second = chunks[-1].reply.attempts
        assert (first.ending, first.first_byte_s) == (Ending.CONNECTION, None)
        assert second.ending is Ending.COMPLETED and second.first_byte_s is not None

    asyncio.run(scenario())


def test_first_byte_is_that_of_the_answer_not_of_a_role():
    async def scenario():
        guard, _ = guard_of(RoleFirst(pause_s=0.05))
        reply = (await read(guard.stream(CallRequest("r"))))[-1].reply
        assert 0.04 < reply.first_byte_s <= reply.elapsed_s
        hurried, _ = guard_of(RoleFirst(pause_s=60.0), Limits(first_byte_s=0.05))
        failure = await ending_of(read(hurried.stream(CallRequest("r"))))
        assert (failure.ending, failure.first_byte_s) == (Ending.TIMEOUT_FIRST_BYTE, None)

    asyncio.run(scenario())


def test_an_empty_answer_keeps_its_pieces():
    class Empty(Scripted):
        async def stream(self, request):
            yield Chunk(raw=b"role")
            yield Chunk(reply=CallReply(""))

    async def scenario():
        guard, _ = guard_of(Empty())
        chunks = await read(guard.stream(CallRequest("r")))
        assert [chunk.raw for chunk in chunks] == [b"role", None] and chunks[-1].reply.first_byte_s is not None

    asyncio.run(scenario())


def test_places_come_back_however_a_call_ends():
    async def scenario():
        runner = Scripted(*[Ending.UPSTREAM_5XX] * 20, pause_s=0.001)
        guard, _ = guard_of(runner, Limits(concurrency=1), retry=Retry(tries=1), breaker=BreakerSettings(failures=99))
        for number in range(20):
            await ending_of(guard.call(CallRequest(str(number))))
        cancelled = asyncio.ensure_future(guard.call(CallRequest("c")))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        async with aclosing(guard.stream(CallRequest("s"))) as chunks:
            async for _ in chunks:
                break
        assert (await guard.call(CallRequest("last"))).text == "yes"
        assert guard.available

    asyncio.run(scenario())


def test_waiting_for_a_place_ends_in_time():
    async def scenario():
        guard, _ = guard_of(Scripted(pause_s=5.0), Limits(concurrency=1, wait_s=0.02))
        first = asyncio.ensure_future(guard.call(CallRequest("1")))
        await asyncio.sleep(0)
        assert (await ending_of(guard.call(CallRequest("2")))).ending is Ending.REFUSED_BUSY
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(scenario())


def test_price_and_times_are_filled_in():
    async def scenario():
        price = Price(per_call_usd=0.01, input_usd_per_million=1.0, output_usd_per_million=2.0)
        seen = []
        guard, _ = guard_of(Scripted(pause_s=0.01), price=price, observer=seen.append)
        reply = await guard.call(CallRequest("r"))
        assert reply.cost_usd == pytest.approx(0.012)
        assert reply.elapsed_s >= 0.009
        assert reply.outcome(1.0).elapsed_s == reply.elapsed_s
        assert (seen[0].agent, seen[0].request_id, seen[0].cost_usd) == ("a", "r", reply.cost_usd)
        assert seen == list(reply.attempts)

    asyncio.run(scenario())


def test_open_breaker_refuses_without_asking_and_lets_one_probe_through():
    async def scenario():
        now = [0.0]
        runner = Scripted(Ending.MALFORMED)
        guard, _ = guard_of(runner, clock=lambda: now[0], breaker=BreakerSettings(failures=1, open_s=10.0))
        await ending_of(guard.call(CallRequest("1")))
        assert not guard.available
        failure = await ending_of(guard.call(CallRequest("2")))
        assert (failure.ending, runner.calls, failure.outcome()) == (Ending.REFUSED_BREAKER, 1, None)
        assert guard.view().breaker.retry_in_s == 10.0
        now[0] = 10.0
        assert guard.available
        await guard.call(CallRequest("3"))
        assert guard.breaker.state is BreakerState.CLOSED

    asyncio.run(scenario())


def test_agent_that_asks_to_slow_down_is_left_alone_for_that_long():
    async def scenario():
        now = [0.0]
        runner = Scripted(Ending.RATE_LIMITED, retry_after_s=7.0)
        guard, _ = guard_of(runner, clock=lambda: now[0], retry=Retry(tries=1))
        await ending_of(guard.call(CallRequest("1")))
        assert not guard.available
        assert (guard.view().held_s, guard.breaker.state) == (7.0, BreakerState.CLOSED)
        assert (await ending_of(guard.call(CallRequest("2")))).ending is Ending.REFUSED_HOLD
        now[0] = 7.0
        assert (await guard.call(CallRequest("3"))).text == "yes"

    asyncio.run(scenario())


def test_slow_reader_is_not_charged_to_the_agent():
    async def scenario():
        guard, _ = guard_of(Scripted(), Limits(total_s=0.5))
        async with aclosing(guard.stream(CallRequest("r"))) as chunks:
            async for chunk in chunks:
                await asyncio.sleep(0.3)
                last = chunk
        assert last.reply.text == "yes"
        assert last.reply.elapsed_s < 0.3

    asyncio.run(scenario())


def test_stream_left_early_is_a_cancellation():
    async def scenario():
        seen = []
        guard, _ = guard_of(Scripted(), observer=seen.append, breaker=BreakerSettings(failures=1))
        async with aclosing(guard.stream(CallRequest("r"))) as chunks:
            async for _ in chunks:
                break
        assert [attempt.ending for attempt in seen] == [Ending.CANCELLED_BY_CALLER]
        assert guard.breaker.state is BreakerState.CLOSED

    asyncio.run(scenario())


def test_stream_without_a_reply_is_truncated():
    class Short(Scripted):
        async def stream(self, request):
            yield Chunk("half")

    async def scenario():
        guard, _ = guard_of(Short())
        assert (await ending_of(read(guard.stream(CallRequest("r"))))).ending is Ending.TRUNCATED_STREAM

    asyncio.run(scenario())


def test_runner_with_a_bug_counts_as_crashed_even_if_it_raises_timeout_error():
    class Buggy(Scripted):
        async def call(self, request):
            raise TimeoutError("of its own")

    async def scenario():
        guard, _ = guard_of(Buggy())
        failure = await ending_of(guard.call(CallRequest("r")))
        assert failure.ending is Ending.CRASHED
        assert "of its own" not in str(failure)

    asyncio.run(scenario())


def test_closing_ends_calls_as_shutdown_and_refuses_new_ones():
    async def scenario():
        async with FaultServer() as server:
            settings = OpenAISettings(server.base_url("hang"), "m")
            guard = Guard("a", OpenAIRunner(settings), retry=Retry(tries=3))
            call = asyncio.ensure_future(guard.call(CallRequest("1")))
            await server.arrived.wait()
            await guard.close()
            failure = await ending_of(call)
            assert (failure.ending, len(failure.attempts)) == (Ending.SHUTDOWN, 1)
            assert guard.breaker.view().failures == 0
            assert (await ending_of(guard.call(CallRequest("2")))).ending is Ending.REFUSED_BUSY

    asyncio.run(scenario())


def test_closing_ends_calls_of_every_kind():
    async def scenario():
        guard, _ = guard_of(Scripted(pause_s=60.0))
        call = asyncio.ensure_future(guard.call(CallRequest("1")))
        await asyncio.sleep(0)
        await guard.close()
        assert (await ending_of(call)).ending is Ending.SHUTDOWN
        guard, _ = guard_of(Scripted())
        async with aclosing(guard.stream(CallRequest("2"))) as chunks:
            await anext(chunks)
            await guard.close()
            assert (await ending_of(anext(chunks))).ending is Ending.SHUTDOWN
        assert guard.view().in_flight == 0

    asyncio.run(scenario())


def test_oversized_answer_of_any_runner_is_refused():
    async def scenario():
        guard, _ = guard_of(Scripted(), Limits(max_reply_bytes=2))
        assert (await ending_of(guard.call(CallRequest("r")))).ending is Ending.TOO_LARGE

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Limits, {"total_s": 0.0}),
        (Limits, {"first_byte_s": float("nan")}),
        (Limits, {"concurrency": 0}),
        (Limits, {"wait_s": -1.0}),
        (Retry, {"tries": 0}),
        (Retry, {"pause_s": 9.0}),
        (Price, {"per_call_usd": -1.0}),
        (CallRequest, {"id": "r", "deadline_s": 0.0}),
        (CallRequest, {"id": "r", "deadline_s": float("inf")}),
    ],
)
def test_settings_are_checked(make, options):
    with pytest.raises(InvalidInputError):
        make(**options)


def test_a_call_that_waits_for_a_slot_ends_at_the_callers_deadline():
    async def scenario():
        guard, _ = guard_of(Scripted(pause_s=60.0), Limits(concurrency=1, wait_s=60.0))
        first = asyncio.ensure_future(guard.call(CallRequest("1")))
        await asyncio.sleep(0)
        failure = await ending_of(guard.call(CallRequest("2", deadline_s=0.02)))
        assert (failure.ending, guard.view().waiting) == (Ending.CALLER_DEADLINE, 0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(scenario())


def test_closing_lets_nobody_in_who_waited():
    async def scenario():
        runner = Scripted(pause_s=60.0)
        guard, _ = guard_of(runner, Limits(concurrency=1, wait_s=60.0))
        calls = [asyncio.ensure_future(guard.call(CallRequest(str(number)))) for number in range(3)]
        await asyncio.sleep(0)
        assert guard.view().waiting == 2
        await guard.close()
        endings = [failure.ending for failure in await asyncio.gather(*calls, return_exceptions=True)]
        assert endings == [Ending.SHUTDOWN, Ending.REFUSED_BUSY, Ending.REFUSED_BUSY] and runner.calls == 1

    asyncio.run(scenario())


def test_most_calls_of_a_request_bound_the_retries():
    async def scenario():
        for most, calls in ((None, 3), (1, 1), (2, 2), (9, 3)):
            runner = Scripted(*[Ending.UPSTREAM_5XX] * 9)
            guard, _ = guard_of(runner, breaker=BreakerSettings(failures=9))
            await ending_of(guard.call(CallRequest("r", most_calls=most)))
            assert runner.calls == calls

    asyncio.run(scenario())


def test_a_hold_of_a_503_is_bounded_and_can_be_reset():
    async def scenario():
        now = [0.0]
        runner = Scripted(Ending.UPSTREAM_5XX, retry_after_s=900.0)
        guard, _ = guard_of(runner, clock=lambda: now[0])
        failure = await ending_of(guard.call(CallRequest("1")))
        assert (failure.retry_after_s, guard.view().held_s, guard.view().reason) == (
            60.0,
            60.0,
            "the agent asked to slow down",
        )
        guard.reset()
        assert guard.available and (await guard.call(CallRequest("2"))).text == "yes"

    asyncio.run(scenario())
