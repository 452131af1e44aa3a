"""What PostgreSQL adds to the conformance suite: schema, durability settings, order for followers, lost connections."""

import random
import threading
import time
from functools import partial

import pytest

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.eventlog.log import LogConflictError, Row
from bot_orch.eventlog.stores.open import open_log
from bot_orch.eventlog.stores.postgres.connect import MAIN_STREAM, LogUnavailableError, connect, prepare
from bot_orch.eventlog.stores.postgres.follow import Follower
from bot_orch.eventlog.stores.postgres.log import PostgresLog
from bot_orch.eventlog.stores.sqlfiles import migrations, queries

connect_log = partial(open_log, writing=True)

psycopg = pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)

CATALOGUE = """
SELECT 'column', table_name, column_name, ordinal_position::text, data_type, coalesce(column_default, ''), is_nullable,
       coalesce(collation_name, ''), is_identity
FROM information_schema.columns WHERE table_schema = 'bot_orch'
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '', '', '', ''
FROM pg_indexes WHERE schemaname = 'bot_orch'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '', '', ''
FROM pg_constraint WHERE connamespace = 'bot_orch'::regnamespace AND contype <> 'n'
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', '', '', '', ''
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid), '', '', '', '', '', ''
FROM pg_proc WHERE pronamespace = 'bot_orch'::regnamespace
UNION ALL SELECT 'version', number::text, '', '', '', '', '', '', '' FROM bot_orch.version
ORDER BY 1, 2, 3, 4
"""


def row(seq, **more):
    return Row(seq, seq * 10, "k@1", "r", b"body", **more)


def catalogue(url):
    with psycopg.connect(url) as connection:
        return connection.execute(CATALOGUE).fetchall()


def test_a_fresh_schema_equals_a_migrated_one(pg):
    fresh, old = pg.database(), pg.database()
    prepare(fresh)
    scripts = migrations("postgres")
    assert len(scripts) >= 2
    with psycopg.connect(old) as connection:  # a database of the first release, with rows in it
        connection.execute("CREATE SCHEMA bot_orch")
        connection.execute("SET search_path = bot_orch")
        connection.execute("CREATE TABLE version (number INTEGER NOT NULL)")
        connection.execute("INSERT INTO version VALUES (1)")
        connection.execute(scripts[0])
        connection.execute("INSERT INTO events VALUES (1, 10, 'k@1', 'r', 'body')")
    log = PostgresLog(old)
    assert list(log.read()) == [row(1)]
    log.append([row(2)])
    log.commit()
    log.close()
    assert catalogue(old) == catalogue(fresh) and len(catalogue(fresh)) > 25
    prepare(old)
    assert catalogue(old) == catalogue(fresh)


def test_every_query_is_used_and_lives_in_a_file(pg):
    from pathlib import Path

    import bot_orch.eventlog.stores.postgres as package

    text = "".join(file.read_text() for file in Path(package.__path__[0]).glob("*.py"))
    assert [name for name in queries("postgres") if f'"{name}"' not in text] == []


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


def test_the_commit_of_a_failed_transaction_is_an_error(database):
    log = connect_log(database)
    log.append([row(1, key="x")])
    log.commit()
    log.append([row(2, key="x")])
    with pytest.raises(LogConflictError):
        log.commit()
    with pytest.raises(LogUnavailableError, match="has failed"):
        log.commit()
    log.rollback()
    assert log.last() == (1, 10)
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


def test_another_writer_waits_for_the_lock(database):
    one, two = connect_log(database), connect_log(database)
    assert one.begin(0) == []
    rows = []
    waiting = threading.Thread(daemon=True, target=lambda: rows.append(two.begin(0)))
    waiting.start()
    time.sleep(0.1)
    assert not rows
    one.append([row(1)])
    one.commit()
    waiting.join(60)
    assert rows == [[row(1)]]
    two.append([row(2)])
    two.commit()
    assert one.last() == (2, 20)
    one.close()
    two.close()


