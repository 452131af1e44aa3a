"""Judges and agents of the operator's own, for tests."""

import asyncio
import threading

from bot_orch.agents import CallReply

asked, gate = [], threading.Event()


def long_is_good(answer):
    asked.append(answer)
    return min(len(answer.text) / 10, 1.0)


async def hangs(answer):
    await asyncio.sleep(3600)


def fails(answer):
    raise RuntimeError("no idea")


def waits(answer):
    gate.wait(30)
    return 1.0


def silent(answer):
    return None


def short(request):
    return CallReply("ok")


def long(request):
    return CallReply("a long answer")


async def stream(request):
    for word in ("a ", "long ", "answer"):
        yield word


def cheat(request):
    return CallReply("the best answer ever")


def grader(request):
    """A model that grades: what a judge of kind llm asks."""
    asked.append(request)
    return "I think: 7/10"


def says_long(answer):
    return float("long" in answer.text)


def says_ok(answer):
    return float("ok" in answer.text)


def anything(answer):
    return 1.0


def right(answer):
    """A check whose message the log may hold."""
    return 1.0 if answer.text == "right" else (0.0, "ran 9 tests\nfailed: 2 of 9")
