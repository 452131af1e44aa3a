"""A real server on loopback in a thread, and a small client for it."""

import asyncio
import http.client
import json
import socket
import threading
import time

from bot_orch.service.server import make_server

BASE = """
version: 1
database: {database}
listen: {{host: 127.0.0.1, port: {port}}}
router: {{policy: bot, floor: 0.05, seed: 5, horizon_s: 3600}}
agents:
  - {{id: quick, kind: simulated, settings: {{median_s: 0.0, sigma: 0.0, quality: 0.6}}, price: {{per_call_usd: 0.01}}}}
  - {{id: careful, kind: simulated, settings: {{median_s: 0.0, sigma: 0, quality: 0.9}}, price: {{per_call_usd: 0.1}}}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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
        self.config, self.port = config, config.listen.port
        self.server = make_server(config, **options)
        self.loop = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        until = time.monotonic() + 20
        while not self.server.started:
            assert self.thread.is_alive() and time.monotonic() < until, "the server did not start"
            time.sleep(0.005)

    def _run(self):
        async def main():
            self.loop = asyncio.get_running_loop()
            await self.server.serve()

        asyncio.run(main())

    @property
    def runtime(self):
        return self.server.config.app.state.runtime

    def call(self, function):
        async def run():
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(20)

    def request(self, method, path, body=None, headers=None, raw=None, timeout=20):
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
        self.thread.join(20)
        assert not self.thread.is_alive()
