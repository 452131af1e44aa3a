"""Snapshots in pieces: loading one gives the fold, only changes are written, and what is damaged is passed over."""

import logging

import numpy as np
import pytest
from scribing import Scribe

from bot_orch import Agent, Labels, Objective, Orchestrator, Task
from bot_orch.core.rows import arrays_from_rows, arrays_to_rows, decision_reader, decision_to_row
from bot_orch.errors import InvalidInputError, StateFormatError
from bot_orch.log.events import (
    AttemptEnded,
    Censored,
    Controlled,
    FeedbackGiven,
    TaskEnded,
    TaskRecord,
    TaskSubmitted,
    record_decision,
    record_task,
)
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.log import PieceKeeper, Snapshot
from bot_orch.log.reconfigure import change_to
from bot_orch.log.snapshots import cut, folder
from bot_orch.log.snapshots.folder import PieceFolder
from bot_orch.log.snapshots.manifest import digests_of, manifest_of
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.stores.postgres.connect import connect
from bot_orch.log.stores.sqlite.log import SqliteLog
from bot_orch.types import Outcome

AGENTS = [Agent("a", price=0.01), Agent("b"), Agent("c", cost=0.1)]


def router(policy="auto", **more):
    more = {"n_features": 3, "horizon": None, "audit_rate": 0.4, "objective": Objective(usd=0.5), **more}
    return Orchestrator(AGENTS, policy, seed=5, **more)


class Traffic:
    """Random events of all kinds, from a seed."""

    def __init__(self, log, seed, policy="auto"):
        self.scribe, self.rng = Scribe(log, router(policy)), np.random.default_rng(seed)
        self.number = 0

    def decide(self):
        self.number += 1
        n, ledger = self.number, self.scribe.ledger
        claims = {"a": 0.4} if n % 5 == 0 else None
        given = {"reference": Labels([0.4, 0.6])} if n % 3 else {}
        features = tuple(self.rng.normal(size=3).astype("<f4").astype(float).tolist())
        task = Task(f"t{n}", features=features, **given, **({"claims": claims} if claims else {}))
        made = ledger.router.prepare(task)
        event = record_decision(
            f"d{n:06}",
            made,
            record_task(task),
            session=f"s{n % 40}" if n % 2 else None,
            reserved_usd=0.25 if n % 4 == 0 else None,
        )
        self.scribe.put(event, event.id, made)

    def settle(self):
        ledger, put = self.scribe.ledger, self.scribe.put
        if not ledger.pending:
            return
        chosen = list(ledger.pending)[int(self.rng.integers(len(ledger.pending)))]
        match int(self.rng.integers(7)):
            case 0:
                put(Censored(chosen, 9.0, "horizon"), chosen)
            case 1:
                put(AttemptEnded(chosen, "", "a", 1, "completed", 0.5, cost_usd=0.001), chosen)
            case 2 if ledger.pending[chosen][0] not in ledger.router.shown:
                output = {"kind": "labels", "probabilities": [0.7, 0.3]}
                put(FeedbackGiven(f"o{chosen}", chosen, "shown", output=output), chosen)
            case 3:
                put(FeedbackGiven(f"j{chosen}", chosen, "learned", reward=0.3, judge="model"), chosen)
            case 4:
                put(FeedbackGiven(f"e{chosen}-x", f"{chosen}-x", "early", reward=0.3), chosen)
            case _:
                put(FeedbackGiven(f"f{chosen}", chosen, "learned", reward=float(self.rng.random())), chosen)

    def run(self, steps):
        for _ in range(steps):
            self.decide()
            if self.rng.random() < 0.7:
                self.settle()
            if self.number % 30 == 0:
                self.scribe.put(TaskSubmitted(f"q{self.number}", TaskRecord("t"), "hello " * 9), f"q{self.number}")
            if self.number % 90 == 0:
                self.scribe.put(TaskEnded(f"q{self.number - 30}", "completed"), "")
                self.scribe.put(Controlled("a", "ops"), "")
            if self.number == 100:
                wanted = Orchestrator.from_settings(self.scribe.ledger.router.settings, [*AGENTS, Agent("d")])
                self.scribe.put(change_to(self.scribe.ledger.router, wanted, self.scribe.ledger.engine), "")
        self.scribe.log.commit()

    def save(self, ledger=None):
        snapshot = (ledger or self.scribe.ledger).snapshot(self.scribe.log)
        self.scribe.log.append([], snapshot)
        self.scribe.log.commit()
        return snapshot


