"""The gateway in front of a scripted endpoint, and official clients for both."""

import sys
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))  # for service_running
sys.path.insert(0, str(Path(__file__).parent))

from remote import Endpoint
from service_running import Running, agent_limits, agent_retries
from upstream import Upstream

from bot_orch.service.config import parse_config

CONFIG = """
version: 1
database: {database}
listen: {{port: 0}}
router: {{policy: {policy}, {router}}}
agents:
"""


@pytest.fixture
def upstream():
    with Upstream() as made:
        yield made


@pytest.fixture(scope="session")
def endpoint():
    """An endpoint in a process of its own."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def serve(tmp_path):
    """Starts a service with these agents and other lines of configuration; it is stopped at the end of the test."""
    with ExitStack() as stack:

        def begin(*agents, router="attempts: 3, success_reward: 1.0", policy="bot", after=""):
            path = tmp_path / f"log-{len(list(tmp_path.iterdir()))}.sqlite"
            text = CONFIG.format(database=path, router=router, policy=policy)
            text += "".join(f"  - {agent}\n" for agent in agents)
            text += f"{after}\n"
            running = Running(parse_config(text))
            stack.callback(running.stop)
            return running

        yield begin


@pytest.fixture
def client():
    """The official client of any base URL."""
    with ExitStack() as stack:

        def connect(where, **options):
            url = where if isinstance(where, str) else f"http://127.0.0.1:{where.port}/v1"
            options = {"max_retries": 0, "timeout": 60, **options}
            return stack.enter_context(openai.OpenAI(base_url=url, api_key="unused", **options))

        yield connect


@pytest.fixture
def agent(monkeypatch):
    """One line of configuration: an openai agent at this address."""

    agent_retries(monkeypatch, 1)

    def line(url, name="upstream", limits="first_byte_s: 60, timeout_s: 60", *, tries=1, price="", extra=""):
        if tries > 1:
            agent_retries(monkeypatch, tries)
        settings = ", ".join(filter(None, (agent_limits(monkeypatch, limits), f"price: {{{price}}}")))
        return f'{{id: {name}, kind: openai, base_url: "{url}", model: m, {settings}{extra}}}'

    return line
