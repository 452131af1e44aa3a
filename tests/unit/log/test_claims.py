"""What an agent states of itself reaches the policy, stays with the decision, and is learned with, however late."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scribing import Scribe

from bot_orch import InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.arrays import Field
from bot_orch.core import pipeline
from bot_orch.core.engine import Details, Engine, Observation
from bot_orch.core.events import DecisionMade, TaskRecord, record_decision, record_task
from bot_orch.core.settings import Settings
from bot_orch.evaluation.export import event_rows, export
from bot_orch.log.events import decode_event, encode_event
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay
from bot_orch.numerics.choice import softmax
from bot_orch.policies import registry
from bot_orch.policies.base import Choice, Policy, no_exploration
from bot_orch.transport import Labels, Samples
from bot_orch.types import COLUMNS


@dataclass(frozen=True, slots=True)
class Credulous(Policy):
    """Prefers who claims most, minus what it earned less than it claimed: it works only if claims come both ways."""

    id: ClassVar[str] = "credulous"

    def schema(self, n_features):
        return {"boast": Field(), "told": Field()}

    def choose(self, state, situation):
        claims = np.zeros_like(situation.penalty) if situation.claims is None else np.nan_to_num(situation.claims)
        value = claims - state["boast"] / np.maximum(state["told"], 1.0)
        return Choice(softmax(3.0 * value, situation.eligible), value, no_exploration(value))

    def update(self, state, feedback):
        if feedback.claims is not None:
            known = feedback.observed & np.isfinite(feedback.claims)
            state["boast"] += np.where(known, feedback.claims - feedback.reward, 0.0)
            state["told"] += known


@pytest.fixture(autouse=True)
def _credulous(monkeypatch):
    monkeypatch.setitem(registry._extra, "credulous", Credulous)


def router(**settings):
    return Orchestrator(["cnn", "rnn", "person"], Credulous(), seed=3, **settings)


def test_the_largest_probability_of_a_profile_is_a_claim_and_a_number_takes_precedence():
    profiles = {"cnn": Labels([0.2, 0.8]), "rnn": Labels([0.7, 0.3])}
    made = router().decide(Task(profiles=profiles, claims={"rnn": 0.4}))
    assert made.claims[:2] == (0.8, 0.4) and math.isnan(made.claims[2])
    assert made.terms.estimate.tolist() == [0.8, 0.4, 0.0]


def test_other_kinds_of_profiles_state_nothing():
    assert router().decide(Task(profiles={"cnn": Samples([0.2, 0.8])})).claims == ()


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"cnn": 1.2}, r"task\.claims\.cnn: is 1\.2; pass a probability in \[0, 1\]"),
        ({"cnn": math.nan}, r"task\.claims\.cnn: is nan"),
        ({"cnn": "0.9"}, r"task\.claims\.cnn: is '0\.9'"),
        ([0.9], r"task\.claims: is \[0\.9\]; pass numbers by agent"),
        ({"gpt": 0.9}, r"task\.claims: names \['gpt'\]; the agents are \['cnn', 'rnn', 'person'\]"),
    ],
)
def test_a_wrong_claim_is_refused_with_its_name_and_leaves_no_trace(claims, message):
    orchestrator = router()
    before = orchestrator.fingerprint()
    with pytest.raises(InvalidInputError, match=message):
        orchestrator.decide(Task(claims=claims))
    assert orchestrator.fingerprint() == before


def test_late_outcomes_are_learned_with_the_claims_of_their_decision():
    orchestrator = router(floor=0.0)
    first = orchestrator.decide(Task(claims={"cnn": 0.9}), ["cnn"])
    orchestrator.decide(Task(claims={"cnn": 0.1}), ["cnn"])
    orchestrator = Orchestrator.from_json(orchestrator.to_json())  # claims survive in the pending decision
    orchestrator.add_agent("later")
    orchestrator.remove_agent("rnn")
    orchestrator.observe(first.id, Outcome.completed(reward=0.25))
    expected = router(floor=0.0)
    expected.observe(expected.decide(Task(claims={"cnn": 0.9}), ["cnn"]).id, Outcome.completed(reward=0.25))
    assert orchestrator._state.parts["policy"]["boast"].tolist() == [0.65, 0.0, 0.0]
    assert expected._state.parts["policy"]["boast"].tolist() == [0.65, 0.0, 0.0]


def test_full_feedback_carries_claims_too():
    orchestrator = router()
    made = orchestrator.decide(Task(claims={"cnn": 0.5, "rnn": 1.0}))
    orchestrator.observe_all(made.id, {"cnn": 0.25, "rnn": 0.5, "person": 1.0})
    assert orchestrator._state.parts["policy"]["boast"].tolist() == [0.25, 0.5, 0.0]


def test_nothing_is_written_of_claims_where_there_are_none():
    made = router().prepare(Task("t", profiles={"cnn": Samples([1.0])}))
    assert "claims" not in made.to_dict()
    event = record_decision(made, TaskRecord("t"))
    assert event.claims == b"" and event.task.claims is None


def scribe_of_claims(rounds=60):
    scribe, rng, open_ = Scribe(MemoryLog(), router()), np.random.default_rng(5), []
    for number in range(rounds):
        stated = {"cnn": float(rng.random())} if number % 3 else {}
        profiles = {"rnn": Labels(rng.dirichlet([1.0, 1.0]))} if number % 2 else {}
        task = Task(f"t{number}", features=(), claims=stated, profiles=profiles)
        made = scribe.ledger.router.prepare(task, decision_id=f"d{number}")
        scribe.put(record_decision(made, record_task(task)), f"d{number}", made)
        open_.append(f"d{number}")
        if len(open_) > 4:
            scribe.feedback(open_.pop(int(rng.integers(4))), float(rng.random()))
    scribe.log.commit()
    return scribe


def test_a_fold_of_the_log_gives_the_state_bit_for_bit():
    scribe = scribe_of_claims()
    found = fold(scribe.log)
    assert found.fingerprint() == scribe.ledger.fingerprint()
    assert Ledger.load(found.snapshot()).fingerprint() == found.fingerprint()
    checked = replay(scribe.log)
    assert checked.ok and checked.derived == 60
    boasts = found.router._state.parts["policy"]["boast"]
    assert boasts[0] != 0.0 and boasts[1] != 0.0 and boasts[2] == 0.0


def test_a_changed_claim_is_found():
    """The control: the claim decides, so a log with another one does not derive."""
    scribe = scribe_of_claims(8)
    changed = MemoryLog()
    for row in scribe.log.read():
        event = row.event()
        if isinstance(event, DecisionMade) and event.id == "d5":
            claims = np.array([0.123, *event.claim_values()[1:]])
            event = dataclasses.replace(event, claims=claims.tobytes())
        changed.append([type(row)(row.seq, row.time_us, row.kind, row.ref, encode_event(event), row.key, row.digest)])
    changed.commit()
    assert [each.decision_id for each in replay(changed).mismatches][:1] == ["d5"]


def test_a_recorded_decision_keeps_claims_in_one_column():
    task = Task("t", claims={"cnn": 0.9})
    made = router().prepare(task)
    event = decode_event(encode_event(record_decision(made, record_task(task))))
    assert tuple(event.columns()) == COLUMNS and event.task.claims is None
    assert event.claim_values()[0] == 0.9 and dict(event.given().claims) == {"cnn": 0.9}
    read = event.decision().claims
    assert read[0] == 0.9 and np.isnan(read[1:]).all()


def test_a_task_that_waits_keeps_its_claims():
    record = record_task(Task("t", claims={"cnn": 0.9}))
    assert dict(record.task().claims) == {"cnn": 0.9}


def test_export_writes_null_where_nobody_claims(tmp_path):
    scribe = scribe_of_claims(4)
    lines = [line for line in event_rows(scribe.log) if line["kind"] == "decision@1"]
    assert lines[1]["claims"][2] is None
    assert export(scribe.log, tmp_path / "log.jsonl", events=True) == scribe.ledger.seq


def test_rows_of_a_batch_learn_with_their_own_claims():
    engine = Engine(Settings(Credulous(), lambda_=0.0, floor=0.0))
    parts = engine.start(2, (2,))
    claims = np.array([[0.9, np.nan], [0.3, 0.6]])
    observed = Observation(1, np.zeros((2, 2)), claims=claims, eligible=np.array([[True, False]] * 2))
    drawn = engine.prepare(parts, observed, np.zeros(2)).drawn
    feedback = pipeline.bandit_feedback(drawn, np.array([np.nan, 0.1]))  # one reward is missing: row by row
    engine.learn(parts, ("a", "b"), feedback, learned=Details())
    np.testing.assert_allclose(parts["policy"]["boast"], [[0.0, 0.0], [0.2, 0.0]])