def folded(log, **more):
    return fold(log, use_snapshot=False, **more).fingerprint()


def test_loading_pieces_and_the_tail_gives_the_fold(log):
    """The property, over a history with every kind of entry, through several increments and restarts."""
    traffic = Traffic(log, seed=1)
    for steps in (60, 1, 40, 90, 3):
        traffic.run(steps)
        traffic.save()
        loaded = Ledger.load(log.snapshot(), log)
        assert loaded.fingerprint() == traffic.scribe.ledger.fingerprint()
        assert loaded.folded_from == loaded.seq == log.snapshot().seq
        traffic.run(int(traffic.rng.integers(1, 9)))
        again = fold(log)
        assert again.folded_from < again.seq and again.fingerprint() == traffic.scribe.ledger.fingerprint()
        if steps == 40:  # a restart: the next increment is cut from the loaded state
            traffic.scribe.ledger = again
    held = traffic.scribe.ledger
    assert folded(log) == held.fingerprint() and held.paid and held.reserved and held.sessions and held.tasks
    state = held.router._state
    assert state.used and state.shown and state.verdicts and state.silences and state.provisional and held.early
    assert {"router.pending", "pending", "paid", "reserved"} <= set(manifest_of(log.snapshot().body).lists)


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_loaded_as_it_is_folded(seed, monkeypatch):
    monkeypatch.setattr(cut, "_SOME", 4)
    monkeypatch.setattr(cut, "_MANY", 6)
    traffic = Traffic(MemoryLog(), seed, policy="linucb" if seed % 2 else "bot")
    for _ in range(12):
        traffic.run(int(traffic.rng.integers(1, 25)))
        traffic.save()
        assert Ledger.load(traffic.scribe.log.snapshot(), traffic.scribe.log).fingerprint() == folded(
            traffic.scribe.log
        )


def test_a_piece_that_is_taken_for_unchanged_is_caught(monkeypatch):
    """The control of the properties above: entries that differ count as the same."""
    monkeypatch.setattr(cut, "_MANY", 6)
    monkeypatch.setattr(cut, "is_", lambda one, other: True)
    traffic = Traffic(MemoryLog(), seed=0)
    found = []
    for _ in range(6):
        traffic.run(30)
        traffic.save()
        held = Ledger.load(traffic.scribe.log.snapshot(), traffic.scribe.log)
        found.append(held.fingerprint() == folded(traffic.scribe.log))
    assert not all(found)


def test_only_what_changed_is_written_and_old_pieces_are_collected(log, monkeypatch):
    monkeypatch.setattr(cut, "_SOME", 16)
    monkeypatch.setattr(cut, "_MANY", 64)
    traffic = Traffic(log, seed=2, policy="bot")
    for _ in range(500):
        traffic.decide()
    log.commit()
    first = traffic.save()
    oldest = next(iter(traffic.scribe.ledger.pending))
    traffic.scribe.feedback(oldest, 0.5)
    traffic.scribe.log.commit()
    second = traffic.save()
    known, after = set(digests_of(first.body)), set(digests_of(second.body))
    assert len(after - known) < 12 < len(known), "head, arrays, and a piece of each list that changed"
    assert traffic.save().body == second.body, "nothing has changed"
    if not isinstance(log, PieceKeeper):
        assert len(second.pieces) == len(after - known)
    loaded = Ledger.load(log.snapshot(), log)
    assert loaded.snapshot(log).pieces == (), "a state that was loaded knows its pieces"
    for _ in range(3):
        traffic.run(5)
        traffic.save()
    needed = {*digests_of(log.snapshot().body), *digests_of(log.snapshot(log.snapshot().seq).body)}
    before = set(digests_of(first.body)) - needed
    assert log.missing(needed) == set() and before
    if isinstance(log, PieceKeeper):  # a server keeps them for a minute, as another replica may need them
        assert log.missing(before) == set()
        with connect(log.url) as connection:
            connection.execute("UPDATE snapshot_pieces SET stored = stored - interval '2 minutes'")
        traffic.run(1)
        traffic.save()
    assert log.missing(before) == before


