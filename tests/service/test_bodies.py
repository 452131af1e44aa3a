"""Bodies: how many values they may hold, how long they may take to arrive, how many bytes all have together."""

import asyncio
from types import SimpleNamespace

import pytest

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem
from bot_orch.service.web.messages import BodyRoom, check_values, read_body

LIMITS = LimitsConfig()
MEGABYTE = 1_000_000

TAKEN = {
    "an image": b'{"a":"' + b"QUJD" * 4_000_000 + b'"}',
    "a long text": b'{"a":"' + b"Hello, world; what more is there to say? See the list [1]. " * 100_000 + b'"}',
    "a list in a text": b'{"a":"' + b"[1,2]," * 50_000 + b'"}',
    "a small body": b"[" * 60_000,
}
REFUSED = {
    "empty lists": b"[" + b"[]," * 300_000 + b"[]]",
    "objects": b"[" + b'{"":{}},' * 200_000 + b"{}]",
    "numbers": b"[" + b"1," * 300_000 + b"1]",
    "brackets": b"[" * MEGABYTE,
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_people_send_is_taken(name):
    check_values(TAKEN[name])


@pytest.mark.parametrize("name", REFUSED)
def test_a_body_whose_values_would_fill_the_memory_is_refused(name):
    with pytest.raises(Problem) as refused:
        check_values(REFUSED[name])
    assert refused.value.status == 413 and refused.value.code == "too_many_values"


def arriving(pieces, pause_s=0.0):
    left = list(pieces)

    async def receive():
        await asyncio.sleep(pause_s)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return receive


def test_room_for_bodies_is_limited_and_given_back():
    room = BodyRoom(SimpleNamespace(body_bytes=50))

    async def run(size):
        return await read_body({}, arriving([b"x" * 100] * (size // 100)), LIMITS, most=5000, room=room)

    assert len(asyncio.run(run(600))) == 600 and room.used == 600
    with pytest.raises(Problem) as refused:
        asyncio.run(run(600))
    assert refused.value.status == 503 and refused.value.headers["retry-after"] and room.used == 600
    room.give_back(600)
    assert len(asyncio.run(run(900))) == 900


def test_time_to_arrive_grows_with_what_has_arrived():
    limits = SimpleNamespace(client_timeout_s=0.2, body_bytes=LIMITS.body_bytes)

    async def run(piece):
        return await read_body({}, arriving([piece] * 8, 0.05), limits, most=MEGABYTE, room=BodyRoom(limits))

    assert len(asyncio.run(run(b"x" * 20_000))) == 160_000
    with pytest.raises(Problem) as refused:
        asyncio.run(run(b"x"))
    assert refused.value.status == 408
