"""What PostgreSQL adds to the conformance suite: schema, durability settings, writers that hang, lost connections."""

import time
from functools import partial

import pytest

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.log import Row
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.postgres.connect import MAIN_STREAM, LogUnavailableError, connect
from bot_orch.log.stores.sql import queries

connect_log = partial(open_log, writing=True)

psycopg = pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)


def row(seq, **more):
    return Row(seq, seq * 10, "k@1", "r", b"body", **more)


def test_what_is_not_a_log_is_refused(pg, database):
    with pytest.raises(StateFormatError, match="not a log"):
        open_log(database)
    with pytest.raises(InvalidInputError, match="postgresql://"):
        connect_log("postgresql://host/x?nonsense=1")
    with pytest.raises(LogUnavailableError, match="cannot be reached"):
        connect_log("postgresql://nobody@127.0.0.1:1/none")
    connect_log(database).close()
    pg.execute("SELECT 1")
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE bot_orch.version SET number = 99")
    with pytest.raises(StateFormatError, match="version 99"):
        connect_log(database)


def test_the_log_is_append_only_and_waits_for_the_disk(database):
    with psycopg.connect(database, autocommit=True) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    log = connect_log(database)
    log.append([row(1)])
    log.commit()
    with connect(database) as connection:
        assert connection.execute("SHOW synchronous_commit").fetchone()[0] == "on"
        for statement in ("UPDATE events SET kind = 'x'", "DELETE FROM events", "TRUNCATE events"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement)
            connection.rollback()
    connection.close()
    log.close()


def test_any_text_is_a_key_and_a_reference(database):
    log = connect_log(database)
    names = ["\0", "\\0", "\\", "a\0\\b", "é\1", "'; DROP TABLE events; --", "\\\\0"]
    log.append([Row(i, i, "k@1", name, b"\0\xff", name, b"d") for i, name in enumerate(names, 1)])
    log.commit()
    for number, name in enumerate(names, 1):
        assert log.find(name) == (number, b"d") and [each.seq for each in log.about(name)] == [number]
        assert log.row(number).ref == name and log.row(number).body == b"\0\xff"
    assert {name for name, _ in log.keys_between(0, 100).values()} == set(names)
    log.close()


def cut_back(url, after):
    """As a restored backup would: the rows behind ``after`` are gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE bot_orch.events DISABLE TRIGGER ALL")
        connection.execute("ALTER TABLE bot_orch.events_1 DISABLE TRIGGER ALL")
        for table in ("events", "keys", "snapshots"):
            connection.execute(f"DELETE FROM bot_orch.{table} WHERE seq > %s", (after,))  # noqa: S608
        connection.execute("ALTER TABLE bot_orch.events ENABLE TRIGGER ALL")
    connection.close()


LOCK = queries("postgres")["lock"] % MAIN_STREAM


def between_statements(log):
    log._writing().execute("BEGIN")
    log._w.execute(LOCK)


def while_it_sends(log):
    """The lock is asked for; the end of the statement stays unsent."""
    w = log._writing()
    w.pgconn.enter_pipeline_mode()
    for statement in (b"BEGIN", LOCK.encode()):
        w.pgconn.send_query_params(statement, [])
    w.pgconn.send_flush_request()
    w.pgconn.flush()


def while_it_reads(log):
    """The server cannot get rid of an answer that nobody takes."""
    much = "SELECT repeat('x', 1000000) FROM generate_series(1, 100)"
    log._writing().pgconn.send_query(f"BEGIN; {LOCK}; {much}".encode())
    log._w.pgconn.flush()


HANGS = (between_statements, while_it_sends, while_it_reads)


def hanging_writer(url, how):
    """A writer that hangs and has the lock."""
    log = connect_log(url)
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 6451060"
    log._reader()  # connected before the clock runs
    how(log)
    end = time.monotonic() + 60
    while log._reader().execute(held).fetchone()[0] == 0:
        assert time.monotonic() < end
        time.sleep(0.01)
    return log


def settled(log, rows, seconds=60):
    """Append, as a writer does after a commit that failed: again and again."""
    end = time.monotonic() + seconds
    while True:
        try:
            return log.settle(rows)
        except LogUnavailableError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("how", HANGS)
def test_a_writer_that_hangs_in_an_append_loses_the_lock(database, how):
    other, begun = connect_log(f"{database}&query_s=1"), time.monotonic()
    hanging = hanging_writer(f"{database}&query_s=1", how)
    settled(other, [row(1)])
    assert time.monotonic() - begun > 0.5 and other.last() == (1, 10)
    hanging.rollback()
    settled(hanging, [row(2)])
    assert other.last() == (2, 20)
    hanging.close()
    other.close()


def test_deadlines_are_set_in_the_url(database):
    with pytest.raises(InvalidInputError, match="query_s"):
        connect_log(f"{database}&query_s=never")
    with pytest.raises(InvalidInputError, match="hold_s"):
        connect_log(f"{database}&hold_s=2.5")  # a setting of earlier versions
    with pytest.raises(InvalidInputError, match="lease_s: is 0"):
        connect_log(f"{database}&lease_s=0")
    for url, hold in ((database, "3s"), (f"{database}&query_s=7", "7s")):
        log = connect_log(url)
        assert log._writing().execute("SHOW idle_in_transaction_session_timeout").fetchone()[0] == hold
        log.close()


def test_a_lost_connection_is_made_again_and_loses_the_open_group(database):
    log = connect_log(database)
    log.append([row(1)])
    log.commit()
    log.append([row(2)])
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    with pytest.raises(LogUnavailableError):
        log.commit()
    log.rollback()
    assert log.last() == (1, 10), "reading connects again"
    log.probe()
    log.append([row(2)])
    log.commit()
    assert log.last() == (2, 20)
    log.close()
