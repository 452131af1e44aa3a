"""State is a fold over the log; replay finds what does not follow."""

import dataclasses
import json
import sqlite3

import msgspec
import numpy as np
import pytest

from bot_orch import Agent, Alignment, Labels, Orchestrator, Outcome, Reference, Task
from bot_orch.core.events import (
    AttemptEnded,
    Censored,
    Controlled,
    EventMismatchError,
    FeedbackGiven,
    TaskEnded,
    TaskRecord,
    TaskSubmitted,
    record_decision,
)
from bot_orch.errors import StateFormatError
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.ledger import Ledger, change_to, fold
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay
from bot_orch.transport import ZeroOneLabels


def busy(scribe, rounds=40):
    for number in range(rounds):
        reference = Labels([0.3, 0.7]) if number % 5 == 0 else None
        decision_id, _ = scribe.decide(Task(f"t{number}", reference=reference), ("a", "b") if number % 3 == 0 else None)
        if number % 4:
            scribe.feedback(decision_id, (number % 7) / 7)
    waiting = list(scribe.ledger.pending)
    scribe.put(Censored(waiting[0], 30.0, "horizon"), waiting[0])
    scribe.put(Controlled("a", "ops"), "")
    scribe.put(TaskSubmitted("task", TaskRecord("t"), "hello"), "task")
    scribe.put(TaskSubmitted("task-2", TaskRecord("t"), "hello"), "task-2")
    scribe.put(TaskEnded("task", "completed"), "task")
    scribe.put(AttemptEnded(waiting[1], "task", "a", 1, "completed", 0.2, cost_usd=0.01), waiting[1])
    scribe.log.commit()


def test_folding_gives_the_live_state_bit_for_bit(scribe):
    busy(scribe)
    folded = fold(scribe.log)
    assert folded.fingerprint() == scribe.ledger.fingerprint()
    assert list(folded.tasks) == ["task-2"] and folded.kill_switch == "a"
    found = replay(scribe.log)
    assert found.ok and found.decisions == 40 and found.fingerprint == folded.fingerprint()


def test_a_snapshot_saves_time_and_changes_nothing(scribe):
    busy(scribe)
    scribe.log.save(scribe.ledger.snapshot())
    for _ in range(5):
        scribe.decide()
    scribe.log.commit()
    assert fold(scribe.log).fingerprint() == fold(scribe.log, use_snapshot=False).fingerprint()
    assert fold(scribe.log).fingerprint() == scribe.ledger.fingerprint()
    assert fold(scribe.log, upto=7).seq == 7


def test_early_feedback_waits_for_its_decision(scribe):
    made = scribe.ledger.router.prepare(Task(), decision_id="later")
    early = FeedbackGiven("f", "later", "early", reward=1.0)
    scribe.put(early, "later")
    assert list(scribe.ledger.router.early) == ["later"]
    again = Ledger.load(scribe.ledger.snapshot())
    assert again.router._state.early == {"later": [early]}
    scribe.put(record_decision(made, TaskRecord()), "later", made)
    assert not scribe.ledger.router.early and not scribe.ledger.pending


def test_a_changed_decision_is_found(scribe):
    busy(scribe)
    rows = list(scribe.log.read())
    victim = next(i for i, each in enumerate(rows) if each.kind == "decision@1" and i > 20)
    event = rows[victim].event()
    other = next(name for name in event.agents if name != event.agent)
    rows[victim] = rows[victim]._replace(body=encode_event(dataclasses.replace(event, agent=other)))

    class Changed(MemoryLog):
        snapshot = staticmethod(lambda: None)
        last = staticmethod(scribe.log.last)
        read = staticmethod(lambda after=0: iter(rows[after:]))

    found = replay(Changed())
    assert not found.ok and found.mismatches[0].decision_id == event.id and found.mismatches[0].what == "agent"
    with pytest.raises(EventMismatchError, match="its probabilities and random key draw .*; the log was changed"):
        fold(Changed())


