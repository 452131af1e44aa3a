"""A database behind a TCP proxy that can be told to misbehave, in a thread of its own."""

import asyncio
import contextlib
import threading
from urllib.parse import parse_qs, urlsplit

from tcp_proxy import HEALTHY, TcpProxy

__all__ = ["HEALTHY", "Proxied", "proxied"]


class Proxied:
    """``url`` leads through the proxy; ``set`` begins a fault, ``heal`` ends it."""

    def __init__(self, database, settings=""):
        parts = urlsplit(database)
        folder = parse_qs(parts.query)["host"][0]
        self.loop, self.proxy = asyncio.new_event_loop(), TcpProxy(f"{folder}/.s.PGSQL.5432")
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self._do(self.proxy.__aenter__())
        name = parts.path.lstrip("/")
        self.url = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{name}?sslmode=disable{settings}"

    def _run(self):
        self.loop.run_forever()
        self.loop.run_until_complete(asyncio.sleep(0.05))  # transports close
        self.loop.close()

    def _do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def set(self, fault):
        async def run():
            self.proxy.set(fault)

        self._do(run())

    def heal(self):
        self.set(HEALTHY)

    def close(self):
        self._do(self.proxy.__aexit__())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


@contextlib.contextmanager
def proxied(database, settings=""):
    made = Proxied(database, settings)
    try:
        yield made
    finally:
        made.close()
