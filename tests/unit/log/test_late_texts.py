"""Texts that come after tasks without one: from the first text on they count, and nothing learned before is lost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot_orch import Agent, Budget, InvalidInputError, Objective, Orchestrator, Outcome, Router, Task
from bot_orch.evaluation.rounds import collect
from bot_orch.evaluation.shadow import follow, shadow
from bot_orch.log.evaluations import outcomes_in
from bot_orch.log.ledger import fold
from bot_orch.log.stores.open import open_log
from bot_orch.log.verification import replay
from bot_orch.rng import generator

POLICIES = ["auto", "linucb", "lints", "ucb1"]
TEXTS = ("sort this list in python", "a poem about rain", "", "你好世界", None)


def tasks(n, first, features=0, seed=1):
    """``first`` tasks without a text, then texts and none at random; own features with all."""
    rng = generator("late", seed)
    for number in range(n):
        text = None if number < first else TEXTS[int(rng.integers(len(TEXTS)))]
        text = "python" if number == first else text
        yield Task(str(number), text=text, features=tuple(rng.normal(size=features).round(3).tolist()))


def play(router, given, late=7):
    """Decide and observe, every outcome ``late`` rounds after its decision; decisions in order."""
    made = []

    def report(number):
        decision = made[number]
        reward = float(decision.agent == router.agents[number % 3 % 2])
        router.observe(decision.id, Outcome.completed(reward, cost_usd=0.01 * (1 + number % 3), elapsed_s=1.0))

    for number, task in enumerate(given):
        made.append(router.decide(task))
        if number >= late:
            report(number - late)
    for number in range(max(0, len(made) - late), len(made)):
        report(number)
    return made


@pytest.mark.parametrize("features", [0, 2])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_log_gives_the_choices_again(policy, features, tmp_path):
    path = tmp_path / "log.sqlite"
    with Router(["a", "b"], policy, seed=3, path=path) as router:
        made = play(router, tasks(90, 50, features))
        fingerprint = router.fingerprint()
    assert [each.encoder for each in made] == [""] * 50 + ["words@1:64#70"] * 40
    assert {len(each.features) for each in made[50:]} == {70 + features}
    log = open_log(path)
    checked = replay(log)
    assert checked.ok and checked.derived == 90 and checked.fingerprint == fold(log).fingerprint()
    assert fold(log, use_snapshot=False).router.fingerprint() == fingerprint
    log.close()
    in_memory = Orchestrator(["a", "b"], policy, seed=3)
    assert [each.agent for each in play(in_memory, tasks(90, 50, features))] == [each.agent for each in made]
    with Router(["a", "b"], policy, seed=3, path=path) as again:
        assert again.fingerprint() == fingerprint and again.decide(next(tasks(1, 0, features))).encoder


@settings(max_examples=15)
@given(st.integers(0, 30), st.integers(0, 20), st.sampled_from(POLICIES), st.integers(0, 9))
def test_a_saved_router_goes_on_alike(first, cut, policy, seed):
    router = Orchestrator(["a", "b"], policy, seed=seed)
    given_ = list(tasks(40, first, 1, seed))
    play(router, given_[:cut])
    again = Orchestrator.from_json(router.to_json())
    one, two = play(router, given_[cut:]), play(again, given_[cut:])
    assert [each.agent for each in one] == [each.agent for each in two]
    assert router.fingerprint() == again.fingerprint()


def test_a_text_changes_nothing_for_a_policy_without_context():
    router, plain = Orchestrator(["a", "b"], "ucb1", seed=3), Orchestrator(["a", "b"], "ucb1", seed=3, encoder=None)
    given_ = list(tasks(90, 50))
    one, two = play(router, given_), play(plain, given_)
    assert [each.agent for each in one] == [each.agent for each in two]
    for name, array in router._state.parts["policy"].items():
        assert np.array_equal(array, plain._state.parts["policy"][name])


@pytest.mark.parametrize("policy", ["auto", "linucb", "lints"])
def test_late_outcomes_of_earlier_decisions_are_learned_as_if_texts_had_been_empty(policy):
    router = Orchestrator(["a", "b"], policy, seed=3, n_features=1)
    waiting = router.decide(Task("1", features=(0.5,)))
    router.decide(Task("2", text="python", features=(0.1,)))
    router.observe(waiting.id, Outcome.completed(1.0))
    learned = router._state.parts["policy"]
    assert learned["context_seen"] == 1 and learned["context_rows"][0].tolist() == [0.5]
    assert not learned["context_codes"][0].any() and not learned["context_documents"].any()


def test_control_a_late_outcome_that_is_not_learned_is_noticed(monkeypatch):
    def as_it_was(decision, settings):
        return decision.features if len(decision.features) == settings.context_width else None

    monkeypatch.setattr("bot_orch.core.outcome_learning.numbers_of", as_it_was)
    with pytest.raises(AssertionError):
        test_late_outcomes_of_earlier_decisions_are_learned_as_if_texts_had_been_empty("linucb")


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_learned_before_the_first_text_is_kept(policy):
    router = Orchestrator(["bad", "good"], policy, seed=1)
    for number in range(200):
        made = router.decide(Task(str(number)))
        router.observe(made.id, Outcome.completed(float(made.agent == "good")))
    found = [router.derive(Task(text=text)).propensities[1] for text in ("one", "two words", "")]
    assert min(found) > 0.75


def test_dollars_learned_before_the_first_text_are_kept():
    router = Orchestrator(
        ["cheap", Agent("dear", price=0.5)], seed=1, objective=Objective(usd=1.0), constraints=[Budget(0.3)]
    )
    for number in range(40):
        made = router.decide(Task(str(number)))
        router.observe(made.id, Outcome.completed(0.5, cost_usd=0.4 if made.agent == "dear" else 0.1))
    before = router.expected_usage()
    pending = router.decide(Task("waits"))
    router.observe(router.decide(Task(text="hello there")).id, Outcome.completed(0.5, cost_usd=0.1))
    after = router.expected_usage()
    assert all(after[name]["usd"] == pytest.approx(before[name]["usd"], rel=0.1) for name in before)
    cost = router.derive(Task(text="hello there")).terms.cost - router.derive(Task()).terms.cost
    assert np.abs(cost).max() < 0.1
    router.observe_usage(pending.id, cost_usd=0.2)
    router.observe(pending.id, Outcome.completed(1.0))


def test_a_log_with_late_texts_is_evaluated_and_taught(tmp_path):
    path = tmp_path / "log.sqlite"
    with Router(["a", "b"], "linucb", seed=3, path=path) as router:
        play(router, tasks(120, 50, 1))
    log = open_log(path)
    rounds = collect(log)
    keep, logged = rounds.scored()
    assert len(keep) == 120 and logged.features.shape == (120, 71) and np.abs(logged.features[:, 7:]).max() <= 1.0
    follower = shadow(rounds, "lints")
    assert follow(rounds, follower).learned > 0 and follower.settings.words == 64
    records = outcomes_in(log)
    log.close()
    assert {len(each["features"]) for each in records} == {71} and len({each["encoder"] for each in records}) == 1
    for first in (None, Task(features=(0.5,)), Task(text="hello", features=(0.5,))):
        pupil = Orchestrator(["a", "b"], "linucb", seed=1)
        if first is not None:
            pupil.decide(first)
        assert pupil.learn_from(records) == 120
        assert pupil.decide(Task(text="sort", features=(0.1,))).encoder == "words@1:64#70"


def test_silence_and_provisional_rewards_of_earlier_decisions_can_be_replaced():
    for policy in POLICIES:
        router = Orchestrator(["a", "b"], policy, seed=1)
        silent, provisional = router.decide(Task("1")), router.decide(Task("2"))
        router.observe(silent.id, Outcome.censored(elapsed_s=3.0, reason="timeout"))
        router.observe(provisional.id, Outcome.completed(0.2), provisional=True)
        router.decide(Task("3", text="hello"))
        router.observe(silent.id, Outcome.completed(1.0))
        router.observe(provisional.id, Outcome.completed(0.9))
        assert router.decide(Task("4", text="hello")).encoder


def test_numbers_of_an_unknown_encoder_are_dense_and_new_texts_are_refused():
    old = Task("1", features=(0.25,) * 70, encoded="hashing@1:64#70")
    router = Orchestrator(["a", "b"], "linucb", seed=1)
    made = router.decide(old)
    router.observe(made.id, Outcome.completed(1.0))
    assert router.settings.words == 0 and str(router.settings.text) == "hashing@1:64#70"
    learned, chosen = router._state.parts["policy"], router.agents.index(made.agent)
    assert learned["context_rows"][0].tolist() == [0.25] * 70 and "context_codes" not in learned
    assert learned["response"][chosen].tolist() == [1.0] + [0.0] * 10, "nothing is known of the numbers yet"
    again = Orchestrator.from_json(router.to_json())
    with pytest.raises(
        InvalidInputError, match=r"encoder: is 'words@1:64', this orchestrator learned with 'hashing@1:64'"
    ):
        again.decide(Task(text="hello"))
    assert again.decide(Task()).features == (0.0,) * 70


def test_a_log_of_an_earlier_encoder_is_replayed_and_goes_on_with_this_one(tmp_path):
    path, rng = tmp_path / "log.sqlite", generator("earlier", 1)
    with Router(["a", "b"], "linucb", seed=3, path=path) as router:
        for number in range(30):
            numbers = tuple(rng.normal(size=70).astype(np.float32).tolist())
            made = router.decide(Task(str(number), features=numbers, encoded="hashing@1:64#70"))
            router.observe(made.id, Outcome.completed(float(rng.random() < 0.5)))
        waiting = router.decide(Task("waits", features=(0.5,) * 70, encoded="hashing@1:64#70"))
        fingerprint = router.fingerprint()
    log = open_log(path)
    assert replay(log).ok and fold(log, use_snapshot=False).router.fingerprint() == fingerprint
    log.close()
    with Router(["a", "b"], "linucb", seed=3, path=path) as again:
        assert again.decide(Task(text="hello")).encoder == "words@1:64#70", "regressions start again"
        again.observe(waiting.id, Outcome.completed(1.0))
    log = open_log(path)
    assert replay(log).ok
    log.close()


def test_the_first_text_with_the_first_task_leaves_dollars_as_in_a_new_router():
    one, two = (Orchestrator(["a", "b"], seed=1, n_features=n, objective=Objective(usd=1.0)) for n in (None, 0))
    made = one.decide(Task(text="x"))
    two.decide(Task())
    two.decide(Task(text="x"))
    assert made.encoder
    for name, array in one._state.parts["prices"].items():
        assert np.array_equal(array, two._state.parts["prices"][name]), name