def test_gaps_are_found(scribe):
    busy(scribe)
    rows = list(scribe.log.read())
    ledger = Ledger()
    ledger.take(rows[0])
    with pytest.raises(EventMismatchError, match="does not follow"):
        ledger.take(rows[2])


def test_unknown_events_are_refused():
    with pytest.raises(StateFormatError, match="newer release"):
        decode_event(msgspec.msgpack.encode({"type": "decision@9"}))


def test_settings_change_without_forgetting(scribe):
    busy(scribe)
    router = scribe.ledger.router
    assert change_to(router, Orchestrator(["a", "b", "c"], "bot", floor=0.05, seed=3)) is None
    wanted = Orchestrator([Agent("a", 0.1), "b", "d"], "bot", floor=0.1, lambda_=2.0, seed=3)
    event = change_to(router, wanted)
    assert event.keep_learned
    before = json.loads(router.to_json())["state"]
    scribe.put(event, "")
    after = json.loads(scribe.ledger.router.to_json())["state"]
    assert scribe.ledger.router.agents == ("a", "b", "d") and scribe.ledger.router.lambda_ == 2.0
    assert after["rounds"] == before["rounds"] and len(after["pending"]) == len(before["pending"])
    scribe.decide()
    scribe.log.commit()
    assert fold(scribe.log).fingerprint() == scribe.ledger.fingerprint() and replay(scribe.log).ok


def test_another_policy_starts_learning_anew(scribe):
    busy(scribe)
    event = change_to(scribe.ledger.router, Orchestrator(["a", "b", "c"], "ucb1", seed=3))
    assert not event.keep_learned
    scribe.put(event, "")
    decision_id, _ = scribe.decide()
    scribe.feedback(decision_id, 0.5)
    waiting = next(iter(scribe.ledger.pending))
    scribe.feedback(waiting, 1.0)
    scribe.log.commit()
    assert replay(scribe.log).fingerprint == scribe.ledger.fingerprint()


def test_the_file_can_be_read_while_it_is_written(scribe, tmp_path):
    busy(scribe, 5)
    if (path := getattr(scribe.log, "path", None)) is not None:
        other = sqlite3.connect(path)
        assert other.execute("SELECT COUNT(*) FROM events").fetchone()[0] == scribe.ledger.seq
        other.close()


@pytest.mark.parametrize("wanted", ["auto", 2.0])
def test_lambda_may_start_to_calibrate_itself_and_stop_again(wanted):
    def outcome(router):
        decision = router.decide(Task("t", reference=Labels([0.3, 0.7])))
        router.observe(decision.id, Outcome.completed(1.0, output=Labels([0.5, 0.5])))

    router = Orchestrator(["a", "b"], "bot", lambda_=1.0 if wanted == "auto" else "auto", seed=1)
    for _ in range(6):
        outcome(router)
    event = change_to(router, Orchestrator(["a", "b"], "bot", lambda_=wanted, seed=1))
    assert event is not None and event.keep_learned
    before = Orchestrator.from_json(router.to_json())
    changed = router
    changed.apply(event)
    assert changed.lambda_ == wanted and changed.alignment.units == "reference", "lambda means the same either way"
    for part in ("policy", "gaps"):
        for name, array in before._state.parts[part].items():
            assert np.array_equal(changed._state.parts[part][name], array)
    assert before._state.parts["gaps"]["count"].sum() == 6
    outcome(changed)
    assert change_to(changed, Orchestrator(["a", "b"], "bot", lambda_=wanted, seed=1)) is None


def test_the_same_fixed_reference_and_profiles_are_no_change():
    """Measures are equal by what they hold: a service that starts again with the same file forgets nothing."""

    def made(worth):
        agents = [Agent("a", profile=Labels([0.5, 0.5])), Agent("b")]
        alignment = Alignment(ZeroOneLabels(2), reference=Reference("fixed", measure=Labels(worth)))
        return Orchestrator(agents, "ucb1", lambda_=1.0, alignment=alignment)

    assert change_to(made([0.2, 0.8]), made([0.2, 0.8])) is None
    other = change_to(made([0.2, 0.8]), made([0.3, 0.7]))
    assert other is not None and not other.keep_learned
