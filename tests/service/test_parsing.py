"""Large bodies are parsed like small ones, piece by piece: other requests do not wait for them."""

import asyncio
import gc
import json
import random
import time

import msgspec
import pytest

from bot_orch.service.config import LimitsConfig
from bot_orch.service.problems import Problem
from bot_orch.service.web.limits import BodyRoom, read_body
from bot_orch.service.web.parsing import JsonBody

LIMITS = LimitsConfig()
BODY = JsonBody(dict[str, object])
MEGABYTE = 1_000_000
LONGEST_S = 0.02


async def beats(worst):
    """The longest time that the event loop was busy without a pause. Other processes do not count."""
    last = time.thread_time()
    while True:
        await asyncio.sleep(0.0005)
        now = time.thread_time()
        worst.append(now - last)
        last = now


def parsed(body, limits=LIMITS):
    """What it is parsed to, or the exception, and for how long the loop was busy at a time."""

    async def run():
        worst = []
        heart = asyncio.create_task(beats(worst))
        await asyncio.sleep(0.005)
        worst.clear()
        try:
            found = await BODY.decode(body, limits)
        except (Problem, msgspec.DecodeError, UnicodeDecodeError) as error:
            found = error
        await asyncio.sleep(0.005)
        heart.cancel()
        return found, max(worst)

    gc.disable()  # the service keeps what stays out of collections; here, they would go through the tests' memory
    try:
        return asyncio.run(run())
    finally:
        gc.enable()


def text(unit, size=4 * MEGABYTE):
    return b'{"a":"' + unit * (size // len(unit)) + b'"}'


GOOD = {
    "an image": text(b"QUJD", 19 * MEGABYTE),
    "three-byte characters": text("€".encode()),
    "escapes": text(b"\\u20ac"),
    "pairs of escapes": text(b"\\ud83d\\ude00"),
    "line ends": text(b"\\n"),
    "backslashes": text(b"\\\\"),
    "mixed": text("a€😀\\n\\u00e9\\ud83d\\ude00\\\\".encode()),
    "numbers": b'{"a":[' + b",".join([b"0.125"] * 49_000) + b"]}",
    "objects": b'{"a":[' + b",".join([b"{}"] * 9_000) + b"]}",
    "many texts": b'{"a":[' + b",".join([b'"' + b"x" * 300 + b'"'] * 9_000) + b"]}",
}


@pytest.mark.parametrize("name", GOOD)
def test_large_bodies_are_parsed_without_holding_up_others(name):
    found, busy_s = parsed(GOOD[name])
    assert found == json.loads(GOOD[name])
    assert busy_s < LONGEST_S


BAD = {
    "quotes": b'{"a":' + b'"' * 4 * MEGABYTE,
    "commas": b'{"a":' + b"," * 4 * MEGABYTE,
    "brackets": b"[" * 4 * MEGABYTE,
    "white space": b'{"a":' + b" " * 5 * MEGABYTE + b"1}",
    "digits": b'{"a":' + b"1" * 5 * MEGABYTE + b"}",
    "a text without end": b'{"a":"' + b"A" * 4 * MEGABYTE,
    "backslashes without end": b'{"a":"' + b"\\" * (4 * MEGABYTE + 1),
    "half an escape": text(b"\\u20ac")[:-2] + b'\\u12"}',
    "half a pair": text(b"\\u20ac")[:-2] + b'\\ud83d"}',
    "half a character": text("€".encode())[:-3] + b'"}',
    "a control character": text(b"A\n"),
    "two documents": text(b"A") + text(b"A"),
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_bodies_are_refused_without_holding_up_others(name):
    found, busy_s = parsed(BAD[name])
    assert isinstance(found, Problem | msgspec.DecodeError | UnicodeDecodeError)
    assert busy_s < LONGEST_S


def test_random_values_come_out_as_they_went_in():
    draw = random.Random(5)  # noqa: S311

    def letters(sizes):
        return "".join(draw.choices('aé€😀"\\\n\x7f{[:,', k=draw.choice(sizes)))

    def value(level):
        kind = draw.random()
        if kind < 0.4 or level > 4:
            return letters((0, 3, 60, 70, 70_000 if draw.random() < 0.02 else 200))
        if kind < 0.6:
            return [value(level + 1) for _ in range(draw.randrange(4))]
        if kind < 0.8:
            return {letters((1, 30, 90)): value(level + 1) for _ in range(draw.randrange(4))}
        return draw.choice((1, -2.5, None, True))

    async def check():
        for _ in range(60):
            whole = {"x": value(0), "padding": "y" * MEGABYTE}
            body = json.dumps(whole, ensure_ascii=draw.random() < 0.5).encode()
            assert await BODY.decode(body, LIMITS) == whole
            assert await BODY.decode(bytearray(body), LIMITS) == whole

    asyncio.run(check())


def test_texts_do_not_count_as_structure():
    body = json.dumps({"a": "[{,:" * 100_000}).encode()
    assert parsed(body)[0] == json.loads(body)


@pytest.mark.parametrize(("values", "fits"), [(104, True), (103, False)])
def test_values_are_counted_exactly(values, fits):
    body = b'{"a":[' + b"1," * 99 + b'1],"pad":"' + b"x" * 70_000 + b'"}'
    found, _ = parsed(body, LimitsConfig(values=values + 4))
    assert isinstance(found, dict) == fits


def arriving(pieces, pause_s=0.0):
    left = list(pieces)

    async def receive():
        await asyncio.sleep(pause_s)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return receive


def test_room_for_bodies_is_limited_and_given_back():
    room = BodyRoom(1000)

    async def run(size):
        return await read_body({}, arriving([b"x" * 100] * (size // 100)), LIMITS, most=5000, room=room)

    assert len(asyncio.run(run(600))) == 600 and room.used == 600
    with pytest.raises(Problem) as refused:
        asyncio.run(run(600))
    assert refused.value.status == 503 and refused.value.headers["retry-after"] and room.used == 600
    room.give_back(600)
    assert len(asyncio.run(run(900))) == 900


def test_time_to_arrive_grows_with_what_has_arrived():
    limits = LimitsConfig(body_timeout_s=0.2)

    async def run(piece):
        return await read_body({}, arriving([piece] * 8, 0.05), limits, most=MEGABYTE, room=BodyRoom(MEGABYTE))

    assert len(asyncio.run(run(b"x" * 20_000))) == 160_000
    with pytest.raises(Problem) as refused:
        asyncio.run(run(b"x"))
    assert refused.value.status == 408
