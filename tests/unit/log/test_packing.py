"""Packed rows: read back bit for bit, small, the same results as rows of the format before, and blocks stand alone."""

import contextlib
import math
import sqlite3

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scribing import Scribe

from bot_orch import Orchestrator, Outcome, Router, Task
from bot_orch.errors import StateFormatError
from bot_orch.evaluation.evaluate import evaluate_log
from bot_orch.evaluation.export import decision_rows, event_rows
from bot_orch.evaluation.spend import spent
from bot_orch.log.events import (
    AttemptEnded,
    DecisionMade,
    FeedbackGiven,
    TaskRecord,
    encode_event,
    kind_of,
    record_decision,
)
from bot_orch.log.ids import time_ordered_id
from bot_orch.log.log import LogConflictError, Row
from bot_orch.log.packing.columns import pack_columns, unpack_columns
from bot_orch.log.packing.names import long_name, short_name
from bot_orch.log.packing.rows import BLOCK, Packer, Unpacker, block_of
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.open import open_log
from bot_orch.log.stores.sqlfiles import migrations
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.log.verification import replay

numbers = st.sampled_from([0.0, -0.0, 0.25, 1.0, math.nan, math.inf, 1e-300, 0.1, 1 / 3])


def row_of(seq, event, ref):
    return Row(seq, 10 * seq, kind_of(event), ref, encode_event(event))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_columns_come_back_bit_for_bit(data):
    agents = data.draw(st.sampled_from([1, 2, 15, 16, 17, 50]))
    columns = data.draw(
        st.sampled_from([("propensity",), ("propensity", "estimate", "exploration", "distance", "alignment", "cost")])
    )
    draw = lambda: np.array(data.draw(st.lists(numbers, min_size=agents, max_size=agents)))  # noqa: E731
    before = np.array([draw() for _ in columns])
    now = np.where(
        np.random.default_rng(agents).random(before.shape) < 0.3, np.array([draw() for _ in columns]), before
    )
    if "distance" in columns:
        now[4] = 0.7 * now[3]
    packed = pack_columns(now.tobytes(), before.tobytes(), columns, lambda_=0.7)
    assert unpack_columns(packed, before.tobytes(), columns, lambda_=0.7) == now.tobytes()
    assert len(packed) <= now.nbytes + len(columns)
    with pytest.raises(ValueError, match="too many"):
        unpack_columns(packed + b"x", before.tobytes(), columns, lambda_=0.7)


def decisions(draw, number):
    agents = draw(st.sampled_from([("a", "b"), ("a", "b", "c")]))
    table = np.array(draw(st.lists(numbers, min_size=2 * len(agents), max_size=2 * len(agents))))
    own = draw(st.sampled_from([time_ordered_id(number, bytes(8)), f"{7:016x}-{number:012x}", "own"]))
    optional = {
        "session": st.sampled_from([None, "s"]), "audit_probability": numbers, "tags": st.sampled_from([(), ("x",)]),
        "eligible": st.sampled_from([None, ("a",)]), "reserved_usd": st.sampled_from([None, 0.0, 0.5]),
        "caps": st.sampled_from([None, {"a": 0.1}]), "features": st.binary(max_size=8), "token": st.text(max_size=3),
    }  # fmt: skip
    chosen = {name: draw(values) for name, values in optional.items() if draw(st.booleans())}
    task = TaskRecord(*draw(st.sampled_from([(), ("t",), ("t", "kind"), ("", "", (0.5,))])))
    lambda_ = draw(numbers)
    made = DecisionMade(
        own, task, draw(st.sampled_from(agents)), agents, table.tobytes(), "bot@1", lambda_, 2 * number, 7, number, "3",
        ("propensity", "estimate"), **chosen,
    )  # fmt: skip
    return row_of(number, made, draw(st.sampled_from([own, "other"])))


