"""Drift alarms that start an agent afresh, and outputs that are known before their rewards."""

from dataclasses import replace

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.core.settings import Settings
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator
from bot_orch.transport import Samples, Scalars

WORTH = {"best": 0.8, "good": 0.5, "fair": 0.3}
CHANGE, LATE = 300, 200


REFERENCE = Reference("fixed", measure=Samples(np.linspace(-2.0, 2.0, 41)))


def aligned(watch=None):
    return Alignment(Scalars(), reference=REFERENCE, watch=watch)


def replaced(on_alarm, policy="auto", seed=0, rounds=CHANGE + 300):
    """The best agent is silently replaced; outputs are known at once, rewards ``LATE`` rounds later."""
    alignment = aligned(Watch(24, 72, 0.005) if on_alarm == "restart" else Watch())
    router = Orchestrator(WORTH, policy, lambda_=0.0, seed=seed, alignment=alignment, on_alarm=on_alarm)
    rng, due, chosen = generator("replaced", seed), {}, []
    for t in range(rounds):
        decision = router.decide(Task())
        new = decision.agent == "best" and t >= CHANGE
        router.observe_output(decision.id, Samples([rng.normal(2.0 if new else 0.0)]))
        earned = float(rng.random() < (0.1 if new else WORTH[decision.agent]))
        due.setdefault(t + LATE, []).append((decision.id, earned))
        for decision_id, reward in due.pop(t, ()):
            router.observe(decision_id, Outcome.completed(reward))
        chosen.append(decision.agent == "best")
    return np.array(chosen), router


def reaction(chosen):
    """Rounds after the change until the replaced agent has less than half of 20 rounds."""
    after = np.convolve(chosen[CHANGE:], np.ones(20) / 20, "valid") < 0.5
    return int(np.argmax(after)) if after.any() else len(chosen) - CHANGE


def test_an_alarm_leaves_a_replaced_agent_long_before_its_rewards_tell():
    fast = [replaced("restart", seed=seed) for seed in (0, 3)]
    slow = [replaced("count", seed=seed, rounds=CHANGE + 200) for seed in (0, 3)]
    assert np.mean([reaction(chosen) for chosen, _ in fast]) < 60
    assert np.mean([reaction(chosen) for chosen, _ in slow]) > 150, "the control without restarts reacts as fast"
    assert all(router.restarts()["best"] >= 1 for _, router in fast)
    assert all(router.restarts() == dict.fromkeys(WORTH, 0) for _, router in slow)
    assert all(router.drift_alarms()["best"] >= 1 for _, router in slow), "the alarm itself rings in both"


def ringing(**settings):
    """A router whose agent ``a`` has just been started afresh, with five decisions of it still pending."""
    router = Orchestrator(["a", "b"], "ucb1", lambda_=0.0, alignment=aligned(Watch(4, 12, 0.005)), **settings)
    rng, pending = generator("ringing"), []
    for t in range(200):
        decision = router.decide(Task(), eligible=["a"] if t >= 2 else None)
        if decision.agent == "a" and len(pending) < 5:
            pending.append(decision.id)
            continue
        value = rng.normal(0.0 if t < 60 else 50.0)
        router.observe(decision.id, Outcome.completed(0.9, output=Samples([value])))
        if t >= 60 and sum(router.drift_alarms().values()):
            return router, pending
    raise AssertionError("no alarm")


def test_afresh_is_as_if_removed_and_added():
    router, _ = ringing(on_alarm="restart")
    known, _ = ringing()
    state, index = router._state.parts["policy"], router.agents.index("a")
    new = make_policy("ucb1").schema(0)
    assert all(np.array_equal(state[name][index], field.block(())) for name, field in new.items())
    assert not all(np.array_equal(known._state.parts["policy"][n][index], f.block(())) for n, f in new.items())
    other = router.agents.index("b")
    assert all(np.array_equal(state[n][other], known._state.parts["policy"][n][other]) for n in new)


def test_late_rewards_of_the_agent_as_it_was_are_not_learned():
    router, pending = ringing(on_alarm="restart")
    before = router.derive(Task()).terms.estimate
    for decision_id in pending[:4]:
        router.observe(decision_id, Outcome.completed(1.0))
    assert np.array_equal(router.derive(Task()).terms.estimate, before)
    decision = router.decide(Task(), eligible=["a"])
    router.observe(decision.id, Outcome.completed(0.25))
    assert router.derive(Task()).terms.estimate[0] == 0.25
    assert router._waiting.tolist() == Orchestrator.from_json(router.to_json())._waiting.tolist() == [0.0, 0.0]


