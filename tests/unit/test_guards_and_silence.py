"""Audits, shown outputs and restarts of decisions that were silent before."""

import numpy as np
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Samples, Task
from bot_orch.core.alignment import Alignment, Reference, Watch
from bot_orch.rng import generator
from bot_orch.transport import Scalars

GONE = Outcome.censored(elapsed_s=5.0, reason="timeout")


def copied(router):
    return Orchestrator.from_json(router.to_json())


def compared():
    reference = Reference("fixed", measure=Samples(np.linspace(-2.0, 2.0, 41)))
    return Alignment(Scalars(), reference=reference, watch=Watch(4, 12, 0.005))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("first", ["judge", "truth"])
def test_both_verdicts_may_follow_a_silence(first, saved):
    router = Orchestrator(["a", "b"], "ucb1", lambda_=0.0, audit_rate=1.0)
    decision = router.decide(Task())
    router.observe(decision.id, GONE)
    assert router.silent == (decision.id,)
    for audit in (False, True) if first == "judge" else (True, False):
        router = copied(router) if saved else router
        router.observe(decision.id, Outcome.completed(0.2 if audit else 0.9), audit=audit)
    index, part = router.agents.index(decision.agent), router._state.parts["audits"]
    assert part["gap"][index] == pytest.approx(0.7) and not router.verdicts and not router.silent
    assert part["rewards"][index] == 1.0, "the reward took the place of the zero"
    assert part["truths"][index] == (first == "truth")
    learned = 0.9 if first == "judge" else 0.2
    assert router.derive(Task()).terms.estimate[index] == pytest.approx(learned)


def test_the_truth_about_a_silent_decision_that_is_not_audited_is_refused():
    router = Orchestrator(["a"], "ucb1")
    decision = router.decide(Task())
    router.observe(decision.id, GONE)
    before = router.fingerprint()
    with pytest.raises(InvalidInputError, match="audit: is True, and decision .* is not marked"):
        router.observe(decision.id, Outcome.completed(0.5), audit=True)
    assert router.fingerprint() == before


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("ending", ["expired", "timeout", "time"])
def test_an_output_known_before_a_silence_counts_once(ending, saved):
    router, output = Orchestrator(["a"], "ucb1", alignment=compared()), Samples([1.0])
    decision = router.decide(Task())
    if ending == "time":  # an answer whose reward is not known yet
        router.observe(decision.id, Outcome.completed(elapsed_s=1.0, output=output))
    else:
        router.observe_output(decision.id, output)
        _ = router.expire([decision.id]) if ending == "expired" else router.observe(decision.id, GONE)
    router = copied(router) if saved else router
    assert router.is_silent(decision.id) and not router.shown
    router.observe(decision.id, Outcome.completed(0.5, output=output))
    assert router._state.parts["bank"]["seen"].tolist() == [1]


def rung(on_alarm):
    """A router after an alarm of ``a`` and three rewards since, and two silent decisions of ``a`` from before."""
    router = Orchestrator(["a", "b"], "ucb1", lambda_=0.0, alignment=compared(), on_alarm=on_alarm)
    for _ in range(5):
        router.observe(router.decide(Task(), eligible=["b"]).id, Outcome.completed(0.5))
    old = [router.decide(Task(), eligible=["a"]).id for _ in range(2)]
    router.observe(old[0], GONE)  # a lesson of zero
    router.observe(old[1], Outcome.censored(elapsed_s=1.0, reason="cancelled"))  # a share of one
    assert router._state.silences[old[0]].effect.lesson == 0.0 and router._state.silences[old[1]].effect.share
    rng, t, since = generator("ringing"), 0, 0
    while since < 3:
        since, t = since + bool(router.drift_alarms()["a"]), t + 1
        decision = router.decide(Task(), eligible=["a"])
        output = Samples([rng.normal(0.0 if t < 60 else 50.0)])
        router.observe(decision.id, Outcome.completed(0.5, output=output))
    return router, old


@pytest.mark.parametrize("on_alarm", ["restart", "count"])
def test_a_reward_does_not_replace_a_silence_from_before_a_restart(on_alarm):
    router, old = rung(on_alarm)
    index, parts = router.agents.index("a"), router._state.parts
    learned, share = router.derive(Task()).terms.estimate, parts["completion"]["share"][index]
    for decision_id in old:
        router.observe(decision_id, Outcome.completed(1.0))
    kept = np.array_equal(router.derive(Task()).terms.estimate, learned)
    assert kept == (on_alarm == "restart"), "without restarts both count"
    assert (parts["completion"]["share"][index] == share) == (on_alarm == "restart")


def test_the_bias_at_the_decision_is_learned_with_a_late_reward():
    """What the policy is told was subtracted is the same with and without a silence before."""
    router = Orchestrator(["a", "b"], "bot", lambda_=0.0, audit_rate=1.0)
    for _ in range(20):
        decision = router.decide(Task())
        router.observe(decision.id, Outcome.completed(0.9))
        router.observe(decision.id, Outcome.completed(0.1), audit=True)
    decision = router.decide(Task())
    assert decision.terms.bias.any()
    router.observe(decision.id, GONE)
    kept = router._state.silences[decision.id].decision.terms.penalty()
    assert np.array_equal(kept, decision.terms.penalty())
