"""Agents that are functions."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from bot_orch.agents import (
    CallFailure,
    CallReply,
    CallRequest,
    Ending,
    Guard,
    Limits,
    PythonRunner,
    PythonSettings,
    Usage,
)
from bot_orch.errors import InvalidInputError


def call(runner, limits=None, text="hello", **options):
    return asyncio.run(Guard("a", runner, limits, **options).call(CallRequest("r", text=text)))


def failed(runner, limits=None):
    with pytest.raises(CallFailure) as caught:
        call(runner, limits)
    return caught.value


async def collect(runner):
    return [chunk async for chunk in Guard("a", runner).stream(CallRequest("r", text="hello"))]


# Python functions ----------------------------------------------------------------------------------------------------


def shout(request):
    return request.text.upper()


async def later(request):
    await asyncio.sleep(0)
    return {"output": {"label": "x"}, "usage": {"input_tokens": 2, "output_tokens": 1}}


async def words(request):
    for word in ("one ", "two"):
        yield word


class Callable_:  # noqa: N801
    async def __call__(self, request):
        return CallReply("object")


@pytest.mark.parametrize(
    ("function", "text"), [(shout, "HELLO"), (later, '{"label": "x"}'), (words, "one two"), (Callable_(), "object")]
)
def test_functions_answer(function, text):
    assert call(PythonRunner(function)).text == text
    chunks = asyncio.run(collect(PythonRunner(function)))
    assert "".join(chunk.text for chunk in chunks) == chunks[-1].reply.text == text
    assert call(PythonRunner(later)).usage == Usage(2, 1)


def test_function_by_path():
    assert call(PythonRunner(PythonSettings("builtins:repr"))).text.startswith("CallRequest(id='r'")
    for bad in ("textwrap", ":x", "no_such_module:x", "textwrap:no_such", "sys:maxsize"):
        with pytest.raises(InvalidInputError):
            PythonRunner(PythonSettings(bad))


def test_sync_functions_do_not_block_the_loop():
    release = threading.Event()

    async def scenario():
        calling = asyncio.ensure_future(
            Guard("a", PythonRunner(lambda request: release.wait(60) and "x")).call(REQUEST)
        )
        await asyncio.sleep(0.01)
        release.set()
        assert (await calling).text == "x"

    asyncio.run(scenario())


REQUEST = CallRequest("r")


def raises(request):
    raise ValueError("secret " + request.text)


async def raises_later(request):
    raise ValueError("secret")


async def raises_midway(request):
    yield "a"
    raise ValueError("secret")


def stops(request):
    raise StopIteration


def exits(request):
    sys.exit(3)


def exhausts(request):
    raise MemoryError


@pytest.mark.parametrize("function", [raises, raises_later, raises_midway, stops, exits])
def test_functions_that_raise_have_crashed(function):
    failure = failed(PythonRunner(function))
    assert failure.ending is Ending.CRASHED
    assert "secret" not in str(failure)
    assert failure.outcome().reason == "crashed"


def test_functions_out_of_memory_or_of_the_wrong_kind():
    assert failed(PythonRunner(exhausts)).ending is Ending.OUT_OF_MEMORY
    assert failed(PythonRunner(lambda request: 3)).ending is Ending.MALFORMED


def test_threads_left_behind_keep_their_place():
    release = threading.Event()

    async def scenario():
        limits = Limits(total_s=0.02, concurrency=2, wait_s=0.0)
        guard = Guard("a", PythonRunner(lambda request: release.wait(60) and "x", limits), limits)
        endings = []
        for number in range(4):
            with pytest.raises(CallFailure) as caught:
                await guard.call(CallRequest(str(number)))
            endings.append(caught.value.ending)
        assert endings == [Ending.TIMEOUT_TOTAL] * 2 + [Ending.REFUSED_BUSY] * 2
        release.set()
        while True:  # the threads return, and the places with them
            try:
                return await guard.call(CallRequest("last"))
            except CallFailure:
                await asyncio.sleep(0.005)

    assert asyncio.run(asyncio.wait_for(scenario(), 60)).text == "x"
