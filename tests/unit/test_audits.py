"""Audits: decisions marked at random, two verdicts in any order, and the judge's bias subtracted."""

import numpy as np
import pytest
from scipy import stats

from bot_orch import InvalidInputError, Labels, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core.alignment.audits import Audits
from bot_orch.core.state import State
from bot_orch.errors import UnknownDecisionError
from bot_orch.policies.registry import available_policies
from bot_orch.rng import generator

JUDGE = {"good": 0.7, "fair": 0.5, "cheat": 0.95}
TRUTH = {"good": 0.7, "fair": 0.5, "cheat": 0.1}


def told(mean):
    return Outcome.completed(mean)


def run(rounds=400, audit_rate=0.1, policy="ucb1", seed=1, order="judge first", truth=TRUTH):
    """Names of the agents chosen, the router, and the decisions."""
    router = Orchestrator(JUDGE, policy, lambda_=0.0, seed=seed, audit_rate=audit_rate)
    made = []
    for _ in range(rounds):
        decision = router.decide(Task())
        verdicts = [(JUDGE[decision.agent], False)] + [(truth[decision.agent], True)] * decision.audit
        for value, audit in verdicts if order == "judge first" else reversed(verdicts):
            router.observe(decision.id, told(value), audit=audit)
        made.append(decision)
    return [decision.agent for decision in made], router, made


@pytest.mark.parametrize("order", ["judge first", "truth first"])
@pytest.mark.parametrize("policy", ["auto", "ucb1", "thompson-beta", "bot"])
def test_a_cheat_that_looks_like_the_others_is_found_out(policy, order):
    rounds = 250 if policy == "auto" else 600
    chosen, router, _ = run(rounds, policy=policy, order=order, seed=2)  # seed 1 asks the cheat three times only
    fallen, _, _ = run(rounds, policy=policy, audit_rate=0.0)
    late = rounds // 2
    assert chosen[late:].count("cheat") < fallen[late:].count("cheat") / 3, "the control without audits"
    assert chosen[late:].count("good") > chosen[late:].count("cheat")
    bias = router.derive(Task()).terms.bias
    assert bias[2] == pytest.approx(0.85, abs=0.2) and abs(bias[0]) < 0.1


def test_marks_are_random_with_the_stated_probability():
    _, _, made = run(1200, audit_rate=0.2, policy="random")
    assert {decision.audit_probability for decision in made} == {0.2}
    marks = np.array([decision.audit for decision in made])
    assert abs(marks.mean() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 1200)
    for name in JUDGE:  # independent of the agent
        mine = marks[[decision.agent == name for decision in made]]
        assert abs(mine.mean() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / len(mine))
    again = run(1200, audit_rate=0.2, policy="random")[2]
    assert [decision.audit for decision in again] == marks.tolist()


def test_without_audits_nothing_changes():
    router = Orchestrator(["a", "b"], seed=3)
    decision = router.decide(Task())
    assert not decision.audit and decision.audit_probability == 0.0 and decision.terms.bias is None
    assert "bias" not in decision.explain() and "audit" not in decision.to_dict()
    with pytest.raises(InvalidInputError, match="audit: is True, and decision"):
        router.observe(decision.id, told(0.5), audit=True)
    router.observe(decision.id, told(0.5))
    with pytest.raises(UnknownDecisionError):
        router.observe(decision.id, told(0.5), audit=True)


def test_both_orders_learn_the_same_bias_and_each_verdict_counts_once():
    states = []
    for order in (False, True), (True, False):
        router = Orchestrator(["a"], "ucb1", audit_rate=1.0)
        decision = router.decide(Task())
        for audit in order:
            router.observe(decision.id, told(0.2 if audit else 0.9), audit=audit)
            if len(router.verdicts):
                with pytest.raises(InvalidInputError, match="decision_id"):
                    router.observe(decision.id, told(0.9), audit=audit)
        with pytest.raises(UnknownDecisionError):
            router.observe(decision.id, told(0.9))
        assert not router.verdicts
        states.append(router._state.parts["audits"])
        estimate = router.derive(Task()).terms.estimate
        assert estimate[0] == (0.2 if order[0] else 0.9), "the policy learns the verdict that comes first"
    first, second = states
    assert first["gap"] == second["gap"] == pytest.approx(0.7)
    assert first["truths"] == 0.0 and second["truths"] == 1.0


def test_the_bias_leaves_out_what_the_policy_learned_as_truth():
    audits = Audits(0.5)
    state = allocate(audits.schema, (), 1)
    nan = np.array(np.nan)
    for _ in range(40):
        audits.compare(state, np.array(0), judge=np.array(1.0), truth=np.array(0.0))
        audits.count(state, np.array(0), reward=np.array(1.0), truth=nan)
    whole = audits.bias(state, np.zeros(1))
    for _ in range(40):
        audits.count(state, np.array(0), reward=nan, truth=np.array(0.0))
    assert audits.bias(state, np.zeros(1)) == pytest.approx(0.5 * whole)


