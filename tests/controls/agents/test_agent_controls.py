"""Broken variants that the checks of the agents package must catch.

Each check passes on the real thing and fails on every variant listed for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import replace

import pytest
from fault_matrix import MATRIX, guard_for, problems_in
from fault_proxy import FaultServer

from bot_orch.agents import (
    Breaker,
    BreakerSettings,
    BreakerState,
    CallFailure,
    CallReply,
    CallRequest,
    Ending,
    Guard,
    Limits,
    OpenAIRunner,
    OpenAISettings,
    Retry,
)
from bot_orch.agents.address import is_forbidden
from bot_orch.agents.admission import Admission
from bot_orch.agents.connection import PinningResolver

# The fault matrix ----------------------------------------------------------------------------------------------------


def cells(*faults, ending=None):
    return [cell for cell in MATRIX if cell.fault in faults and (ending is None or cell.ending is ending)]


def problems(chosen, make):
    return [problem for cell in chosen for problem in asyncio.run(problems_in(cell, make))]


def with_breaker(kind):
    def make(settings, limits, breaker):
        guard = guard_for(settings, limits, breaker)
        guard.breaker = kind(breaker, guard._clock)
        return guard

    return make


def tripping_on(*endings):
    class Eager(Breaker):
        def settle(self, permit, ending):
            super().settle(permit, Ending.UPSTREAM_5XX if ending in endings else ending)

    return with_breaker(Eager)


def with_runner(kind):
    return lambda settings, limits, breaker: Guard(
        "agent", kind(settings, limits), limits, retry=Retry(tries=1), breaker=breaker
    )


class FollowsRedirects(OpenAIRunner):
    def _open(self):
        session = super()._open()

        class Following:
            def post(self, *args, **kwargs):
                return session.post(*args, **{**kwargs, "allow_redirects": True})

        return Following()


class BelievesAnyEnd(OpenAIRunner):
    async def stream(self, request):
        text = ""
        try:
            async for chunk in super().stream(request):
                text += chunk.text
                yield chunk
        except CallFailure as failure:
            if failure.ending is not Ending.TRUNCATED_STREAM:
                raise
            yield type(chunk)(reply=CallReply(text))


class ReadsWithoutCap(OpenAIRunner):
    def __init__(self, settings, limits):
        super().__init__(settings, replace(limits, max_reply_bytes=1 << 40))


class BlamesTheAgent(Guard):
    """Files the caller's own deadline under the agent's timeout."""

    def _failure(self, error):
        failure = super()._failure(error)
        late = failure.ending is Ending.CALLER_DEADLINE
        return CallFailure(Ending.TIMEOUT_TOTAL) if late else failure


class ForgetsCancellations(Guard):
    def _fail(self, attempt, error):
        return super()._fail(attempt, error) if isinstance(error, Exception) else None


class CountsARoleAsTheFirstByte(Guard):
    """Passes on whatever comes first, and the first-byte timeout ends with it."""

    async def _next(self, watch, source):
        chunk = await super()._next(watch, source)
        watch.mark_first_byte()
        return chunk


class AsksOneChoiceOnly(OpenAIRunner):
    """Takes the end of the first choice for the end of the answer."""

    async def stream(self, request):
        finished = False
        try:
            async for chunk in super().stream(request):
                finished = finished or b'"finish_reason": "stop"' in (chunk.raw or b"")
                yield chunk
        except CallFailure:
            if not finished:
                raise
            yield type(chunk)(reply=CallReply("The "))


def blaming(kind):
    return lambda settings, limits, breaker: kind(
        "agent", OpenAIRunner(settings, limits), limits, retry=Retry(tries=1), breaker=breaker
    )


BROKEN = {
    "trips on 4xx": (cells("bad_request"), tripping_on(Ending.UPSTREAM_4XX)),
    "trips on 404": (cells("wrong_address"), tripping_on(Ending.UPSTREAM_MISSING)),
    "trips on 429": (cells("rate_limited"), tripping_on(Ending.RATE_LIMITED)),
    "trips on the caller's deadline": (
        cells("hang", ending=Ending.CALLER_DEADLINE),
        tripping_on(Ending.CALLER_DEADLINE),
    ),
    "trips on cancellation": (
        cells("hang", ending=Ending.CANCELLED_BY_CALLER),
        tripping_on(Ending.CANCELLED_BY_CALLER),
    ),
    "follows redirects": (cells("redirect"), with_runner(FollowsRedirects)),
    "believes a stream without an end": (cells("truncated", "no_end_mark"), with_runner(BelievesAnyEnd)),
    "reads without a cap": (cells("huge"), with_runner(ReadsWithoutCap)),
    "blames the agent": (cells("hang", ending=Ending.CALLER_DEADLINE), blaming(BlamesTheAgent)),
    "takes a role for the first byte: hang": (cells("role_then_hang"), blaming(CountsARoleAsTheFirstByte)),
    "takes a role for the first byte: close": (cells("role_then_close"), blaming(CountsARoleAsTheFirstByte)),
    "takes a role for the first byte: drip": (cells("empty_drip"), blaming(CountsARoleAsTheFirstByte)),
    "believes one choice of two": (cells("half_of_two"), with_runner(AsksOneChoiceOnly)),
    "forgets cancellations": (cells("hang", ending=Ending.CANCELLED_BY_CALLER), blaming(ForgetsCancellations)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_matrix_catches(name):
    chosen, make = BROKEN[name]
    assert chosen
    for cell in chosen:
        assert problems([cell], guard_for) == []
    assert problems(chosen, make) != []


# Addresses -----------------------------------------------------------------------------------------------------------


def check_addresses(forbidden):
    for address in ("169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "::ffff:169.254.169.254", "fd00:ec2::254"):  # noqa: S104
        assert forbidden(address)
    for address in ("93.184.215.14", "127.0.0.1", "10.0.0.1", "::1"):
        assert not forbidden(address)


def by_link_local_flag(address):
    return ipaddress.ip_address(address).is_link_local


def by_block_list(address):
    return address.startswith(("169.254.", "fe80:"))


def test_address_check_catches_shallow_checks():
    check_addresses(is_forbidden)
    for broken in (by_link_local_flag, by_block_list, lambda address: False, lambda address: True):
        with pytest.raises(AssertionError):
            check_addresses(broken)


class Trusting(PinningResolver):
    """Resolves without looking at the answer."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [{"host": address} for _, address in await self._lookup(host, port, family)]


