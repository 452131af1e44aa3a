"""A real server on loopback in a thread, and a small client for it."""

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import socket
import threading
import time
from dataclasses import replace
from functools import partial

import uvicorn.server

from bot_orch.agents import Retry, make_agent
from bot_orch.service import build
from bot_orch.service.config import LimitsConfig
from bot_orch.service.server import make_server

BASE = """
version: 1
database: {database}
listen: {{host: 127.0.0.1, port: {port}}}
router: {{policy: bot, floor: 0.05, seed: 5, horizon_s: 3600}}
agents:
  - {{id: quick, kind: simulated, params: {{median_s: 0.0, sigma: 0.0, quality: 0.6}}, price: {{per_call_usd: 0.01}}}}
  - {{id: careful, kind: simulated, params: {{median_s: 0.0, sigma: 0, quality: 0.9}}, price: {{per_call_usd: 0.1}}}}
"""


PATIENCE_S = 60.0  # longer than any slow machine needs; only a test that fails waits for it
_ports = itertools.count(499 * os.getpid())


class _Asyncio:
    """``asyncio`` for uvicorn's server, which polls every 0.1 s whether it shall stop, and waits 0.1 s when it does."""

    def __getattr__(self, name):
        return getattr(asyncio, name)

    def sleep(self, seconds):
        return asyncio.sleep(min(seconds, 0.005))


uvicorn.server.asyncio = _Asyncio()  # hundreds of tests start a server


def service_limits(monkeypatch, **values):
    """Limits of the service that no file can set."""
    for name, value in values.items():
        monkeypatch.setattr(LimitsConfig, name, value)


def agent_limits(monkeypatch, text):
    """Limits as settings of an agent; those that no file can set hold for all agents of the test."""
    given = dict(each.split(": ") for each in text.split(", ") if each)
    fixed = {name: float(given.pop(name)) for name in {*given} - {"timeout_s", "first_byte_s", "concurrency"}}
    monkeypatch.setattr(build, "LIMITS", replace(build.LIMITS, **fixed))
    return ", ".join(f"{name}: {value}" for name, value in given.items())


def agent_retries(monkeypatch, tries, **more):
    """How often the same agent is asked, and other options of all guards of the test."""
    retry = Retry(tries=tries, pause_s=0.01)
    monkeypatch.setattr(build, "make_agent", partial(make_agent, retry=retry, **more))


def free_port():
    """For a server in a process of its own that comes back at the same port; others let the system choose (port 0).

    It is below the range from which the system chooses, so nobody gets it while the server is away.
    """
    while True:
        port = 20_000 + next(_ports) % 12_000
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def until(condition, seconds=PATIENCE_S, pause_s=0.01):
    """What ``condition`` returns once that is something."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(pause_s)
    return found


@contextlib.contextmanager
def hang_up(service, path, body):
    """Ask, and leave without an answer at the end of the block, which waits for the question to arrive."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_S)
    connection.request("POST", path, json.dumps(body).encode())
    try:
        yield
    finally:
        connection.close()


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, dict(response.getheaders()), response.read()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Running:
    """A server in a thread. ``runtime`` may be looked at; ``call`` runs a function on its event loop."""

    def __init__(self, config, **options):
        self.config = config
        self.server = make_server(config, **options)
        self.loop = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        until(
            lambda: (self.server.started and (self.runtime.loaded or self.runtime.away)) or not self.thread.is_alive()
        )
        assert self.runtime.loaded or self.runtime.away, "the server did not start"
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def _run(self):
        async def main():
            self.loop = asyncio.get_running_loop()
            await self.server.serve()

        asyncio.run(main())

    @property
    def runtime(self):
        """What serves now; on PostgreSQL it changes when this process takes or leaves the router."""
        return self.server.config.app.state.router.runtime

    @property
    def serves(self):
        """Whether this process is the owner of the router."""
        return not self.runtime.away and self.runtime.loaded

    def call(self, function):
        async def run():
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)

    def request(self, method, path, body=None, headers=None, raw=None, timeout=PATIENCE_S):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def post(self, path, body=None, **options):
        return self.request("POST", path, {} if body is None else body, **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def stop(self):
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()
