"""A snapshot is the state in one piece: loading it gives the fold, and one that is damaged is passed over."""

import logging
import zlib

import msgspec
import numpy as np
import pytest
from scribing import Scribe

from bot_orch import Agent, Labels, Objective, Orchestrator, Task
from bot_orch.core.events import (
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
from bot_orch.core.state import decision_from_dict
from bot_orch.log.ledger import Ledger, change_to, encoded, fingerprint, fold
from bot_orch.log.log import Snapshot
from bot_orch.log.stores.memory import MemoryLog
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
        made = ledger.router.prepare(task, decision_id=f"d{n:06}")
        event = record_decision(
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
            case 2 if chosen not in ledger.router.shown:
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
        snapshot = (ledger or self.scribe.ledger).snapshot()
        self.scribe.log.save(snapshot)
        return snapshot


def folded(log, **more):
    return fold(log, use_snapshot=False, **more).fingerprint()


def test_loading_a_snapshot_and_the_tail_gives_the_fold(log):
    """The property, over a history with every kind of entry, through several snapshots and a restart."""
    traffic = Traffic(log, seed=1)
    for steps in (60, 1, 40, 90, 3):
        traffic.run(steps)
        traffic.save()
        loaded = Ledger.load(log.snapshot())
        assert loaded.fingerprint() == traffic.scribe.ledger.fingerprint()
        assert loaded.folded_from == loaded.seq == log.snapshot().seq
        traffic.run(int(traffic.rng.integers(1, 9)))
        again = fold(log)
        assert again.folded_from < again.seq and again.fingerprint() == traffic.scribe.ledger.fingerprint()
        if steps == 40:  # a restart
            traffic.scribe.ledger = again
    held = traffic.scribe.ledger
    assert folded(log) == held.fingerprint() and held.reserved and held.sessions and held.tasks
    state = held.router._state
    assert (
        state.attempts
        and state.early
        and state.used
        and state.shown
        and state.verdicts
        and state.silences
        and state.provisional
    )


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_loaded_as_it_is_folded(seed):
    traffic = Traffic(MemoryLog(), seed, policy="linucb" if seed % 2 else "bot")
    for _ in range(12):
        traffic.run(int(traffic.rng.integers(1, 25)))
        traffic.save()
        assert Ledger.load(traffic.scribe.log.snapshot()).fingerprint() == folded(traffic.scribe.log)


@pytest.mark.parametrize("entry", ["pending", "early", "attempts", "provisional", "silences"])
def test_a_snapshot_that_lacks_something_is_caught(entry):
    """The control of the properties above."""
    traffic = Traffic(log := MemoryLog(), seed=0)
    traffic.run(180)
    captured = traffic.scribe.ledger.capture()
    (captured if entry == "pending" else {entry: getattr(captured["router"][1], entry)})[entry].popitem()
    assert Ledger.load(Snapshot(captured["seq"], encoded(captured))).fingerprint() != folded(log)


def _bodies(ledger):
    body = ledger.snapshot().body
    yield from (b"", b"\x80", body[:-9], body[:40] + b"damaged" + body[47:])
    yield zlib.compress(msgspec.msgpack.encode({"format": "bot-orch-ledger@1"}))


def test_a_damaged_snapshot_is_passed_over_and_the_log_is_folded(log, caplog):
    traffic = Traffic(log, seed=3, policy="bot")
    traffic.run(60)
    for body in _bodies(traffic.scribe.ledger):
        caplog.clear()
        log.save(Snapshot(log.last()[0], body))
        with caplog.at_level(logging.WARNING, "bot_orch.log"):
            found = fold(log)
        assert found.folded_from == 0 and found.fingerprint() == folded(log) and "passed over" in caplog.text


def test_a_snapshot_of_another_log_is_passed_over(log, caplog):
    """Such as the file beside a log that was deleted and begun anew, or one restored from an older backup."""
    traffic, other = Traffic(log, seed=3, policy="bot"), Traffic(MemoryLog(), seed=4, policy="bot")
    other.scribe.clock.advance(1.0)
    traffic.run(10)
    for steps in (5, 40):  # within this log, and beyond its end
        other.run(steps)
        log.save(other.scribe.ledger.snapshot())
        with caplog.at_level(logging.WARNING, "bot_orch.log"):
            assert fold(log).fingerprint() == folded(log)
        assert "is not of this log" in str(caplog.records[-1].fields)


def test_the_file_beside_a_log_is_private(tmp_path):
    traffic = Traffic(SqliteLog(tmp_path / "log"), seed=3, policy="bot")
    traffic.run(3)
    traffic.save()
    traffic.scribe.log.close()
    assert (tmp_path / "log.snapshot").stat().st_mode & 0o077 == 0


def test_a_snapshot_before_an_event_helps_to_fold_up_to_it():
    traffic = Traffic(log := MemoryLog(), seed=4, policy="bot")
    traffic.run(30)
    first = traffic.save()
    traffic.run(30)
    found = fold(log, upto=first.seq + 5)
    assert found.folded_from == first.seq and found.fingerprint() == folded(log, upto=first.seq + 5)


def test_a_snapshot_behind_an_event_does_not():
    traffic = Traffic(log := MemoryLog(), seed=4, policy="bot")
    traffic.run(30)
    seq = traffic.save().seq
    assert fold(log, upto=seq - 5).seq == seq - 5


def test_a_decision_is_the_same_in_a_snapshot():
    made = router().prepare(Task("t", features=(0.1, -0.2, 3.0), claims={"b": 0.25}))
    again = decision_from_dict(msgspec.msgpack.decode(msgspec.msgpack.encode(made.to_dict())))
    assert again.to_dict() == made.to_dict() and again.terms.bias is not None and made.claims
    for name, column in made.columns().items():
        assert again.columns()[name].tobytes() == column.tobytes()
        assert again.columns()[name].flags.writeable


def test_a_captured_state_does_not_change():
    traffic = Traffic(log := MemoryLog(), seed=9)
    traffic.run(80)
    captured, before = traffic.scribe.ledger.capture(), traffic.scribe.ledger.fingerprint()
    traffic.run(40)
    assert fingerprint(captured) == before != traffic.scribe.ledger.fingerprint() == folded(log)


def test_outcomes_after_a_load_teach_the_same():
    """Loaded decisions are pending for good: they can be settled."""
    traffic = Traffic(log := MemoryLog(), seed=8)
    traffic.run(30)
    traffic.save()
    loaded, live = Ledger.load(log.snapshot()).router, traffic.scribe.ledger.router
    for decision_id in live.pending:
        for each in (loaded, live):
            each.observe(decision_id, Outcome.completed(reward=0.25))
    assert loaded.fingerprint() == live.fingerprint()
