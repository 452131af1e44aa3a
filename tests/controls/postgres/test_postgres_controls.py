"""Broken variants of the shared log that the checks must catch."""

import functools
import importlib.util
import random
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "postgres"))
sys.path.insert(0, str(Path(__file__).parents[2] / "service"))

from pg_running import need
from service_running import until

pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)


def checks():
    """The module of the checks, whatever it is called in the package of tests."""
    path = Path(__file__).parents[2] / "postgres" / "test_postgres_log.py"
    spec = importlib.util.spec_from_file_location("checks_of_the_postgres_log", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_without_the_lock(url, number, groups, rng, seen):
    """Draws its numbers from a sequence and commits when it likes, as a table with BIGSERIAL does."""
    from bot_orch.eventlog.stores.postgres.connect import connect

    connection = connect(url)
    if number == 1:  # the first one likes to commit after others whose numbers are larger
        drawn = connection.execute("INSERT INTO events SELECT nextval('numbers'), 1, 'k@1', '', '' RETURNING seq")
        mine = drawn.fetchone()[0]
        until(lambda: all(found and found[-1].seq > mine for found in seen))
        connection.commit()
    for group in range(groups):
        for i in range(rng.randint(1, 3)):
            connection.execute(
                "INSERT INTO events SELECT nextval('numbers'), 1, 'k@1', %s, ''", (f"{number}-{group}-{i}",)
            )
        connection.execute("SELECT pg_notify('bot_orch_events', 'x:0')")
        time.sleep(rng.uniform(0, 0.002))
        connection.commit()
    connection.close()


def test_a_follower_of_writers_without_the_lock_misses_events():
    suite, url = checks(), need().database()
    suite.connect_log(url).close()
    with suite.psycopg.connect(url) as connection:
        connection.execute("CREATE SEQUENCE bot_orch.numbers")
    seen = ([], [])
    suite.six_writers_two_followers(url, functools.partial(write_without_the_lock, seen=seen), 40, seen)
    log = suite.open_log(url)
    rows = list(log.read())
    log.close()
    missed = [len(rows) - len(found) for found in seen]
    print(f"missed {missed} of {len(rows)} events")  # noqa: T201
    assert max(missed) > 0


def test_writers_that_number_rows_without_the_lock_clash():
    """Without the lock the unique number is what is left: writers run into each other instead of waiting."""
    from bot_orch.eventlog.log import LogConflictError
    from bot_orch.eventlog.stores.postgres.log import PostgresLog

    url, clashes, start = need().database(), [], threading.Barrier(4)

    class Unlocked(PostgresLog):
        def begin(self, after):
            self._in_group = True
            self._writing().execute("BEGIN")
            rows = self._more(self._writing(), after)
            self._next = (rows[-1].seq if rows else after) + 1
            return rows

    def write(number):
        log, rng = Unlocked(url, writer=number), random.Random(number)  # noqa: S311
        for turn in range(30):
            rows = log.begin(0)
            if turn == 0:
                start.wait(60)  # all know the same rows
            try:
                log.append([checks_row(len(rows) + 1)])
                time.sleep(rng.uniform(0, 0.002))
                log.commit()
            except LogConflictError as error:
                clashes.append(error)
                log.rollback()
        log.close()

    PostgresLog(url).close()
    threads = [threading.Thread(daemon=True, target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes


@pytest.mark.parametrize("number", range(3))
def test_without_deadlines_a_writer_that_hangs_stops_the_others(number, monkeypatch):
    """The first kind of hanging needs the timeout of the server, the others need somebody who looks."""
    from bot_orch.eventlog.stores.postgres.connect import LogUnavailableError
    from bot_orch.eventlog.stores.postgres.log import PostgresLog

    suite, url = checks(), f"{need().database()}&hold_s=0.6"
    monkeypatch.setattr(PostgresLog, "_cut_off", lambda self: None)
    how = suite.HANGS[number]
    if number == 0:
        monkeypatch.setattr("bot_orch.eventlog.stores.postgres.connect._limit_waiting", lambda *_: None)
    hanging, other = suite.hanging_writer(url, how), suite.connect_log(url)
    begun = time.monotonic()
    with pytest.raises(LogUnavailableError, match="lock timeout"):
        other.begin(0)
    assert time.monotonic() - begun > 1.1, "twice the deadline, and the lock is still held"
    other.rollback()
    hanging._w.close()
    hanging.close()
    other.close()


def checks_row(seq):
    from bot_orch.eventlog.log import Row

    return Row(seq, seq, "k@1", "r", b"")