class OnlyTheFirst(PinningResolver):
    """Checks the first answer and returns them all."""

    async def resolve(self, host, port=0, family=socket.AF_INET):
        found = await self._lookup(host, port, family)
        good = PinningResolver(lambda *_: asyncio.sleep(0, found[:1]))
        first = await good.resolve(host, port, family)
        return first + [{**first[0], "host": address} for _, address in found[1:]]


def check_rebinding(kind):
    """A name whose answers hold a forbidden address, alone or among others, is never connected to."""

    async def scenario(answer):
        async def lookup(host, port, family):
            return [(socket.AF_INET, address) for address in answer]

        with pytest.raises(CallFailure) as caught:
            await kind(lookup).resolve("agent.example", 443)
        assert caught.value.ending is Ending.REFUSED_ADDRESS

    for answer in (["169.254.169.254"], ["93.184.215.14", "169.254.169.254"]):
        asyncio.run(scenario(answer))


def test_rebinding_check_catches_trusting_resolvers():
    check_rebinding(PinningResolver)
    for broken in (Trusting, OnlyTheFirst):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check_rebinding(broken)


# Breaker -------------------------------------------------------------------------------------------------------------


class AnyAnswerCloses(Breaker):
    def settle(self, permit, ending):
        super().settle(permit and replace(permit, era=self._era, probe=self._open_until is not None), ending)


class NeverTriesAgain(Breaker):
    def ready(self):
        return self.state is BreakerState.CLOSED


class AllAtOnce(Breaker):
    def ready(self):
        return self.state is not BreakerState.OPEN


def check_breaker(kind):
    now = [0.0]
    breaker = kind(BreakerSettings(failures=1, open_s=10.0), lambda: now[0])
    early, late = breaker.acquire(), breaker.acquire()
    breaker.settle(late, Ending.UPSTREAM_5XX)
    breaker.settle(early, Ending.COMPLETED)
    assert breaker.state is BreakerState.OPEN
    now[0] = 10.0
    probe = breaker.acquire()
    assert probe is not None
    assert breaker.acquire() is None
    breaker.settle(probe, Ending.COMPLETED)
    assert breaker.state is BreakerState.CLOSED


def test_breaker_check_catches():
    check_breaker(Breaker)
    for broken in (AnyAnswerCloses, NeverTriesAgain, AllAtOnce):
        with pytest.raises(AssertionError):
            check_breaker(broken)


# Places ----------------------------------------------------------------------------------------------------------


class NoCap(Guard):
    def __init__(self, agent_id, runner, limits):
        super().__init__(agent_id, runner, limits)
        self._admission = Admission(replace(limits, concurrency=1000), self._clock)


def check_cap(kind):
    most = [0, 0]

    class Counting:
        async def call(self, request):
            most[0] += 1
            most[1] = max(most)
            await asyncio.sleep(0.005)
            most[0] -= 1
            return CallReply("x")

    async def scenario():
        guard = kind("a", Counting(), Limits(concurrency=2))
        await asyncio.gather(*(guard.call(CallRequest(str(n))) for n in range(8)), return_exceptions=True)

    asyncio.run(scenario())
    assert most[1] == 2


def test_cap_check_catches_a_guard_without_one():
    check_cap(Guard)
    with pytest.raises(AssertionError):
        check_cap(NoCap)


# Retries -------------------------------------------------------------------------------------------------------------


class RetriesEverything(Guard):
    def _pause(self, failure, run):
        return 0.0 if len(run.attempts) < 3 else None


def check_retries(kind):
    """A bad request is sent once; work that may have begun is not repeated where that does harm."""

    async def scenario(fault, retry):
        async with FaultServer() as server:
            settings = OpenAISettings(server.base_url(fault), "m")
            guard = kind("a", OpenAIRunner(settings), retry=retry)
            with pytest.raises(CallFailure):
                await guard.call(CallRequest("r"))
            await guard.close()
            assert len(server.requests) == 1

    asyncio.run(scenario("bad_request", Retry(tries=3)))
    asyncio.run(scenario("disconnect", Retry(tries=3, idempotent=False)))


def test_retry_check_catches_a_guard_that_retries_everything():
    check_retries(Guard)
    with pytest.raises(AssertionError):
        check_retries(RetriesEverything)
