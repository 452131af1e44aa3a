"""Work for a client ends when the client leaves."""

import asyncio

import pytest

from bot_orch.service.web.messages import ClientGoneError, unless_gone


def test_work_ends_when_its_client_leaves():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def receive():
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGoneError):
        asyncio.run(unless_gone(receive, work()))
    assert ended == [True]


def test_work_of_a_client_that_stays_is_cancelled_from_outside_alone():
    async def done():
        return 7

    async def scenario():
        stays = asyncio.Event().wait
        found = await unless_gone(stays, done())
        task = asyncio.create_task(unless_gone(stays, asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return found, task.cancelled(), asyncio.current_task().cancelling()

    assert asyncio.run(scenario()) == (7, True, 0)