def test_the_posterior_is_that_of_the_hierarchical_model():
    """Against the conditional mean of the joint normal distribution, by brute force."""
    rng, audits = generator("posterior"), Audits(0.1)
    state, distance = allocate(audits.schema, (2,), 4), rng.random((2, 4))
    for _ in range(30):
        agent = rng.integers(0, 3, size=2)  # the fourth agent is never audited
        audits.compare(state, agent, judge=rng.random(2), truth=rng.random(2))
    found = audits.bias(state, distance)
    for row in range(2):
        n, d, w = state["count"][row], state["gap"][row], distance[row]
        noise = (state["square"][row].sum() + 4 * 0.04) / (np.maximum(n - 1, 0).sum() + 4)
        prior = 0.05**2 + 0.09 * np.outer(w, w) + 0.16 * np.eye(4)
        seen = n > 0
        weights = np.linalg.inv(prior[np.ix_(seen, seen)] + np.diag(noise / n[seen]))
        mean = prior[:, seen] @ weights @ d[seen]
        fair, biased = (stats.norm.pdf(d, scale=np.sqrt(noise / np.maximum(n, 1) + own)) for own in (0.0, 0.16))
        assert found[row] == pytest.approx(mean * np.where(seen, biased / (fair + biased), 1.0))


def test_agents_as_far_as_a_cheat_are_suspected_before_their_first_audit():
    audits = Audits(0.1)
    state = allocate(audits.schema, (), 3)
    for _ in range(5):
        audits.compare(state, np.array(0), judge=np.array(0.9), truth=np.array(0.1))
    near, far = audits.bias(state, np.array([1.4, 0.1, 1.4]))[1:]
    assert far > 0.3 > 0.1 > near


def test_small_differences_are_noise():
    """Two verdicts that differ by little, in either direction, leave the order of honest agents as it is."""
    rng, audits = generator("fair"), Audits(0.1)
    state = allocate(audits.schema, (50,), 2)
    for _ in range(3):
        audits.compare(state, np.zeros(50, dtype=int), judge=0.6 + rng.normal(0.0, 0.05, 50), truth=np.full(50, 0.6))
    assert np.abs(audits.bias(state, np.zeros((50, 2)))).max() < 0.02 < np.abs(state["gap"]).max()


def test_an_agent_that_turns_is_found_out():
    audits = Audits(0.1)
    state = allocate(audits.schema, (), 1)
    for t in range(208):
        audits.compare(state, np.array(0), judge=np.array(0.8), truth=np.array(0.8 if t < 200 else 0.0))
    assert audits.bias(state, np.zeros(1))[0] > 0.2


def test_every_policy_subtracts_the_bias():
    """An agent with a judge's bias loses probability under every policy that reads scores."""
    for name, policy in available_policies().items():
        if name in ("random", "uniform") or not policy.__module__.startswith("bot_orch."):
            continue
        p = {}
        for rate in (0.0, 1.0):
            router = Orchestrator(["a", "b"], name, lambda_=0.0, seed=2, audit_rate=rate)
            for t in range(40):
                decision = router.decide(Task(), eligible=["a", "b"][t % 2 : t % 2 + 1])
                router.observe(decision.id, told(0.8 if decision.agent == "a" else 0.6))
                if rate:
                    router.observe(decision.id, told(0.1 if decision.agent == "a" else 0.6), audit=True)
            p[rate] = router.derive(Task()).propensities[0]
        assert p[1.0] < p[0.0], name


def test_terms_add_up_and_are_explained():
    _, router, _ = run(200)
    decision = router.derive(Task())
    terms = decision.terms
    assert terms.score() == pytest.approx(
        terms.estimate + terms.exploration - terms.alignment - terms.cost - terms.bias
    )
    assert "-bias" in decision.explain().splitlines()[0] and f"{-terms.bias[2]:.3f}" in decision.explain()
    assert list(decision.columns())[-1] == "bias"


def test_saved_with_verdicts_that_wait_for_their_second():
    _, router, _ = run(60, audit_rate=0.5)
    waiting = [router.decide(Task()) for _ in range(8)]
    for decision in waiting:
        router.observe(decision.id, told(0.7))
    marked = [decision.id for decision in waiting if decision.audit]
    assert marked and list(router.verdicts) == marked
    copy = Orchestrator.from_json(router.to_json())
    assert copy.fingerprint() == router.fingerprint()
    for each in (router, copy):
        each.observe(marked[0], told(0.1), audit=True)
    assert copy.fingerprint() == router.fingerprint() and list(copy.verdicts) == marked[1:]


def test_old_states_have_no_verdicts():
    document = Orchestrator(["a"])._state.to_dict()
    assert "verdicts" not in document and "shown" not in document
    assert State.from_dict(document).verdicts == {}


def test_the_outcome_of_a_removed_agent_is_ignored():
    router = Orchestrator(["a", "b"], "ucb1", audit_rate=1.0)
    decision = router.decide(Task())
    router.observe(decision.id, told(0.9))
    router.remove_agent(decision.agent)
    router.observe(decision.id, told(0.1), audit=True)
    assert not router.verdicts and router.derive(Task()).terms.bias.tolist() == [0.0]


def test_the_audits_can_be_switched_on_and_off():
    _, router, _ = run(100)
    settings = router.settings
    from dataclasses import replace

    router.reconfigure(replace(settings, audit_rate=0.0), router.members)
    assert router.decide(Task()).terms.bias is None
    router.reconfigure(replace(settings, audit_rate=0.3), router.members)
    assert router.decide(Task()).audit_probability == 0.3
    with pytest.raises(InvalidInputError, match="audit_rate"):
        Orchestrator(["a"], audit_rate=1.5)


def test_outputs_are_learned_with_whichever_verdict_comes_first():
    router = Orchestrator(["a", "b"], "ucb1", audit_rate=1.0)
    for _ in range(6):
        decision = router.decide(Task(reference=Labels([0.0, 1.0])))
        router.observe(decision.id, Outcome.completed(0.9, output=Labels([1.0, 0.0])), audit=True)
        router.observe(decision.id, Outcome.completed(0.9, output=Labels([1.0, 0.0])))
    assert router._state.parts["gaps"]["count"].sum() == 6