def damaged(log, digest, body):
    """The same rows and snapshots, with another piece, or without it."""
    copy = MemoryLog()
    copy.append(list(log.read()))
    copy.commit()
    copy._snapshots, copy._pieces = list(log._snapshots), dict(log._pieces)
    del copy._pieces[digest]
    if body is not None:
        copy._pieces[digest] = body
    return copy


@pytest.mark.parametrize("body", [None, b"nothing", "another"])
def test_a_dropped_or_damaged_piece_is_caught_and_the_older_snapshot_counts(body, caplog):
    traffic = Traffic(log := MemoryLog(), seed=3, policy="bot")
    traffic.run(25)
    older = traffic.save()
    traffic.run(15)
    newest = traffic.save()
    traffic.run(3)
    if body == "another":  # a whole piece, under a wrong name
        body = log._pieces[digests_of(older.body)[-1]]
    own = set(digests_of(newest.body)) - set(digests_of(older.body))
    for digest in sorted(own):
        broken = damaged(log, digest, body)
        with pytest.raises(StateFormatError, match="piece"):
            Ledger.load(newest, broken)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "bot_orch.log"):
            found = fold(broken)
        assert "snapshot passed over" in caplog.text and found.folded_from == older.seq
        assert found.fingerprint() == folded(log)
    broken.append([], found.snapshot(broken))  # what was damaged is written again
    broken.commit()
    assert Ledger.load(broken.snapshot(), broken).fingerprint() == folded(log)


def test_without_any_good_snapshot_the_log_is_folded(caplog):
    traffic = Traffic(log := MemoryLog(), seed=3, policy="bot")
    traffic.run(60)
    traffic.save()
    log._pieces.clear()
    (saved,) = log._snapshots
    log._snapshots = [
        Snapshot(2, b"\x80"),
        Snapshot(3, b"\xde\x00"),
        Snapshot(4, traffic.scribe.ledger.to_bytes()[:-9]),
        Snapshot(5, saved.body[:-3]),
        saved,
    ]
    with caplog.at_level(logging.WARNING, "bot_orch.log"):
        found = fold(log)
    assert found.folded_from == 0 and found.fingerprint() == folded(log)
    assert len([each for each in caplog.records if each.message == "snapshot passed over"]) == 5


def test_a_snapshot_before_an_event_helps_to_fold_up_to_it():
    traffic = Traffic(log := MemoryLog(), seed=4, policy="bot")
    traffic.run(30)
    first = traffic.save()
    traffic.run(30)
    traffic.save()
    found = fold(log, upto=first.seq + 5)
    assert found.folded_from == first.seq and found.fingerprint() == folded(log, upto=first.seq + 5)


