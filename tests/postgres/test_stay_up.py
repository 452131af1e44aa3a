"""A replica that loses its connection goes on where it was; clocks, circuits and slow connections among replicas."""

import asyncio
import contextlib
import json
import re
import tempfile
import threading
import time

import pytest
from proxied import proxied
from service_running import BASE, Running, until
from tcp_proxy import LinkFault
from test_replicas import log, replicas, same_state  # noqa: F401

from bot_orch.agents.endings import Ending
from bot_orch.clock import SystemClock
from bot_orch.eventlog.events import DecisionMade, Noted
from bot_orch.eventlog.ledger import fold
from bot_orch.eventlog.log import LogConflictError, LogFencedError, Row
from bot_orch.eventlog.lookups import Wanted
from bot_orch.eventlog.stores.postgres import reading as reading_module
from bot_orch.eventlog.stores.postgres.connect import QUERIES, LogUnavailableError
from bot_orch.service.config import parse_config
from bot_orch.service.storage import replica as replica_module
from bot_orch.service.storage import writer as writer_module
from bot_orch.service.storage.clocks import ClockAheadError, sample
from bot_orch.service.storage.replica import make_writer
from bot_orch.service.storage.writer import Writer


def row(seq, ref="r", key=None):
    return Row(seq, 10 * seq, "k@1", ref, b"body", key, None if key is None else b"d")


def rows_of(log):  # noqa: F811
    return [each.seq for each in log.read()]


def test_a_commit_without_an_answer_is_looked_up(log, database):  # noqa: F811
    from bot_orch.eventlog.stores.postgres.log import PostgresLog

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
    from bot_orch.eventlog.stores.postgres.log import PostgresLog

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

    for module in (writer_module,):
        monkeypatch.setattr(module, "fold", counted)
    assert not hasattr(replica_module, "fold")
    return folds


@pytest.mark.parametrize("written", [True, False])
def test_a_replica_goes_on_after_a_lost_answer(replicas, log, written, monkeypatch):  # noqa: F811
    first, second = replicas(), replicas()
    assert first.post("/v1/decisions").status == 200
    folds, ledger = counted_folds(monkeypatch), first.runtime.ledger
    losing(first.runtime.writer.shared, before=None if written else lambda: None)
    made = first.post("/v1/decisions", headers={"idempotency-key": "k"})
    assert made.status == 200, "the client does not notice"
    assert first.post("/v1/decisions", headers={"idempotency-key": "k"}).json() == made.json()
    assert first.runtime.ledger is ledger and folds == []
    same_state(first, second)
    assert len(log.about(made.json()["id"])) == 1


def test_a_replica_that_others_overtook_goes_back_to_its_last_copy(replicas, monkeypatch):  # noqa: F811
    first, second = replicas(), replicas()
    for _ in range(5):
        assert first.post("/v1/decisions").status == 200
    folds = counted_folds(monkeypatch)
    losing(first.runtime.writer.shared, before=lambda: second.post("/v1/decisions"))
    assert first.post("/v1/decisions").status == 503, "it was not written, and is not acknowledged"
    until(lambda: first.post("/v1/decisions").status == 200)
    assert folds == [], "the log was not folded again"
    same_state(first, second)


def test_a_killed_connection_is_not_noticed(replicas, log, monkeypatch):  # noqa: F811
    service = replicas()
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


def test_one_round_trip_under_the_lock(log):  # noqa: F811
    log.append([row(1, key="k")])
    log.commit()
    wanted = Wanted(tuple(f"k{i}" for i in range(50)), ("r", "s"), ("r",))
    w = log._writing()
    assert round_trips(w, lambda: log.begin_with(1, 10, wanted)) == 1, "the lock, the end of the log, all lookups"

    def commit():
        log.append([row(2, key="k1"), row(3)])
        log.commit()

    assert round_trips(w, commit) == 1, "rows, keys, notification and COMMIT: the lock is gone with it"

    def as_before():
        w.execute("BEGIN")
        w.execute(QUERIES["lock"], (1,))
        w.execute(QUERIES["read"], (1, 3, 10))
        w.execute(QUERIES["find"], (1, "k2"))
        w.execute(QUERIES["notify"], (log.channel, "0:3"))
        w.commit()

    assert round_trips(w, as_before) >= 5, "control: statement by statement the lock is held for more"


