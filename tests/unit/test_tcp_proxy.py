"""The TCP proxy between a replica and PostgreSQL, with an echo on the other side."""

import asyncio
import contextlib

import pytest
from tcp_proxy import LinkFault, TcpProxy

QUICK_S, LONG_S = 5.0, 0.15


class Echo:
    """Answers with what it gets; knows what arrived and who left."""

    def __init__(self):
        self.got, self.left = [], 0

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(100):
                self.got.append(data)
                writer.write(data)
        self.left += 1
        writer.close()


def behind(test):
    """Run a test with an echo, a proxy before it and an open connection to that."""

    def run():
        async def main():
            echo = Echo()
            server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
            async with TcpProxy(server.sockets[0].getsockname()[:2]) as proxy:
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
                assert await said(reader, writer, b"hello") == b"hello"
                await test(echo, proxy, reader, writer)
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            server.close()

        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def said(reader, writer, data, seconds=QUICK_S):
    """What comes back; nothing within so long: None."""
    writer.write(data)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await reader.read(100)
    return None


async def fresh(proxy, data=b"again", seconds=QUICK_S):
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        return await said(reader, writer, data, seconds)
    finally:
        writer.close()


async def until(condition):
    async with asyncio.timeout(QUICK_S):
        while not condition():
            await asyncio.sleep(0.005)


@behind
async def test_dropped_connections_are_reset_and_new_ones_too(echo, proxy, reader, writer):
    proxy.set(LinkFault("drop"))
    with pytest.raises(ConnectionResetError):
        await said(reader, writer, b"x")
    with contextlib.suppress(ConnectionResetError):
        assert await fresh(proxy) == b""
    await until(lambda: echo.left == 1)
    proxy.set()
    assert await fresh(proxy) == b"again"


@behind
async def test_delay_is_per_direction_and_keeps_order(echo, proxy, reader, writer):
    loop = asyncio.get_running_loop()
    proxy.set(LinkFault("delay", delay_s=0.1, directions=("down",)))
    begun = loop.time()
    writer.write(b"1")
    await until(lambda: b"1" in echo.got)
    assert await said(reader, writer, b"2") in (b"1", b"12")
    assert loop.time() - begun >= 0.1
    proxy.set()


@behind
async def test_swallowed_answers_leave_the_effect(echo, proxy, reader, writer):
    proxy.set(LinkFault("swallow", directions=("down",)))
    assert await said(reader, writer, b"commit", LONG_S) is None
    assert echo.got[-1] == b"commit"
    proxy.set()
    assert await said(reader, writer, b"more", LONG_S) is None, "lost bytes do not come back"
    assert await fresh(proxy) == b"again"


@behind
async def test_swallowed_requests_have_none(echo, proxy, reader, writer):
    proxy.set(LinkFault("swallow", directions=("up",)))
    assert await said(reader, writer, b"commit", LONG_S) is None
    assert await fresh(proxy, b"new", LONG_S) is None
    assert echo.got == [b"hello"] and echo.left == 0


@behind
async def test_half_open_the_server_is_gone_and_the_client_is_not_told(echo, proxy, reader, writer):
    proxy.set(LinkFault("half-open"))
    await until(lambda: echo.left == 1)
    assert await said(reader, writer, b"x", LONG_S) is None
    assert await fresh(proxy, b"new", LONG_S) is None
    proxy.set()
    assert await said(reader, writer, b"x", LONG_S) is None
    assert await fresh(proxy) == b"again"


@behind
async def test_orphan_the_client_is_gone_and_the_server_is_not_told(echo, proxy, reader, writer):
    proxy.set(LinkFault("orphan"))
    with pytest.raises(ConnectionResetError):
        await said(reader, writer, b"x")
    await asyncio.sleep(LONG_S)
    assert echo.left == 0
    proxy.set()
    await until(lambda: echo.left == 1)


@behind
async def test_control_without_a_fault_everything_arrives(echo, proxy, reader, writer):
    sent = bytes(range(256)) * 400
    writer.write(sent)
    got = b""
    async with asyncio.timeout(QUICK_S):
        while len(got) < len(sent):
            got += await reader.read(100_000)
    assert got == sent
