"""Silence, rewards that replace it, and answers that nobody judged: fold, replay and snapshots agree."""

import pytest
from scribing import Scribe

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.events import AttemptEnded, Censored, EventMismatchError, FeedbackGiven
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import follow
from bot_orch.log.ledger import change_to, fold
from bot_orch.log.stores.memory import MemoryLog
from bot_orch.log.verification import replay


def told(scribe, decision_id, effect, reward=None, elapsed_s=1.0, reason=None, name=""):
    event = FeedbackGiven(f"{name}{decision_id}", decision_id, effect, reward, elapsed_s, reason is None, reason)
    scribe.put(event, decision_id)


def busy(scribe, rounds=60):
    """Completions, timeouts, hang-ups, silence until the horizon; some rewards come after all."""
    waiting = []
    for number in range(rounds):
        decision_id, _ = scribe.decide(Task(f"t{number}"))
        match number % 6:
            case 0:
                told(scribe, decision_id, "noted", elapsed_s=0.1 * number, reason="cancelled")
                waiting.append(decision_id)
            case 1:
                told(scribe, decision_id, "learned", elapsed_s=30.0, reason="timeout")
                waiting.append(decision_id)
            case 2:
                scribe.put(Censored(decision_id, 90.0, "horizon"), decision_id)
                waiting.append(decision_id)
            case 3:
                scribe.put(AttemptEnded(decision_id, "", "a", 1, "completed", 0.7), decision_id)
                if number % 4 == 3:
                    scribe.put(Censored(decision_id, 90.0, "horizon"), decision_id)
            case _:
                told(scribe, decision_id, "learned", (number % 7) / 7)
        if number % 10 == 9:
            told(scribe, waiting.pop(0), "replaced", 0.9, name="late-")
    scribe.log.commit()


@pytest.fixture
def scribe():
    return Scribe(MemoryLog(), Orchestrator(["a", "b", "c"], "ucb1", floor=0.3, seed=3, horizon=None))


def test_folding_and_replaying_give_the_live_state(scribe):
    busy(scribe)
    assert scribe.ledger.router.silent and scribe.ledger.router._state.attempts
    folded = fold(scribe.log)
    assert folded.fingerprint() == scribe.ledger.fingerprint()
    found = replay(scribe.log)
    assert found.ok and found.fingerprint == folded.fingerprint()


def test_a_snapshot_in_between_changes_nothing(scribe):
    busy(scribe, 30)
    scribe.log.save(scribe.ledger.snapshot())
    silent = scribe.ledger.router.silent[0]
    told(scribe, silent, "replaced", 1.0, name="later-")
    answered = next(iter(scribe.ledger.router._state.attempts))
    scribe.put(Censored(answered, 99.0, "horizon"), answered)
    scribe.log.commit()
    with_it, without = fold(scribe.log), fold(scribe.log, use_snapshot=False)
    assert with_it.folded_from > 0 and with_it.fingerprint() == without.fingerprint() == scribe.ledger.fingerprint()


def test_the_late_reward_is_what_the_router_has_learned_in_the_end(scribe):
    decision_id, _ = scribe.decide()
    told(scribe, decision_id, "learned", elapsed_s=30.0, reason="timeout")
    told(scribe, decision_id, "replaced", 0.9, name="late-")
    alone = Orchestrator(["a", "b", "c"], "ucb1", floor=0.3, seed=3, horizon=None)
    alone.observe(alone.decide(Task()).id, Outcome.completed(0.9, elapsed_s=1.0))
    assert scribe.ledger.router.derive(Task()).columns()["estimate"].tolist() == (
        alone.derive(Task()).columns()["estimate"].tolist()
    )


def test_an_answer_without_a_verdict_is_no_silence(scribe):
    for answered in (True, False):
        decision_id, made = scribe.decide()
        if answered:
            scribe.put(AttemptEnded(decision_id, "", made.agent, 1, "completed", 0.7), decision_id)
        scribe.put(Censored(decision_id, 90.0, "horizon"), decision_id)
        silent = scribe.ledger.router._state.parts["completion"]["silent"]
        assert silent.sum() == (0.0 if answered else 1.0)


def test_a_replacement_of_what_was_not_silent_does_not_follow(scribe):
    decision_id, _ = scribe.decide()
    told(scribe, decision_id, "learned", 0.5)
    with pytest.raises(EventMismatchError, match="is not silent"):
        told(scribe, decision_id, "replaced", 0.9, name="late-")


def test_silences_are_forgotten_with_what_was_learned(scribe):
    busy(scribe)
    event = change_to(scribe.ledger.router, Orchestrator(["a", "b", "c"], "linucb", seed=3, horizon=None))
    assert not event.keep_learned
    scribe.put(event, "")
    assert not scribe.ledger.router.silent
    scribe.log.commit()
    assert fold(scribe.log).fingerprint() == scribe.ledger.fingerprint()


def test_a_shadow_that_follows_the_whole_log_learns_what_the_router_learned(scribe):
    """With probabilities as logged it takes every decision: silences and their replacements included."""
    for number in range(40):
        decision_id, _ = scribe.decide(Task(f"t{number}"))
        if number % 4:
            told(scribe, decision_id, "learned", (number % 7) / 7)
            continue
        told(scribe, decision_id, "learned", elapsed_s=30.0, reason="timeout")
        if number % 8:
            told(scribe, decision_id, "replaced", 0.9, name="late-")
    scribe.decide(Task("end"))
    scribe.log.commit()
    rounds = collect(scribe.log)
    assert len(rounds.replaced) == 5 and not rounds.revised and rounds.missing == 1
    shadow = rounds.configured()
    follow(rounds, shadow, c=1.0)
    mine, theirs = shadow._state.parts["policy"], scribe.ledger.router._state.parts["policy"]
    assert all((mine[name] == theirs[name]).all() for name in mine)
