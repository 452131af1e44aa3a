"""Agents that are functions or programs."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

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
    SubprocessRunner,
    SubprocessSettings,
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


# Programs ------------------------------------------------------------------------------------------------------------


def program(code):
    return SubprocessSettings((sys.executable, "-S", "-E", "-c", "import json, os, sys\n" + code))


ECHO = "d = json.load(sys.stdin); json.dump({'text': d['text'] + '!', 'usage': {'input_tokens': 4}}, sys.stdout)"


def test_programs_answer():
    reply = call(SubprocessRunner(program(ECHO)))
    assert (reply.text, reply.usage.input_tokens) == ("hello!", 4)
    chunks = asyncio.run(collect(SubprocessRunner(program(ECHO))))
    assert [chunk.text for chunk in chunks] == ["hello!", ""]


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("sys.exit(3)", Ending.CRASHED),
        ("raise SystemError", Ending.CRASHED),
        ("os.kill(os.getpid(), 9)", Ending.OUT_OF_MEMORY),
        ("print('not json')", Ending.MALFORMED),
        ("print('{}')", Ending.MALFORMED),
        ("pass", Ending.MALFORMED),
        ("while True: print('x' * 100000)", Ending.TOO_LARGE),
    ],
)
def test_programs_that_fail(code, ending):
    assert failed(SubprocessRunner(program(code), Limits(max_reply_bytes=200_000))).ending is ending


def test_a_flood_that_nobody_reads_any_more_does_not_keep_us_waiting(monkeypatch):
    """Its pipe is full, and reading from it was paused: its end would not be noticed."""

    async def slow(self, process):
        await asyncio.sleep(0.5)
        raise CallFailure(Ending.TOO_LARGE)

    monkeypatch.setattr(SubprocessRunner, "_read", slow)
    failure = failed(SubprocessRunner(program("while True: print('x' * 100000)")), Limits(total_s=15.0))
    assert failure.ending is Ending.TOO_LARGE


def test_program_that_cannot_start_or_is_misnamed():
    failure = failed(SubprocessRunner(SubprocessSettings(("/no/such/program",))))
    assert (failure.ending, failure.started) == (Ending.CRASHED, False)
    with pytest.raises(InvalidInputError):
        SubprocessSettings(())


def test_program_that_ignores_a_large_input_still_answers():
    runner = SubprocessRunner(program("print('\"done\"')"))
    assert call(runner, text="x" * 500_000).text == "done"


def test_program_does_not_inherit_secrets(monkeypatch):
    monkeypatch.setenv("BOT_ORCH_SECRET", "k")
    code = "json.dump({'text': os.environ.get('BOT_ORCH_SECRET', 'none') + os.environ['MINE']}, sys.stdout)"
    settings = SubprocessSettings(program(code).command, env={"MINE": "+mine"})
    assert call(SubprocessRunner(settings)).text == "none+mine"
    assert "+mine" not in repr(settings)


def running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def gone(pid):
    end = time.monotonic() + 60
    while running(pid) and time.monotonic() < end:
        await asyncio.sleep(0.005)
    return not running(pid)


async def pids_in(path):
    while not (path.exists() and path.read_text().endswith("\n")):
        await asyncio.sleep(0.005)
    return [int(word) for word in path.read_text().split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")  # noqa: PTH110
@pytest.mark.parametrize("end", ["timeout", "cancel", "close", "helper outlives its parent"])
def test_nothing_is_left_behind(tmp_path, end):
    out = tmp_path / "pids"
    tail = "wait" if end != "helper outlives its parent" else "echo '\"done\"'"
    script = f"sleep 300 </dev/null >/dev/null & echo $$ $! >{out}; {tail}"
    runner = SubprocessRunner(SubprocessSettings(("sh", "-c", script)))

    async def scenario():
        guard = Guard("a", runner, Limits(total_s=2.5 if end == "timeout" else 90.0))
        calling = asyncio.ensure_future(guard.call(CallRequest("r")))
        pids = await pids_in(out)
        assert len(pids) == 2
        if end == "cancel":
            calling.cancel()
        if end == "close":
            await guard.close()
        (result,) = await asyncio.gather(calling, return_exceptions=True)
        assert [await gone(pid) for pid in pids] == [True, True]
        return result

    begun = time.monotonic()
    result = asyncio.run(asyncio.wait_for(scenario(), 120))
    expected = {"timeout": Ending.TIMEOUT_TOTAL, "close": Ending.SHUTDOWN}
    if end in expected:
        assert result.ending is expected[end]
    elif end == "cancel":
        assert isinstance(result, asyncio.CancelledError)
    else:
        assert result.text == "done"
    assert time.monotonic() - begun < 80


def test_cancelling_at_any_moment_of_the_start_leaves_nothing(tmp_path):
    async def scenario():
        for turn in range(12):
            runner = SubprocessRunner(SubprocessSettings(("sh", "-c", f"echo $$ >{tmp_path}/{turn}; exec sleep 300")))
            calling = asyncio.ensure_future(runner.call(REQUEST))
            for _ in range(turn):
                await asyncio.sleep(0)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        await asyncio.sleep(0.05)
        for path in tmp_path.iterdir():
            text = path.read_text().strip()
            assert not text or await gone(int(text))

    asyncio.run(scenario())
