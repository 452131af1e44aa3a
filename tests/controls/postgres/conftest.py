"""The server that the controls have used ends with them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "postgres"))

from pg_running import shut


def pytest_sessionfinish():
    shut()
