"""Agents that differ in price, time and worth, as functions."""

import asyncio

from bot_orch.agents import CallReply, Usage

_TWENTY = Usage(10, 20)


def twenty_tokens(request):
    """Twenty tokens, at once."""
    return CallReply("An answer", usage=_TWENTY)


async def begins_late(request):
    """A stream whose first word takes 30 ms."""
    await asyncio.sleep(0.03)
    yield "An "
    yield "answer"


def eighty(request):
    """A reward of .8."""
    return CallReply("An answer", usage=_TWENTY, reward=0.8)


def eighty_two(request):
    """A reward of .82."""
    return CallReply("An answer", usage=_TWENTY, reward=0.82)


def right_always(request):
    """A reward of 1."""
    return CallReply("An answer", usage=_TWENTY, reward=1.0)


def reads(request):
    """A token for four characters that it reads, one that it writes."""
    return CallReply("yes", usage=Usage(len(request.plain()) // 4, 1), reward=0.8)
