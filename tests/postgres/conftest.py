"""A real PostgreSQL, and helpers shared with other folders."""

import sys
from pathlib import Path

import pytest

for name in ("postgres", "service", "crash"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))

from pg_running import need, shut  # noqa: E402


@pytest.fixture(scope="session")
def pg():
    return need()


@pytest.fixture
def database(pg):
    return pg.database()


def pytest_sessionfinish():
    shut()
