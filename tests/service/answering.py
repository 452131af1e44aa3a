"""Agents of the operator's own, as functions."""

import asyncio
import threading

from bot_orch import Labels
from bot_orch.agents import CallReply


def judged(request):
    """An answer that was judged and measured where it was made."""
    return CallReply("yes", reward=0.25, measure=Labels([0.0, 1.0]))


def unmeasurable(request):
    """An answer whose measure does not fit the others."""
    return CallReply("yes", reward=0.25, measure=Labels([0.0, 0.5, 0.5]))


def overrated(request):
    """A reward that is none."""
    return CallReply("yes", reward=7.0)


def measured(request):
    """An answer that was measured and is to be judged by somebody else."""
    return CallReply("yes", measure=Labels([0.0, 1.0]))


def rates_itself(request):
    """What a program may print: only a reply has a reward."""
    return {"text": "yes", "reward": 1.0, "extra": {"reward": 1.0, "measure": {"kind": "labels"}}}


def echoed(request):
    return {"text": request.plain()}


async def one_word_then_nothing(request):
    yield "One "
    await asyncio.sleep(3600)


released = threading.Event()


async def one_word_then_another(request):
    """The second word comes once a test says so."""
    yield "One "
    while not released.is_set():
        await asyncio.sleep(0.01)
    yield "two"


async def slow(request):
    await asyncio.sleep(0.5)
    return "done"


async def at_once(request):
    return CallReply("here", reward=1.0)


async def hanging(request):
    await asyncio.sleep(3600)


async def failing_late(request):
    await asyncio.sleep(0.3)
    raise ValueError("no")
