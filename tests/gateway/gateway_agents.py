"""Agents of the operator's own, as functions."""

import asyncio
import json

from upstream import completion

from bot_orch.agents import CallReply, Usage

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


async def in_words(request):
    for word in ("", "The ", "", "answer"):
        yield word


async def silent(request):
    for word in ("", ""):
        yield word


async def empty_then_hangs(request):
    yield ""
    await asyncio.sleep(3600)


def at_once(request):
    return CallReply("The answer", usage=Usage(3, 2))


def calls_a_tool(request):
    return CallReply(raw=json.dumps(completion("tool_calls", content=None, tool_calls=[CALL])).encode())


def code(request):
    return CallReply("return 0", usage=Usage(3, 2))


def verse(request):
    return CallReply("Roses are red", usage=Usage(3, 3))


def chatty(request):
    return CallReply("Sure! The label is bug", usage=Usage(3, 5))


def formal(request):
    return CallReply('{"label": "bug"}', usage=Usage(3, 5))


async def formal_too(request):
    for piece in ('{"label": ', '"bug"}'):
        yield piece