def test_a_copy_restarts_alike():
    """The state before the alarm, restored, comes to the same state after it."""
    router = Orchestrator(["a", "b"], "auto", alignment=aligned(Watch(4, 12, 0.005)), on_alarm="restart", seed=2)
    copies = [router]
    for t in range(60):
        decisions = [each.decide(Task()) for each in copies]
        value = Samples([float(t % 3) + (30.0 if t >= 30 else 0.0)])
        for each, decision in zip(copies, decisions, strict=True):
            each.observe_output(decision.id, value)
            if t % 2:
                each.observe(decision.id, Outcome.completed(0.5, output=value))
        if t == 25:
            copies.append(Orchestrator.from_json(router.to_json()))
    assert sum(router.restarts().values()) >= 1
    assert copies[0].fingerprint() == copies[1].fingerprint()


def test_an_output_counts_once():
    shown, plain = (Orchestrator(["a", "b"], "ucb1", alignment=aligned(Watch())) for _ in range(2))
    for _ in range(10):
        for router in (shown, plain):
            decision = router.decide(Task())
            if router is shown:
                router.observe_output(decision.id, Samples([1.0]))
                assert decision.id in router.shown
            router.observe(decision.id, Outcome.completed(0.5, output=Samples([1.0])))
    assert not shown.shown
    seen = [router._state.parts["bank"]["seen"].tolist() for router in (shown, plain)]
    assert seen[0] == seen[1] and sum(seen[0]) == 10


def test_accepted_outputs_are_known_by_their_rewards():
    """An output shown before its reward joins the reference once the reward has come with it."""
    alignment = Alignment(Scalars(), reference=Reference("accepted"))
    router = Orchestrator(["a"], "ucb1", lambda_=1.0, alignment=alignment)
    decision = router.decide(Task())
    router.observe_output(decision.id, Samples([1.0]))
    assert router._state.parts["pool"]["seen"].tolist() == [0]
    router.observe(decision.id, Outcome.completed(0.9, output=Samples([1.0])))
    assert router._state.parts["pool"]["seen"].tolist() == [1] == router._state.parts["bank"]["seen"].tolist()


def test_mistakes_name_the_field():
    router = Orchestrator(["a"], on_alarm="restart")
    decision = router.decide(Task())
    router.observe_output(decision.id, Samples([1.0]))
    with pytest.raises(InvalidInputError, match="output: is known already"):
        router.observe_output(decision.id, Samples([1.0]))
    with pytest.raises(InvalidInputError, match="on_alarm: is 'panic'; pass 'count' or 'restart'"):
        Orchestrator(["a"], on_alarm="panic")


def test_a_restart_needs_a_drift_test_and_brings_one():
    chosen = Settings(make_policy("ucb1"), alignment=aligned(), on_alarm="restart")
    again = Settings.from_spec(chosen.spec())
    assert chosen.alignment.watch == again.alignment.watch == Watch() and again.on_alarm == "restart"
    router = Orchestrator(["a"], on_alarm="restart")
    router.observe(router.decide(Task()).id, Outcome.completed(0.5, output=Samples([1.0])))
    assert router.alignment.watch == Watch()
    old = {key: value for key, value in chosen.spec().items() if key not in ("on_alarm", "audit_rate")}
    assert Settings.from_spec(old).on_alarm == "count"


def test_restarts_can_be_switched_on_without_forgetting():
    settings = Settings(make_policy("ucb1"), alignment=aligned())
    router = Orchestrator.from_settings(settings, [Agent("a"), Agent("b")])
    for _ in range(10):
        router.observe(router.decide(Task()).id, Outcome.completed(0.5, output=Samples([1.0])))
    before = router.derive(Task()).terms.estimate
    for watch in (None, Watch(), Watch(8, 16)):
        changed = replace(settings, alignment=aligned(watch), on_alarm="restart")
        assert changed.learned_under() == settings.learned_under()
        router.reconfigure(changed, router.members)
        assert np.array_equal(router.derive(Task()).terms.estimate, before)
        router.observe(router.decide(Task()).id, Outcome.completed(0.5, output=Samples([1.0])))
    assert router._state.parts["drift"]["ring"].shape[1] == 24
