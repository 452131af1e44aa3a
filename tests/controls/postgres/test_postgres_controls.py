"""Broken variants of a log on a server that the checks must catch."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "postgres"))
sys.path.insert(0, str(Path(__file__).parents[2] / "service"))

from pg_running import need

pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)


def checks():
    """The module of the checks, whatever it is called in the package of tests."""
    path = Path(__file__).parents[2] / "postgres" / "test_postgres_log.py"
    spec = importlib.util.spec_from_file_location("checks_of_the_postgres_log", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(3))
def test_without_deadlines_a_writer_that_hangs_stops_the_others(number, monkeypatch):
    """The first kind of hanging needs the timeout of the server, the others need another writer that looks."""
    from bot_orch.log.stores.postgres.connect import LogUnavailableError
    from bot_orch.log.stores.postgres.log import PostgresLog

    suite, url = checks(), f"{need().database()}&query_s=0.6"
    monkeypatch.setattr(PostgresLog, "_cut_off", lambda self: None)
    how = suite.HANGS[number]
    if number == 0:
        monkeypatch.setattr("bot_orch.log.stores.postgres.connect._limit_waiting", lambda *_: None)
    hanging, other = suite.hanging_writer(url, how), suite.connect_log(url)
    with pytest.raises(LogUnavailableError, match="lock timeout"):
        suite.settled(other, [suite.row(1)], seconds=3.0)  # five times the deadline, and the lock is still held
    other.rollback()
    hanging._w.close()
    hanging.close()
    other.close()