def reports(draw, number):
    about = draw(st.sampled_from([time_ordered_id(number, bytes(8)), "d"]))
    own = draw(st.sampled_from([f"auto-{'0f' * 16}", "auto-XX", f"round-{about}", f"learned-{about}", "mine", "",
                                f"judge-j-{about}", "018bcfe5-6800-407b-8000-00000000000f", "é\0"]))  # fmt: skip
    optional = {
        "elapsed_s": numbers, "completed": st.booleans(), "reason": st.sampled_from([None, "timeout"]),
        "cost_usd": numbers, "judge": st.sampled_from(["", "j"]), "rate": numbers, "priced": st.booleans(),
        "output": st.sampled_from([None, {"kind": "labels", "probabilities": [0.5, 0.5]}]),
    }  # fmt: skip
    chosen = {name: draw(values) for name, values in optional.items() if draw(st.booleans())}
    effect = draw(st.sampled_from(["learned", "noted", "outranked", "of another release"]))
    reward = draw(st.one_of(st.none(), numbers, st.just(1)))
    return row_of(number, FeedbackGiven(own, about, effect, reward, **chosen), draw(st.sampled_from([about, "other"])))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_rows_come_back_byte_for_byte(data):
    first = data.draw(st.sampled_from([1, BLOCK - 3]))
    rows = [
        (decisions if data.draw(st.booleans()) else reports)(data.draw, seq)
        for seq in range(first, first + data.draw(st.integers(1, 8)))
    ]
    packer = Packer()
    packed = {row.seq: packer.pack(row) for row in rows}
    assert [Unpacker(packed.get).unpack(each) for each in packed.values()] == rows
    assert all(len(packed[row.seq].body) <= len(row.body) for row in rows)
    for each in packed.values():
        if each.kind == "decision@3":
            back = msgspec.msgpack.decode(each.body)[0]
            assert block_of(each.seq - back) == block_of(each.seq), "a block can be read without any other"


def traffic(log, rounds=120):
    """The same of each log: decisions, outcomes, dollars, another number of agents."""
    scribe = Scribe(log, Orchestrator(["a", "b", "c"], "bot", floor=0.05, seed=3, ids="derived"))
    rng = np.random.default_rng(5)
    for number in range(rounds):
        made = scribe.ledger.router.prepare(Task(f"t{number}"), ("a", "b") if number % 9 == 0 else None)
        decision_id = time_ordered_id(1_700_000_000_000_000 + number, bytes([number] * 8))
        eligible = ("a", "b") if number % 9 == 0 else None
        event = record_decision(decision_id, made, TaskRecord(f"t{number}"), eligible=eligible, token="app")  # noqa: S106
        scribe.put(event, decision_id, made)
        scribe.put(AttemptEnded(decision_id, "", event.agent, 1, "completed", 0.5, cost_usd=0.01), decision_id)
        if number % 4:
            scribe.put(FeedbackGiven(f"f-{decision_id}", decision_id, "learned", float(rng.random())), decision_id)
    log.commit()
    return log


def test_both_formats_give_the_same_results(tmp_path):
    plain, packed = traffic(MemoryLog()), traffic(SqliteLog(tmp_path / "log"))
    assert [row[:5] for row in plain.read()] == [row[:5] for row in packed.read()]
    assert [row.event() for row in plain.read()] == [row.event() for row in packed.read()]
    kinds = {kind for (kind,) in packed._reader.execute("SELECT kind FROM packed")}
    assert {3, 5} < kinds, "they were packed"
    ours, theirs = replay(packed), replay(plain)
    assert ours.ok and ours.derived == 120 and ours == theirs
    assert list(event_rows(packed)) == list(event_rows(plain)) and list(decision_rows(packed)) == list(
        decision_rows(plain)
    )
    assert [*spent(packed, "token")] == [*spent(plain, "token")] != []
    assert repr(evaluate_log(packed, "uniform")) == repr(evaluate_log(plain, "uniform"))
    some = next(row for row in plain.read(90) if row.holds(DecisionMade))
    packed.close()
    with contextlib.closing(open_log(tmp_path / "log")) as again:  # an index of its own finds it, and what it needs
        assert [row[:5] for row in again.about(some.ref)] == [row[:5] for row in plain.about(some.ref)]
        assert again.row(some.seq).event() == some.event()


