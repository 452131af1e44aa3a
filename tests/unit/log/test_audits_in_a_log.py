"""Audits in a log: folded, replayed, evaluated and exported."""

import dataclasses

import pytest
from scribing import Scribe

from bot_orch import Orchestrator
from bot_orch.core.events import DecisionMade, EventMismatchError, FeedbackGiven
from bot_orch.evaluation.export import decision_rows
from bot_orch.evaluation.rounds import collect
from bot_orch.log.events import encode_event
from bot_orch.log.ledger import Ledger, fold
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay


def audited(rounds=30, rate=0.5):
    """Judge and truth in turn first; every third audit is still to come."""
    scribe, marked = Scribe(MemoryLog(), Orchestrator(["a", "b"], "ucb1", seed=3, audit_rate=rate)), []
    for number in range(rounds):
        decision_id, made = scribe.decide()
        verdicts = [(0.9, False)] + [(0.2, True)] * (made.audit and number % 3 > 0)
        for effect, (reward, audit) in zip(
            ("learned", "audited"), verdicts if number % 2 else verdicts[::-1], strict=False
        ):
            event = FeedbackGiven(f"{decision_id}-{audit}", decision_id, effect, reward=reward, audit=audit)
            scribe.put(event, decision_id)
        if len(verdicts) > 1:
            marked.append(decision_id)
    scribe.log.commit()
    return scribe, marked


def test_fold_and_replay_give_the_live_state():
    scribe, marked = audited()
    assert marked and scribe.ledger.router.verdicts, "some wait for their second verdict"
    folded = fold(scribe.log)
    assert folded.fingerprint() == scribe.ledger.fingerprint()
    assert folded.router.verdicts == scribe.ledger.router.verdicts
    assert replay(scribe.log).ok
    again = Ledger.load(scribe.ledger.snapshot())
    assert again.fingerprint() == scribe.ledger.fingerprint()
    scribe.log.save(scribe.ledger.snapshot())
    scribe.log.commit()
    assert fold(scribe.log).fingerprint() == folded.fingerprint()


def test_a_changed_mark_is_found():
    """The control: a mark that was not drawn, and a bias that was not learned."""
    scribe, _ = audited()
    rows = list(scribe.log.read())
    for index, row in enumerate(rows):
        event = row.event()
        if not isinstance(event, DecisionMade) or event.counter < 20:
            continue
        other = MemoryLog()
        changed = dataclasses.replace(event, audit=not event.audit)
        other.append([*rows[:index], row._replace(body=encode_event(changed))])
        other.commit()
        found = replay(other)
        assert [mismatch.what for mismatch in found.mismatches] == ["audit"]
        return


def test_a_second_verdict_needs_a_first():
    scribe, _ = audited(3)
    decision_id, _ = scribe.decide()
    with pytest.raises(EventMismatchError, match="waits for no second verdict"):
        scribe.put(FeedbackGiven("x", decision_id, "audited", reward=0.1, audit=True), decision_id)


def test_the_truth_scores_a_decision_whichever_came_first():
    scribe, marked = audited()
    rounds, lines = collect(scribe.log), {line["decision_id"]: line for line in decision_rows(scribe.log)}
    assert {rounds.rewards[key] for key in marked} == {lines[key]["reward"] for key in marked} == {0.2}
    rest = rounds.rewards.keys() - set(marked)
    assert {rounds.rewards[key] for key in rest} == {0.9} and rounds.revised == frozenset(marked)
    assert {line["audit_probability"] for line in lines.values()} == {0.5}


def test_an_output_alone_is_no_reward():
    scribe = Scribe(MemoryLog(), Orchestrator(["a", "b"], "ucb1"))
    decision_id, _ = scribe.decide()
    output = {"kind": "labels", "probabilities": [1.0, 0.0]}
    scribe.put(FeedbackGiven("s", decision_id, "shown", output=output), decision_id)
    assert decision_id in scribe.ledger.pending and scribe.ledger.router.shown
    scribe.feedback(decision_id, 0.7)
    scribe.log.commit()
    (line,) = decision_rows(scribe.log)
    assert (line["reward"], line["feedbacks"]) == (0.7, 1) and collect(scribe.log).rewards == {decision_id: 0.7}
    assert fold(scribe.log).fingerprint() == scribe.ledger.fingerprint() and not scribe.ledger.router.shown