def cut_back(url, after):
    """As a restored backup would: the rows behind ``after`` are gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE bot_orch.events DISABLE TRIGGER ALL")
        connection.execute("ALTER TABLE bot_orch.events_1 DISABLE TRIGGER ALL")
        for table in ("events", "keys", "snapshots"):
            connection.execute(f"DELETE FROM bot_orch.{table} WHERE seq > %s", (after,))  # noqa: S608
        connection.execute("ALTER TABLE bot_orch.events ENABLE TRIGGER ALL")
    connection.close()


def test_a_log_that_lost_rows_is_not_gone_on_with(database):
    log = connect_log(database)
    log.append([row(1), row(2), row(3)])
    log.commit()
    assert log.begin(2, 20) == [row(3)]
    log.rollback()
    with pytest.raises(LogConflictError, match="row 2"):
        log.begin(2, 21)
    log.rollback()
    cut_back(database, 1)
    with pytest.raises(LogConflictError, match="row 3"):
        log.begin(3)
    log.rollback()
    assert log.begin(1, 10) == []
    log.close()


LOCK = queries("postgres")["lock"] % MAIN_STREAM


def between_statements(log):
    log.begin(0)
    log.append([row(1)])


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


@pytest.mark.parametrize("how", HANGS)
def test_a_writer_that_hangs_in_an_append_loses_the_lock(database, how):
    other, begun = connect_log(f"{database}&hold_s=1"), time.monotonic()
    hanging = hanging_writer(f"{database}&hold_s=1", how)
    assert other.begin(0) == [], "the lock is free again, and nothing was appended"
    assert time.monotonic() - begun > 0.5
    other.append([row(1)])
    other.commit()
    hanging._in_group = True
    with pytest.raises(LogUnavailableError):
        hanging.commit()
    hanging.rollback()
    assert hanging.begin(0) == [row(1)]
    hanging.rollback()
    hanging.close()
    other.close()


def test_a_writer_at_work_keeps_the_lock(database):
    """However long others wait: as long as it says something it is not taken for dead."""
    busy, other = connect_log(f"{database}&hold_s=3"), connect_log(f"{database}&hold_s=3")
    busy.begin(0)
    rows = []
    waiting = threading.Thread(daemon=True, target=lambda: rows.append(other.begin(0)))
    waiting.start()
    for _ in range(4):
        busy._w.execute("SELECT pg_sleep(0.8)")
    busy.append([row(1)])
    busy.commit()
    waiting.join(60)
    assert rows == [[row(1)]]
    other.close()
    busy.close()


def test_deadlines_are_set_in_the_url(database):
    with pytest.raises(InvalidInputError, match="hold_s"):
        connect_log(f"{database}&hold_s=never")
    with pytest.raises(InvalidInputError, match="lease_s: is 0"):
        connect_log(f"{database}&lease_s=0")
    for url, hold in ((database, "2500ms"), (f"{database}&hold_s=7", "7s")):
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
    assert log.last() == (1, 10), "reading connects again"
    with pytest.raises(LogUnavailableError):
        log.commit()
    log.rollback()
    log.probe()
    log.append([row(2)])
    log.commit()
    assert log.last() == (2, 20)
    log.close()


def write(url, number, groups, rng):
    log = PostgresLog(url, writer=number)
    seen = 0
    for group in range(groups):
        behind = log.begin(seen)
        seen = behind[-1].seq if behind else seen
        size = rng.randint(1, 3)
        log.append([Row(seen + 1 + i, 1, "k@1", f"{number}-{group}-{i}", b"") for i in range(size)])
        if rng.random() < 0.1:
            log.rollback()
            continue
        time.sleep(rng.uniform(0, 0.002))
        log.commit()
        seen += size
    log.close()


def follow(url, found, done):
    log, awake = open_log(url), threading.Event()
    follower = Follower(url, log.channel, awake.set, poll_s=0.2)
    follower.start()
    after = 0
    while True:
        ended = done.is_set()
        awake.wait(0.5)
        awake.clear()
        while rows := log.batch(after, 50):
            found += rows
            after = rows[-1].seq
        if ended:
            break
    follower.stop()
    log.close()


def six_writers_two_followers(url, writer, groups, seen):
    """``seen`` is what each follower saw."""
    done = threading.Event()
    followers = [threading.Thread(daemon=True, target=follow, args=(url, found, done)) for found in seen]
    writers = [
        threading.Thread(daemon=True, target=writer, args=(url, number, groups, random.Random(number)))  # noqa: S311
        for number in range(1, 7)
    ]
    for thread in (*followers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in followers:
        thread.join()


def test_six_writers_and_two_followers_miss_nothing(database):
    connect_log(database).close()
    seen = ([], [])
    six_writers_two_followers(database, write, 30, seen)
    log = open_log(database)
    rows = list(log.read())
    log.close()
    assert len(rows) > 200 and [each.seq for each in rows] == list(range(1, len(rows) + 1))
    assert seen[0] == rows and seen[1] == rows


def test_a_follower_hears_at_once_and_looks_now_and_then(database):
    log, awake = PostgresLog(database, writer=1), threading.Event()
    follower = Follower(database, log.channel, awake.set, writer=2, poll_s=30)
    follower.start()
    assert follower.listening.wait(60) and awake.wait(60)
    awake.clear()
    log.append([row(1)])
    log.commit()
    assert awake.wait(20), "a commit is announced"
    follower.stop()
    own = Follower(database, log.channel, awake.set, writer=1, poll_s=0.4)
    own.start()
    own.listening.wait(60)
    awake.clear()
    assert awake.wait(60), "without a word it looks by itself"
    own.stop()
    log.close()
