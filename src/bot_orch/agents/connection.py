"""HTTP connections to agents through checked addresses. Imported only if an HTTP agent is used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from bot_orch.agents.address import check_address
from bot_orch.agents.base import CallFailure
from bot_orch.agents.endings import Ending

Lookup = Callable[[str, int, socket.AddressFamily], Awaitable[list[tuple[int, str]]]]
"""(host, port, family) to a list of (family, address)."""


async def lookup(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, str]]:
    """Resolve with the system resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(int(entry[0]), str(entry[4][0])) for entry in found]


class PinningResolver(AbstractResolver):
    """Resolves a name once per connection and returns only allowed addresses.

    One forbidden address rejects the name: a name that mixes public and private addresses is at
    best misconfigured. The connector connects to the addresses returned here and does not resolve again.
    """

    def __init__(self, lookup: Lookup = lookup) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Checked addresses of ``host``."""
        found = await self._lookup(host, port, family)
        for _, address in found:
            check_address(address)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=flags)
            for kind, address in dict.fromkeys(found)
        ]

    async def close(self) -> None:
        """Do nothing: the resolver has no resources."""


def open_session(*, lookup: Lookup = lookup) -> aiohttp.ClientSession:
    """A session without cookies, proxies, compression or timeouts."""
    resolver = PinningResolver(lookup)
    connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=0)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
        auto_decompress=False,
        trust_env=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "bot-orch"},
    )


def as_it_is(url: str) -> URL:
    """The URL without changes to its path and query."""
    return URL(url, encoded=True)


async def body(response: aiohttp.ClientResponse, cap_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; raise ``TOO_LARGE`` as soon as it exceeds the cap."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise CallFailure(Ending.MALFORMED, "the answer is compressed, which was not asked for", status=response.status)
    size = response.content_length or 0
    if size <= cap_bytes:
        size = 0
        while size <= cap_bytes:
            with translated():
                data = await response.content.readany()
            if not data:
                return
            size += len(data)
            if size <= cap_bytes:
                yield data
    if size > cap_bytes:
        raise CallFailure(Ending.TOO_LARGE, status=response.status)


@contextmanager
def translated() -> Iterator[None]:
    """Convert aiohttp errors to :class:`CallFailure`. Messages name the type of error, not the address."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise CallFailure(Ending.CONNECTION, type(error).__name__, started=False) from None
    except aiohttp.ClientPayloadError as error:
        raise CallFailure(Ending.TRUNCATED_STREAM, type(error).__name__) from None
    except aiohttp.ClientResponseError as error:
        raise CallFailure(Ending.MALFORMED, "the answer is not HTTP: " + type(error).__name__) from None
    except (aiohttp.ClientError, OSError) as error:
        raise CallFailure(Ending.CONNECTION, type(error).__name__) from None
