"""A provisional reward is learned at once; the next one takes its place, also after a save, also under audits."""

import numpy as np
import pytest

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.core.completion.silences import PROVISIONAL
from bot_orch.errors import UnknownDecisionError
from bot_orch.numerics.estimators import EMA, LastReward
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator

POLICIES = ("bot", "no-ot", "ucb1", "thompson-beta", "linucb", "lints")


def warm(policy, **settings):
    router, rng = (
        Orchestrator(["a", "b"], policy, seed=5, n_features=2, ids="derived", **settings),
        generator("provisional"),
    )
    for number in range(40):
        decision = router.decide(Task(f"t{number}", features=tuple(rng.normal(size=2))))
        router.observe(decision.id, Outcome.completed(rng.random(), elapsed_s=rng.exponential()))
    return router


def close(one, other, atol=1e-6):  # rewards by time are single precision
    mine, theirs = one._state.parts, other._state.parts
    return all(np.allclose(mine[part][name], theirs[part][name], atol=atol) for part in mine for name in mine[part])


def task(number):
    return Task(f"n{number}", features=(0.3, -0.2 * number))


@pytest.mark.parametrize("elapsed_s", [2.0, None], ids=["timed", "untimed"])
@pytest.mark.parametrize("name", POLICIES)
def test_the_last_of_three_rewards_is_as_if_it_had_come_alone(name, elapsed_s):
    several, alone = warm(name), warm(name)
    for router in (several, alone):
        decisions = [router.decide(task(number), ["a"]) for number in range(3)]
        first = 0.1 if router is several else 0.9
        router.observe(decisions[0].id, Outcome.completed(first, elapsed_s=elapsed_s), provisional=router is several)
        for decision in decisions[1:]:
            router.observe(decision.id, Outcome.completed(0.4, elapsed_s=1.0))
    several.observe(decisions[0].id, Outcome.completed(0.3, elapsed_s=elapsed_s), provisional=True)
    assert not close(several, alone)
    several = Orchestrator.from_json(several.to_json())
    assert several.is_provisional(decisions[0].id)
    several.observe(decisions[0].id, Outcome.completed(0.9, elapsed_s=elapsed_s))
    assert close(several, alone) and not several.is_provisional(decisions[0].id)
    with pytest.raises(UnknownDecisionError):
        several.observe(decisions[0].id, Outcome.completed(0.5))


def test_a_policy_that_cannot_take_back_learns_a_further_lesson():
    router = warm(make_policy("bot", estimator=EMA(history=LastReward())))
    assert not router.policy.can_revise
    decision = router.decide(task(0))
    before = router._state.parts["policy"]["count"].sum()
    router.observe(decision.id, Outcome.completed(0.1), provisional=True)
    router.observe(decision.id, Outcome.completed(0.9), provisional=True)
    assert router._state.parts["policy"]["count"].sum() == before + 2.0


def test_only_the_newest_are_remembered():
    router = Orchestrator(["a", "b"], "ucb1", seed=1)
    first = router.decide(Task())
    router.observe(first.id, Outcome.completed(0.5), provisional=True)
    for _ in range(PROVISIONAL):
        router.observe(router.decide(Task()).id, Outcome.completed(0.5), provisional=True)
    assert not router.is_provisional(first.id) and len(router._state.provisional) == PROVISIONAL


def test_the_truth_is_compared_with_the_verdict_that_counts():
    """The bias is judge - truth: of the judge's last word before the truth, and of none after it."""
    router = Orchestrator(["a", "b"], "ucb1", seed=1, audit_rate=1.0)
    decision = router.decide(Task())
    router.observe(decision.id, Outcome.completed(0.2), provisional=True)
    router.observe(decision.id, Outcome.completed(0.9), provisional=True)
    router.observe(decision.id, Outcome.completed(0.5), audit=True)
    index, audits = router.agents.index(decision.agent), router._state.parts["audits"]
    assert (audits["count"][index], round(float(audits["gap"][index]), 6)) == (1.0, 0.4)
    router.observe(decision.id, Outcome.completed(0.7), provisional=True)
    assert audits["count"][index] == 1.0 and decision.id not in router.verdicts
    with pytest.raises(UnknownDecisionError):
        router.observe(decision.id, Outcome.completed(0.1), audit=True)