def test_keys_are_looked_up_with_the_lock(replicas):  # noqa: F811
    service = replicas()
    shared, looked = service.runtime.writer.shared, []
    for name in ("look_up", "_fetch"):
        before = getattr(shared, name)
        setattr(shared, name, lambda *given, before=before: (looked.append(given[0]), before(*given))[1])
    answers = []

    def ask(i):
        answers.append(service.post("/v1/decisions", headers={"idempotency-key": f"k{i % 10}"}))

    threads = [threading.Thread(daemon=True, target=ask, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} == {200} and len({each.json()["id"] for each in answers}) == 10
    assert set(looked) <= {"read", "clock"}, "rows of others are read without the lock, no key is"


@pytest.mark.parametrize(("delay_s", "reason"), [(1.0, "answers this replica after"), (2.0, "PostgreSQL")])
def test_a_replica_with_a_slow_connection_does_not_slow_the_others(database, delay_s, reason):
    """It steps aside; round trips that are longer than ``query_s`` are taken for silence."""

    def started(url):
        return Running(parse_config(BASE.format(database=json.dumps(url), port=0)))

    with proxied(database) as proxy:
        slow, healthy = started(proxy.url), started(database)
        longest, statuses, done = [0.0], set(), threading.Event()

        def ask(service, timed):
            while not done.is_set():
                begun = time.monotonic()
                statuses.add((timed, service.post("/v1/decisions", timeout=60).status))
                if timed:
                    longest[0] = max(longest[0], time.monotonic() - begun)

        threads = [
            threading.Thread(daemon=True, target=ask, args=each)
            for each in ((slow, False), (healthy, True), (slow, False))
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        proxy.set(LinkFault("delay", delay_s=delay_s))
        answer = until(lambda: (each := slow.get("/health/ready")).status == 503 and each, 30)
        until(lambda: reason in slow.get("/health/ready").body.decode(), 30)
        time.sleep(2.0)
        done.set()
        proxy.heal()
        for thread in threads:
            thread.join()
        assert answer.status == 503 and (True, 200) in statuses and (True, 503) not in statuses
        print(f"longest request of the healthy replica: {longest[0]:.2f} s")  # noqa: T201
        assert longest[0] < 6.0  # typically 2.0 and 2.5; it was 29
        until(lambda: slow.get("/health/ready").status == 200, 30)
        same_state(slow, healthy)
        for each in (slow, healthy):
            each.stop()


class WrongClock(SystemClock):
    ahead_us = 0

    def now_us(self):
        return super().now_us() + self.ahead_us


def test_a_clock_that_is_ahead_gets_no_turn(replicas, log, database):  # noqa: F811
    clock = WrongClock()
    first, second = replicas(clock=clock), replicas()
    assert first.post("/v1/decisions").status == 200
    clock.ahead_us = 172_800_000_000
    answer = until(lambda: (each := first.post("/v1/decisions")).status == 503 and each)
    assert "seconds ahead of the database's; set it (NTP)" in answer.body.decode()
    assert first.get("/health/ready").status == 503
    assert second.post("/v1/decisions").status == 200
    assert log.last()[1] - SystemClock().now_us() < 60_000_000, "the time of the log was not pulled ahead"
    with pytest.raises(ClockAheadError, match="172800"):
        make_writer(log, clock)  # nor does it start
    from bot_orch.eventlog.stores.postgres.log import PostgresLog

    def jump(done, total):
        clock.ahead_us = 172_800_000_000

    for lease in (None, 1):
        clock.ahead_us = 0
        with (
            contextlib.closing(PostgresLog(database, epoch=lease)) as another,
            pytest.raises(ClockAheadError, match="172800"),
        ):
            make_writer(another, clock, progress=jump)  # nor if it jumps while the state is loaded
    clock.ahead_us = 0
    until(lambda: first.post("/v1/decisions").status == 200)
    assert log.last()[1] - SystemClock().now_us() < 60_000_000
    same_state(first, second)


def test_a_connection_that_is_made_again_does_not_look_slow(log, monkeypatch):  # noqa: F811
    connect = reading_module.connect

    def slowly(*arguments, **options):
        time.sleep(1.0)
        return connect(*arguments, **options)

    monkeypatch.setattr(reading_module, "connect", slowly)
    log._reader().close()
    assert sample(log, SystemClock()).took_s < 0.9, "or this replica would step aside after every fault"


def test_circuits_are_shared(replicas):  # noqa: F811
    first, second = replicas(), replicas()
    ours, theirs = (each.runtime.guards["quick"].breaker for each in (first, second))

    def fail():
        for _ in range(5):
            ours.settle(ours.acquire(), Ending.UPSTREAM_5XX)

    first.call(fail)
    until(lambda: theirs.state == "open")
    assert theirs.borrowed and not ours.borrowed
    agents = [second.post("/v1/decisions").json()["agent"] for _ in range(5)]
    assert agents == ["careful"] * 5, "nor does the second replica call it"
    assert second.post("/v1/admin/agents/quick/reset").status == 200, "a reset anywhere counts everywhere"
    until(lambda: ours.state == "closed" == theirs.state)


def test_an_acknowledged_outcome_is_never_pending(replicas):  # noqa: F811
    first, second = replicas(), replicas()
    writer = second.runtime.writer
    second.call(lambda: (writer._follower.stop(), second.runtime._sweeper.cancel()))  # it lags behind
    for _ in range(10):
        made = first.post("/v1/decisions").json()["id"]
        assert second.get(f"/v1/decisions/{made}").json()["pending"]
        assert first.post("/v1/feedback", {"decision_id": made, "reward": 1.0}).status == 200
        assert not second.get(f"/v1/decisions/{made}").json()["pending"]
    assert [each for each in second.runtime.ledger.pending if each == made] == []


def test_decisions_of_a_busy_replica_are_made_once(replicas, log):  # noqa: F811
    """Requests that want lookups and requests that want none share turns."""
    service, answers = replicas(), []

    def ask(i):
        headers = {"idempotency-key": f"k{i}"} if i % 2 else {}
        answers.append(service.post("/v1/decisions", {"task": {"id": str(i)}}, headers=headers).json()["id"])

    threads = [threading.Thread(daemon=True, target=ask, args=(i,)) for i in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(answers)) == 60 == sum(each.holds(DecisionMade) for each in log.read())
