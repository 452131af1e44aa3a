"""Servers for tests."""

import sys
from pathlib import Path

import pytest

from bot_orch.service.config import parse_config

sys.path.insert(0, str(Path(__file__).parent))  # for service_running, which tests in other folders use too

from service_running import BASE, Running


@pytest.fixture
def start(tmp_path):
    """Starts servers that are stopped at the end of the test."""
    running = []

    def begin(text=BASE, *, database=None, environment=None, **options):
        path = database or tmp_path / "log.sqlite"
        config = parse_config(text.format(database=path, port=0), environment)
        running.append(Running(config, environment=environment, **options))
        return running[-1]

    yield begin
    for each in running:
        if each.thread.is_alive():
            each.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One server for the tests of a module that leave it as it is."""
    path = tmp_path_factory.mktemp("service") / "log.sqlite"
    running = Running(parse_config(BASE.format(database=path, port=0)))
    yield running
    running.stop()