def test_pieces_in_a_folder(tmp_path, monkeypatch, caplog):
    log = SqliteLog(tmp_path / "log")
    log.folder = place = PieceFolder(tmp_path / "pieces" / "default")
    traffic, made = Traffic(log, seed=6, policy="bot"), []
    for steps in (80, 5, 5):
        traffic.run(steps)
        made.append(traffic.save())
    assert fold(log).folded_from == made[-1].seq and fold(log).fingerprint() == folded(log)
    assert log.missing(digests_of(made[-1].body)) == set(digests_of(made[-1].body)), "they are not in the log"
    log.close()
    log = traffic.scribe.log = SqliteLog(tmp_path / "log")
    assert fold(log).folded_from == made[-1].seq, "the snapshot says where its pieces are"
    log.folder = place
    monkeypatch.setattr(folder, "_YOUNG_S", -1.0)
    for _ in range(3):
        traffic.run(2)
        made.append(traffic.save())
    assert {file.stem for file in place.path.iterdir()} == {
        name.hex() for each in made[-3:] for name in digests_of(each.body)
    }
    for file in place.path.iterdir():
        file.unlink()
    with caplog.at_level(logging.WARNING, "bot_orch.log"):
        assert fold(log).fingerprint() == folded(log)
    assert "is missing" in str(caplog.records[0].fields)
    log.close()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"snapshots\.folder: cannot be made"):
        PieceFolder(tmp_path / "file" / "pieces").keep([], ())


def test_a_decision_is_the_same_after_a_row():
    made = router().prepare(Task("t", features=(0.1, -0.2, 3.0), claims={"b": 0.25}))
    again = decision_reader()(decision_to_row(made))
    assert again.to_dict() == made.to_dict() and again.terms.bias is not None and made.claims
    for name, column in made.columns().items():
        assert again.columns()[name].tobytes() == column.tobytes()
        assert again.columns()[name].flags.writeable


def test_arrays_are_the_same_after_rows():
    arrays = {"x": np.arange(6.0).reshape(2, 3), "n": np.array(4, "<i4"), "none": np.zeros((0, 2))}
    again = arrays_from_rows(arrays_to_rows(arrays))
    assert {name: (each.shape, each.dtype, each.tobytes()) for name, each in again.items()} == {
        name: (each.shape, each.dtype, each.tobytes()) for name, each in arrays.items()
    }
    with pytest.raises(StateFormatError, match="not allowed"):
        arrays_from_rows([["x", "|O", (1,), b"12345678"]])


def test_a_log_with_an_older_kind_of_snapshot_goes_on():
    traffic = Traffic(log := MemoryLog(), seed=7, policy="bot")
    traffic.run(30)
    log.append([], Snapshot(traffic.scribe.ledger.seq, traffic.scribe.ledger.to_bytes()))
    log.commit()
    traffic.run(3)
    traffic.scribe.ledger = fold(log)
    traffic.save()
    assert fold(log).folded_from == log.last()[0] and fold(log).fingerprint() == folded(log)


def test_a_state_from_a_copy_in_memory_is_the_fold_and_a_state_of_its_own():
    """What a replica goes back to: a copy, and the committed rows after it."""
    traffic = Traffic(log := MemoryLog(), seed=9)
    traffic.run(80)
    captured, before = traffic.scribe.ledger.capture(), traffic.scribe.ledger.fingerprint()
    copy = Ledger.from_capture(captured)
    assert copy.fingerprint() == before and copy.folded_from == copy.seq
    traffic.run(40)
    for row in log.read(copy.seq):
        copy.take(row)
    assert copy.fingerprint() == traffic.scribe.ledger.fingerprint() == folded(log) != before
    assert Ledger.from_capture(captured).fingerprint() == before, "the copy is for more than once"


def test_outcomes_after_a_load_teach_the_same():
    """Loaded decisions are pending for good: they can be settled."""
    traffic = Traffic(log := MemoryLog(), seed=8)
    traffic.run(30)
    traffic.save()
    loaded, live = Ledger.load(log.snapshot(), log).router, traffic.scribe.ledger.router
    for decision_id in live.pending:
        for each in (loaded, live):
            each.observe(decision_id, Outcome.completed(reward=0.25))
    assert loaded.fingerprint() == live.fingerprint()
