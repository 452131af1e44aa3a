"""Several logs in one database: streams of one service, schemas of several; an owner's log behind its fence."""

import threading

import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.log.log import LogConflictError, LogFencedError, Row, Snapshot
from bot_orch.log.stores.postgres.connect import LogUnavailableError, connect
from bot_orch.log.stores.postgres.log import PostgresLog

psycopg = pytest.importorskip("psycopg", reason="needs psycopg[binary]", exc_type=ImportError)
CLAIM = "SELECT claim_stream(%s, %s, %s)"


def row(seq, **more):
    return Row(seq, seq * 10, "k@1", "r", b"body", **more)


def ask(url, statement, *arguments):
    with connect(url, autocommit=True) as connection:
        found = connection.execute(statement, arguments)
        result = found.fetchall() if found.description else []
    connection.close()
    return result


@pytest.fixture
def opened():
    logs = []

    def open_(url, **options):
        logs.append(PostgresLog(url, **options))
        return logs[-1]

    yield open_
    for log in logs:
        log.close()


def owned(opened, url, process=7, lease_s=60.0):
    """A log with a stream of its own that ``process`` owns."""
    log = opened(url)
    [(log.epoch,)] = ask(url, CLAIM, log.stream, process, lease_s)
    return log


@pytest.mark.parametrize(("one", "other"), [("", "&stream=support"), ("&stream=a", "&stream=b"), ("", "&schema=shop")])
def test_logs_in_one_database_do_not_see_each_other(opened, database, one, other):
    first, second = opened(database + one), opened(database + other)
    for log, body in ((first, b"1"), (second, b"2")):
        log.append([Row(1, 10, "k@1", "r", body, "key", b"digest")])
        log.save(Snapshot(1, body))
        log.commit()
    second.append([row(2)])
    second.commit()
    assert [len(list(log.read())) for log in (first, second)] == [1, 2]
    assert [log.about("r")[0].body for log in (first, second)] == [b"1", b"2"]
    assert [log.find("key") for log in (first, second)] == [(1, b"digest")] * 2
    assert [log.snapshot() for log in (first, second)] == [Snapshot(1, b"1"), Snapshot(1, b"2")]
    assert [log.last() for log in (first, second)] == [(1, 10), (2, 20)]
    assert first.row(2) is None and second.row(2) == row(2)
    assert first.keys_between(0, 9) == second.keys_between(0, 9) == {1: ("key", b"digest")}


def test_one_stream_does_not_wait_for_the_lock_of_another(opened, database):
    first, second = opened(database + "&query_s=0.6"), opened(database + "&stream=x")
    with connect(database) as held:
        held.execute("SELECT pg_advisory_xact_lock(6451060, stream_key(1))")
        second.append([row(1)])
        second.commit()
        assert second.last() == (1, 10)
        first.append([row(1)])
        with pytest.raises(LogUnavailableError, match="lock timeout"):
            first.commit()
        held.rollback()
    held.close()
    first.rollback()
    first.append([row(1)])
    first.commit()
    assert first.last() == (1, 10)


def test_a_partition_of_a_stream_refuses_changes(opened, database):
    log = opened(database + "&stream=x")
    for each in (log, opened(database)):
        each.append([row(1)])
        each.commit()
    for table in ("events", "events_1", f"events_{log.stream}"):
        for change in ("UPDATE {} SET body = ''", "DELETE FROM {}", "TRUNCATE {}"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                ask(database, change.format(table))


def test_a_stream_that_is_only_looked_at_must_exist(opened, database):
    opened(database).close()
    opened(database + "&stream=x").close()
    assert opened(database + "&stream=x", read_only=True).last() == (0, 0)
    with pytest.raises(InvalidInputError, match="there is no 'y'; there are the main one, and x"):
        opened(database + "&stream=y", read_only=True)


def test_streams_made_at_once_get_one_number_each(opened, database):
    opened(database).close()
    found = []
    threads = [
        threading.Thread(daemon=True, target=lambda: found.append(opened(database + "&stream=x").stream))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * 4 and opened(database + "&stream=y").stream == 3


def test_an_owner_appends_in_one_message_until_another_claims_the_log(opened, database):
    log = owned(opened, database)
    log.append([row(1, key="a", digest=b"d")])
    log.save(Snapshot(1, b"s"))
    log.append([row(2)])
    assert log.last() == (0, 0)
    log.commit()
    assert log.last() == (2, 20) and log.find("a") == (1, b"d") and log.snapshot() == Snapshot(1, b"s")
    log.append([row(3)])
    ask(database, "UPDATE leases SET until = now()")
    [(epoch,)] = ask(database, CLAIM, log.stream, 8, 60.0)
    assert epoch == log.epoch + 1
    with pytest.raises(LogFencedError, match="another process owns this log"):
        log.commit()
    log.rollback()
    assert log.last() == (2, 20)
    successor = opened(database, epoch=epoch)
    successor.append([row(3)])
    successor.commit()
    assert successor.last() == (3, 30)


def test_the_fence_is_what_stops_an_old_owner(opened, database):
    """Control: without the check of the epoch the old owner's rows come in between."""
    log = owned(opened, database)
    log.append([row(1)])
    ask(database, "UPDATE leases SET epoch = epoch + 1")
    ask(database, "CREATE OR REPLACE FUNCTION fence(wanted INTEGER, held BIGINT) RETURNS VOID LANGUAGE sql AS ''")
    log.commit()
    assert log.last() == (1, 10)


def test_a_living_owner_is_neither_replaced_nor_interrupted(opened, database):
    log = owned(opened, database)
    assert ask(database, CLAIM, log.stream, 8, 60.0) == [(None,)]
    importing = opened(database)
    importing.append([row(1)])
    with pytest.raises(LogFencedError):
        importing.commit()
    importing.rollback()
    ask(database, "UPDATE leases SET until = now()")
    importing.append([row(1)])
    importing.commit()
    log.append([row(2)])
    with pytest.raises(LogFencedError):
        log.commit()


def test_an_owner_notices_numbers_that_are_taken(opened, database):
    log = owned(opened, database)
    log.append([row(1)])
    ask(database, "INSERT INTO events VALUES (1, 1, 'k@1', 'r', 'x')")
    with pytest.raises(LogConflictError):
        log.commit()
    log.rollback()
    with pytest.raises(LogConflictError, match="row 1 does not follow 1"):
        log.append([row(1)])


@pytest.mark.parametrize("more", ["schema=Shop", "schema=a-b", "stream=" + 201 * "x"])
def test_names_are_checked(more):
    with pytest.raises(InvalidInputError, match="database"):
        PostgresLog(f"postgresql://host/name?{more}")
