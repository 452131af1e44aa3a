"""Health checks open and close an agent's circuit breaker without requests of clients."""

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from service_running import until

from bot_orch.agents.base import CallFailure, CallReply, Usage
from bot_orch.agents.breaker import BreakerSettings, BreakerState
from bot_orch.agents.endings import Ending
from bot_orch.agents.guard import Guard
from bot_orch.agents.limits import Price
from bot_orch.service.config import HealthConfig
from bot_orch.service.health import HealthCheck


class Scripted:
    """A runner that ends its calls as told."""

    def __init__(self, *endings):
        self.endings = list(endings)

    async def call(self, request):
        ending = self.endings.pop(0)
        if ending is None:
            await asyncio.sleep(3600)
        if ending is not Ending.COMPLETED:
            raise CallFailure(ending)
        return CallReply("pong", usage=Usage(1, 1))

    async def close(self):
        """Nothing to close."""


def checked(*endings, **options):
    """The states of a circuit after each check."""
    guard = Guard("a", Scripted(*endings), breaker=BreakerSettings(failures=2, open_s=1e6, longest_open_s=1e6))
    check = HealthCheck(guard, HealthConfig(), lambda attempt: None, **options)

    async def run():
        return [(await check.check(), guard.breaker.state)[1] for _ in endings]

    return asyncio.run(run())


def test_failures_open_and_a_success_closes():
    down, up = Ending.UPSTREAM_5XX, Ending.COMPLETED
    closed, opened = BreakerState.CLOSED, BreakerState.OPEN
    assert checked(down, down, down, up) == [closed, opened, opened, closed]
    assert checked(down, up, down, up) == [closed] * 4  # not in a row
    assert checked(Ending.RATE_LIMITED, Ending.UPSTREAM_4XX) == [closed] * 2  # it answers


def test_silence_is_a_failure():
    assert checked(None, None, answer_s=0.001)[-1] is BreakerState.OPEN


def test_a_check_that_costs_something_is_reported():
    seen = []
    guard = Guard("a", Scripted(Ending.COMPLETED), price=Price(per_call_usd=0.5))
    asyncio.run(HealthCheck(guard, HealthConfig(), seen.append).check())
    assert [attempt.cost_usd for attempt in seen] == [0.5]


class Endpoint(BaseHTTPRequestHandler):
    """``/up`` answers with a status that tests change."""

    status = 200

    def do_GET(self):
        self.send_response(self.server.status if self.path == "/up" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Silence."""


@pytest.fixture
def endpoint():
    with running_endpoint() as server:
        yield server


@contextmanager
def running_endpoint():
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    server.status = 200
    thread = threading.Thread(daemon=True, target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


FAR = """
version: 1
database: {database}
listen: {{port: {port}}}
agents:
  - id: far
    kind: openai
    health: {{path: /up, every_s: EVERY}}
    breaker: {{failures: 2}}
    settings: {{base_url: 'http://127.0.0.1:THERE/v1', model: m, allow_private: true}}
"""


def far(endpoint, every_s):
    return FAR.replace("EVERY", str(every_s)).replace("THERE", str(endpoint.server_port))


def test_a_path_of_an_endpoint_opens_and_closes_its_circuit(start, endpoint):
    service = start(far(endpoint, 0.01))

    def circuit():
        return service.get("/v1/agents").json()[0]["circuit"]

    assert circuit() == "closed"
    endpoint.status = 500
    until(lambda: circuit() == "open")
    endpoint.status = 200
    until(lambda: circuit() == "closed")


def test_a_path_does_not_close_a_circuit_that_calls_have_opened(start, endpoint):
    service = start(far(endpoint, 3600))
    guard = service.runtime.guards["far"]
    for _ in range(2):
        service.call(lambda: guard.breaker.settle(guard.breaker.acquire(), Ending.UPSTREAM_5XX))
    check = HealthCheck(guard, HealthConfig(path="/up"), lambda attempt: None)
    found = asyncio.run_coroutine_threadsafe(check.check(), service.loop).result(10)
    assert (found, guard.breaker.state) == (Ending.COMPLETED, BreakerState.OPEN)
