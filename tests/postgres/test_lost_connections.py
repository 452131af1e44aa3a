"""An owner that loses its connection goes on where it was; one that was replaced writes no more."""

import asyncio
import re
import tempfile
import threading
import time

import pytest
from service_running import until
from test_processes import log, processes  # noqa: F401

from bot_orch.clock import SystemClock
from bot_orch.core.events import DecisionMade, Noted
from bot_orch.log.ledger import fold
from bot_orch.log.log import LogConflictError, LogFencedError, Row
from bot_orch.log.stores.postgres.connect import QUERIES, LogUnavailableError
from bot_orch.service.storage import writer as writer_module
from bot_orch.service.storage.writer import Writer


def row(seq, ref="r", key=None):
    return Row(seq, 10 * seq, "k@1", ref, b"body", key, None if key is None else b"d")


def rows_of(log):  # noqa: F811
    return [each.seq for each in log.read()]


def test_a_commit_without_an_answer_is_looked_up(log, database):  # noqa: F811
    from bot_orch.log.stores.postgres.log import PostgresLog

    other = PostgresLog(database)
    log.settle([row(1, key="k")])  # nothing is there: it is written
    assert rows_of(other) == [1] and other.find("k") == (1, b"d")
    log.settle([row(1, key="k")])  # it is there
    assert rows_of(other) == [1]
    other.append([row(2, "others'")])
    other.commit()
    with pytest.raises(LogConflictError, match="another writer"):
        log.settle([row(2, "ours")])
    with pytest.raises(LogConflictError):
        log.settle([row(9)])  # the log was restored, and ends before
    log.settle([])
    assert rows_of(other) == [1, 2]
    other.close()


def owned(log, process=1):  # noqa: F811
    """The log as its owner writes it."""
    log.epoch = int(log._writing().execute("SELECT claim_stream(1, %s, 60)", (process,)).fetchone()[0])
    log._w.commit()
    return log


def losing(log, *, before=None, after=None, times=1):  # noqa: F811
    """The answer to the next commits is lost; ``before`` or ``after`` says whether they happen."""
    commit, left = log.commit, [times]

    def commit_and_lose():
        if left[0] == 0:
            return commit()
        left[0] -= 1
        if before is None:
            commit()
        else:
            log.rollback()
            before()
        if after is not None:
            after()
        raise LogUnavailableError("log: PostgreSQL does not answer (lost)")

    log.commit = commit_and_lose


@pytest.mark.parametrize("written", [True, False])
def test_an_owner_goes_on_after_a_lost_answer(log, written, monkeypatch):  # noqa: F811
    folds = counted_folds(monkeypatch)
    losing(owned(log), before=None if written else lambda: None)

    async def play():
        writer = Writer(log, SystemClock())
        folds.clear()
        ledger = writer.ledger
        writer.start()
        first = writer.stage(writer.stamp(), Noted("a", "r"), "r")
        await first.durable()
        await writer.stage(writer.stamp(), Noted("b", "r"), "r").durable()
        rows, fresh = await writer.about("r"), writer.fresh
        same = writer.ledger is ledger
        await writer.close()
        return rows, fresh, same

    rows, fresh, same = asyncio.run(play())
    assert [each.event().topic for each in rows] == ["a", "b"] and fresh and same and folds == []


def test_an_owner_that_was_replaced_writes_no_more(log, database):  # noqa: F811
    from bot_orch.log.stores.postgres.log import PostgresLog

    owned(log)

    async def play():
        writer = Writer(log, SystemClock())
        writer.start()
        await writer.stage(writer.stamp(), Noted("a", "r"), "r").durable()
        other = PostgresLog(database)
        other._writing().execute("UPDATE leases SET owner = 2, epoch = epoch + 1")
        other._w.commit()
        group = writer.stage(writer.stamp(), Noted("b", "r"), "r")
        with pytest.raises(Exception, match="owns this log"):
            await group.durable()
        assert isinstance(writer.failed, LogFencedError) and not await writer.confirm()
        assert rows_of(other) == [1]
        other.close()
        await writer.close()

    asyncio.run(play())


def counted_folds(monkeypatch):
    folds = []

    def counted(*arguments, **options):
        folds.append(1)
        return fold(*arguments, **options)

    monkeypatch.setattr(writer_module, "fold", counted)
    return folds


def test_a_killed_connection_is_not_noticed(processes, log, monkeypatch):  # noqa: F811
    service = processes()
    until(lambda: service.serves)
    folds, answers, done = counted_folds(monkeypatch), [], threading.Event()

    def ask():
        while not done.is_set():
            answers.append(service.post("/v1/decisions").status)

    threads = [threading.Thread(daemon=True, target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    killing = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bot-orch'"
    for _ in range(4):
        time.sleep(0.3)
        log._reader().execute(f"{killing} AND pid <> pg_backend_pid() AND datname = current_database()")
    time.sleep(0.3)
    done.set()
    for thread in threads:
        thread.join()
    assert set(answers) == {200} and len(answers) > 20 and folds == []


def round_trips(connection, job):
    """How often the client waits for the server while it does a job."""
    with tempfile.TemporaryFile() as traced:
        connection.pgconn.trace(traced.fileno())
        job()
        connection.pgconn.untrace()
        traced.seek(0)
        return len(re.findall(rb"ReadyForQuery", traced.read()))


def test_a_commit_is_one_round_trip(log):  # noqa: F811
    owned(log)
    log.append([row(1, key="k")])
    log.commit()
    w = log._writing()

    def commit():
        log.append([row(2, key="k1"), row(3)])
        log.commit()

    assert round_trips(w, commit) == 1, "the fence, rows, keys and COMMIT: the lock is gone with it"

    def as_before():
        w.execute("BEGIN")
        w.execute(QUERIES["fence"], (1, log.epoch))
        w.execute(QUERIES["probe"], (1,))
        w.commit()

    assert round_trips(w, as_before) >= 4, "control: statement by statement the lock is held for more"


def test_lookups_that_wait_share_a_query(log):  # noqa: F811
    looked, look_up = [], log.look_up

    def slowly(wanted):
        looked.append(len(wanted.keys))
        time.sleep(0.1)
        return look_up(wanted)

    log.look_up = slowly

    async def play():
        writer = Writer(owned(log), SystemClock())
        writer.start()
        await writer.stage(writer.stamp(), Noted("a", "r"), "r", key="k0", digest=b"d").durable()
        looks = await asyncio.gather(*(writer.look_up(keys=[f"k{i}"], refs=["r"]) for i in range(20)))
        await writer.close()
        return looks

    looks = asyncio.run(play())
    assert sum(looked) == 20 and len(looked) <= 3, looked
    assert [i for i, look in enumerate(looks) if look.find(f"k{i}") is not None] == [0]
    assert {len(look.about("r")) for look in looks} == {1}


def test_decisions_of_a_busy_owner_are_made_once(processes, log):  # noqa: F811
    """Requests that want lookups and requests that want none share groups."""
    service, answers = processes(), []

    def ask(i):
        headers = {"idempotency-key": f"k{i}"} if i % 2 else {}
        answers.append(service.post("/v1/decisions", {"task": {"id": str(i)}}, headers=headers).json()["id"])

    threads = [threading.Thread(daemon=True, target=ask, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 60 == sum(each.holds(DecisionMade) for each in log.read())