def test_a_log_of_the_first_version_is_read_and_continued(tmp_path):
    plain, path = traffic(MemoryLog(), 30), tmp_path / "log"
    rows = list(plain.read())
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript(migrations("sqlite")[0] + "PRAGMA user_version = 1;")
        old.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [row[:5] for row in rows[:50]])
        old.execute("INSERT INTO keys VALUES ('d:018bcfe5-6800-707b-8000-000000000000', 7, x'01')")
        old.commit()
    with contextlib.closing(open_log(path)) as looking:
        assert list(looking.read()) == [(*row[:5], None, None) for row in rows[:50]] and looking.last()[0] == 50
        key = "d:018bcfe5-6800-707b-8000-000000000000"
        assert [*looking.keys()] == [(7, key, b"\1")]
        assert looking.find(key) == (7, b"\1")
    with contextlib.closing(SqliteLog(path)) as log:
        with pytest.raises(LogConflictError, match="row 51 is taken"):
            log.append([rows[50]._replace(key=key)])
        log.rollback()
        log.append([*rows[50:-1], rows[-1]._replace(key="f:1", digest=b"2")])
        log.commit()
        assert [*log.keys()] == [(7, key, b"\1"), (len(rows), "f:1", b"2")] and log.find(key) == (7, b"\1")
        assert [row[:5] for row in log.read()] == [row[:5] for row in rows] and replay(log).ok
        first = rows[45].ref
        assert [row.seq for row in log.about(first)] == [row.seq for row in rows if row.ref == first]
        old, new = (next(row.seq for row in part if row.kind == "attempt@1") for part in (rows[:50], rows[50:]))
        log.rewrite([(old, b"a"), (new, b"b")], None)
        assert [log.row(seq).body for seq in (old, new)] == [b"a", b"b"]
        for table in ("events", "packed"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                log._writer.execute(f"UPDATE {table} SET body = x''")  # noqa: S608


@pytest.mark.parametrize("forgets", [True, False], ids=["", "control"])
def test_rows_that_were_rolled_back_are_no_base(tmp_path, forgets, monkeypatch):
    if not forgets:
        monkeypatch.setattr(Packer, "forget", lambda self: None)
    made = [row for row in traffic(MemoryLog(), 5).read() if row.holds(DecisionMade)]
    rows = [row._replace(seq=seq, time_us=seq) for seq, row in enumerate(made, 1)]
    log = SqliteLog(tmp_path / "log")
    log.append(rows[:1])
    log.rollback()
    log.append([Row(1, 1, "note@1", "", b""), *rows[1:]])
    log.commit()
    try:
        if forgets:
            assert [row[:5] for row in log.read(1)] == [row[:5] for row in rows[1:]]
        else:
            with pytest.raises(StateFormatError, match="row 1, which it needs, is missing"):
                list(log.read(1))
    finally:
        log.close()


def test_every_field_can_be_packed():
    """One that is missing here would be correct, and stored whole."""
    from bot_orch.log.packing import rows

    derived = {"agent", "agents", "numbers", "columns", "counter", "state_seq"}
    assert set(rows._CHANGING) | derived == set(DecisionMade.__struct_fields__)
    assert {*rows._RESTING, "id", "decision_id", "effect", "reward"} == set(FeedbackGiven.__struct_fields__)


def test_damaged_rows_are_named():
    made = [row for row in traffic(MemoryLog(), 3).read() if row.holds(DecisionMade)]
    packer = Packer()
    base, packed, _ = (packer.pack(row) for row in made)
    assert base == made[0] and packed.kind == "decision@3"
    for body in (b"", packed.body[:-1], packed.body.replace(b"\x93", b"\xc3")[:3]):
        with pytest.raises(StateFormatError, match=f"row {packed.seq}: an event cannot be read"):
            Unpacker({base.seq: base}.get).unpack(packed._replace(body=body))
    damaged = Row(9, 90, "decision@2", "d", b"\x93damaged")
    assert Packer().pack(damaged) == damaged


@pytest.mark.parametrize(("agents", "most"), [(4, 350), (50, 1600)])
def test_bytes_per_decision_and_feedback(tmp_path, agents, most):
    pairs, rng, log = 600, np.random.default_rng(1), SqliteLog(tmp_path / "log")
    scribe = Scribe(log, Orchestrator([f"agent-{i}" for i in range(agents)], "auto", seed=1))
    pages = []
    for number in range(pairs):
        decision_id, _ = scribe.decide()
        report = FeedbackGiven(f"auto-{number:032x}", decision_id, "learned", float(rng.random() < 0.5), cost_usd=0.0)
        scribe.put(report, decision_id)
        if number + 1 in (pairs // 3, pairs):
            log.commit()
            pages.append(log._reader.execute("PRAGMA page_count").fetchone()[0])
    log.close()
    assert 4096 * (pages[1] - pages[0]) / (pairs - pairs // 3) < most


def test_a_router_in_a_file_is_packed_too(tmp_path):
    with Router(["a", "b"], path=tmp_path / "log") as router:
        for _ in range(20):
            made = router.decide(Task())
            router.observe(made.id, Outcome.completed(1.0))
    with contextlib.closing(sqlite3.connect(tmp_path / "log")) as file:
        refs = [ref for (ref,) in file.execute("SELECT ref FROM packed WHERE kind = 3")]
    assert len(refs) == 19 and {len(ref) for ref in refs} == {14}
    assert all(short_name(long_name(ref)) == ref for ref in refs)
