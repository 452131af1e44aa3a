"""Logs of every backend, and a small service that writes to one without HTTP."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "postgres"))
sys.path.insert(0, str(Path(__file__).parent))

from pg_running import need, shut
from scribing import Scribe

from bot_orch import Orchestrator
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.sqlite.log import SqliteLog


def postgres(_=None):
    server = need()
    from bot_orch.log.stores.postgres.log import PostgresLog

    return PostgresLog(server.database())


BACKENDS = {
    "memory": lambda path: MemoryLog(),
    "postgres": postgres,
    "sqlite": lambda path: SqliteLog(path / "log.sqlite"),
}


@pytest.fixture(params=sorted(BACKENDS))
def log(request, tmp_path):
    made = BACKENDS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def scribe(log):
    return Scribe(log, Orchestrator(["a", "b", "c"], "bot", floor=0.05, seed=3))


def pytest_sessionfinish():
    shut()
