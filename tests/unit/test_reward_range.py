"""Rewards of another range than [0, 1]: what is told and shown is in their units, decisions are the same."""

import random

import numpy as np
import pytest

from bot_orch import (
    Agent,
    Answer,
    BoundedReward,
    Guarantee,
    InvalidInputError,
    Labels,
    Objective,
    Orchestrator,
    Outcome,
    Quality,
    Router,
    Task,
)
from bot_orch.evaluation import evaluate, logged_means
from bot_orch.evaluation.export import decision_rows, event_rows
from bot_orch.evaluation.rounds import collect
from bot_orch.log.stores.open import open_file

STARS = BoundedReward(low=1, high=5)
SETTINGS = {
    "auto": {},
    "dollars": {"objective": 2.0},
    "lambda": {"policy": "bot", "lambda_": 0.5},
    "adaptive lambda": {"policy": "bot"},
    "audits": {"audit_rate": 0.3},
    "promise": {"guarantee": Guarantee("b", 0.4, control=0.5)},
    "frugal": {"constraints": Quality(0.1)},
}


def made(wide, *, objective=None, policy="auto", lambda_="auto", **settings):
    """A router for rewards from 0 to 1, or from 1 to 5 with weights four times as large."""
    times = 4.0 if wide else 1.0
    agents = [Agent("a", cost=0.01 * times, price=0.01), Agent("b", price=0.05), Agent("c", price=0.02)]
    if objective:
        settings["objective"] = Objective(usd=objective * times)
    elif "constraints" not in settings:
        agents = [Agent(each.id, cost=each.cost) for each in agents]
    lambda_ = lambda_ * times if isinstance(lambda_, float) else lambda_
    return Orchestrator(
        agents, policy, lambda_=lambda_, seed=3, reward=STARS if wide else None, ids="derived", **settings
    )


def played(router, wide, rounds=120):
    rng, decisions = random.Random(5), []  # noqa: S311
    for _ in range(rounds):
        task = Task(features=(rng.random(),), reference=Labels([0.1, 0.9]))
        decision = router.decide(task)
        earned = round(4 * rng.random() * {"a": 0.3, "b": 1.0, "c": 0.8}[decision.agent]) / 4
        output = Labels([1 - earned, earned])
        if rng.random() < 0.1:
            router.observe(decision.id, Outcome.censored(elapsed_s=3.0, reason="timeout"))
        else:
            reward = 1 + 4 * earned if wide else earned
            router.observe(decision.id, Outcome.completed(reward, output=output, cost_usd=0.02 * rng.random()))
            if decision.audit:
                router.observe(decision.id, Outcome.completed(reward), audit=True)
        decisions.append(decision)
    return decisions


@pytest.mark.parametrize("case", SETTINGS)
def test_decisions_are_those_of_rescaled_rewards(case):
    """Estimates are shifted and stretched, bonuses and penalties stretched, by the range."""
    routers = [made(wide, **SETTINGS[case]) for wide in (False, True)]
    narrow, wide = (played(router, each) for router, each in zip(routers, (False, True), strict=True))
    assert [each.agent for each in narrow] == [each.agent for each in wide]
    assert len({each.agent for each in narrow}) > 1
    for one, other in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(other.propensities, one.propensities, rtol=0, atol=1e-7)
        np.testing.assert_allclose(other.terms.estimate, 1.0 + 4.0 * one.terms.estimate, atol=1e-6)
        np.testing.assert_allclose(other.terms.distance, one.terms.distance, atol=1e-7)
        for name in ("exploration", "alignment", "cost"):
            np.testing.assert_allclose(getattr(other.terms, name), 4.0 * getattr(one.terms, name), atol=1e-6)
        assert other.lambda_ == pytest.approx(4.0 * one.lambda_, rel=1e-6)
        for multiplier, bigger in zip(one.multipliers, other.multipliers, strict=True):
            assert bigger.value == pytest.approx(4.0 * multiplier.value, rel=1e-5, abs=1e-9)
    if case == "dollars":
        assert wide[-1].terms.cost.max() > 0.1
    if case == "promise":
        assert routers[1].certificate().loss_bound == pytest.approx(routers[0].certificate().loss_bound), "a share"


def test_rewards_below_zero():
    router = Orchestrator(["a", "b"], "ucb1", reward=BoundedReward(-1, 1), seed=1)
    for _ in range(80):
        decision = router.decide(Task())
        router.observe(decision.id, Outcome.completed(-0.5 if decision.agent == "a" else 0.5))
    found = router.derive(Task())
    assert found.terms.estimate == pytest.approx([-0.5, 0.5]) and found.propensities[1] > 0.9
    assert "-0.500" in found.explain()


def test_a_reward_outside_is_refused_and_nothing_is_lost(tmp_path):
    message = r"outcome.reward: is 7.0, outside of \[1, 5\]; rescale it, or state the range .* BoundedReward\(low="
    for path in (None, tmp_path / "log"):
        with Router(["a", "b"], path=path, reward=STARS, seed=1) as router:
            decision = router.decide(Task())
            with pytest.raises(InvalidInputError, match=message):
                router.observe(decision.id, Outcome.completed(7.0))
            assert router.pending == (decision.id,)
            router.observe(decision.id, Outcome.completed(5.0 + 1e-10))
            assert router.history()[-1]["reward"] == 5.0
    router = Orchestrator(["a", "b"], reward=STARS)
    decision = router.decide(Task())
    with pytest.raises(InvalidInputError, match=r"rewards.b: is 0.0, outside of \[1, 5\]"):
        router.observe_all(decision.id, {"a": 1.0, "b": 0.0})
    assert router.pending
    with pytest.raises(InvalidInputError, match=r"evaluations: holds a reward outside of \[1, 5\]"):
        router.learn_from({"a": [0.0, 1.0], "b": [2.0, 3.0]})


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (float("nan"), 1), (0, float("inf")), ("0", 1)])
def test_a_range_that_is_none(low, high):
    with pytest.raises(InvalidInputError, match=r"^reward\.(low|high): is "):
        BoundedReward(low, high)


def test_saved_and_logged_it_goes_on_alike(tmp_path):
    router = made(True)
    played(router, True)
    again = Orchestrator.from_json(router.to_json())
    assert again.reward == STARS and again.fingerprint() == router.fingerprint()
    with Router(["a", "b", "c"], path=tmp_path / "log", reward=STARS, seed=1) as first:
        played(first, True)
        before = first.derive(Task(features=(0.3,))).terms.estimate.tolist()
    with Router(["a", "b", "c"], path=tmp_path / "log", reward=STARS, seed=1) as second:
        assert second.derive(Task(features=(0.3,))).terms.estimate.tolist() == before


def test_evaluations_in_units_of_reward():
    router = Orchestrator(["a", "b"], "ucb1", reward=STARS, seed=1)
    router.learn_from({"a": [1.0, 2.0] * 30, "b": [4.0, 5.0] * 30})
    assert router.derive(Task()).terms.estimate == pytest.approx([1.5, 4.5])


def test_a_failure_earns_the_least():
    def broken(task):
        raise ValueError

    with Router({"good": lambda task: 1, "bad": broken}, reward=STARS, seed=1, judge=lambda task, answer: 5) as router:
        for _ in range(40):
            router.call(Task())
    rewards = {(row["agent"], row["reward"]) for row in router.history()}
    assert rewards == {("good", 5.0), ("bad", 1.0)}
    assert router.derive(Task()).terms.estimate[0] > 4.5
    assert router.plot("rewards").axes[0].get_ylim() == pytest.approx((1.0, 5.08))


def test_the_log_is_read_in_units_of_reward(tmp_path):
    rewards = {"a": 2.0, "b": 4.0}
    with Router(["a", "b"], path=tmp_path / "log", reward=STARS, floor=1.0, seed=1) as router:
        for number in range(600):
            decision = router.decide(Task())
            late = number % 10 == 0
            outcome = Outcome.completed(rewards[decision.agent])
            router.observe(decision.id, Outcome.censored(elapsed_s=1.0, reason="timeout") if late else outcome)
    log = open_file(tmp_path / "log", writing=False)
    lines = list(decision_rows(log))
    assert {line["reward"] for line in lines} == {1.0, 2.0, 4.0}, "a timeout has the lowest reward"
    told = [row["numbers"]["estimate"] for row in event_rows(log) if row["kind"] == "decision@1"]
    assert told[-1] == pytest.approx([1.9, 3.7], abs=0.3), "with the timeouts"
    means = {each.agent: each.mean for each in logged_means(collect(log))}
    assert means["b"] == pytest.approx(0.9 * 4 + 0.1, abs=0.2)
    for each in evaluate(log, "agent:b").estimates:
        assert each.low < means["b"] < each.high and each.high - each.low < 1.0, each
    log.close()


@pytest.mark.parametrize("settings", [{}, {"guarantee": Guarantee("b", 0.4, control=0.5)}, {"objective": 2.0}])
def test_rounds_of_several_answers_are_those_of_rescaled_rewards(settings):
    """Later answers cost the first agent some of its reward, and a round without an answer is a loss."""
    found = []
    for wide in (False, True):
        router, rng, steps = made(wide, **settings), random.Random(7), []  # noqa: S311
        for _ in range(80):
            seen, decision = [], router.decide(Task(), attempts=2)
            while decision.action == "ask" and rng.random() > 0.1:
                steps.append(decision)
                seen.append(Answer(decision.agent, decision.id, signal=rng.random(), label=rng.randrange(2)))
                decision = router.decide(Task(), seen=seen, attempts=2)
            steps.append(decision)
            earned = rng.random() if decision.action == "accept" else 0.0
            if decision.action == "accept":
                router.observe(decision.id, Outcome.completed(1 + 4 * earned if wide else earned))
            else:
                outcome = Outcome(False, router.reward.range.low, 1.0, "crashed")
                router.observe((seen and seen[0].decision) or decision.id, outcome)
        found.append((steps, router.patience(router.decide(Task()), 30.0)))
    (narrow, short), (wide, long) = found
    assert [(each.action, each.agent) for each in narrow] == [(each.action, each.agent) for each in wide]
    assert {each.action for each in wide} == {"ask", "accept"} and len({each.agent for each in wide}) == 3
    for one, other in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(other.terms.estimate, 1.0 + 4.0 * one.terms.estimate, atol=1e-6)
        np.testing.assert_allclose(other.terms.cost, 4.0 * one.terms.cost, atol=1e-6)
    assert long == pytest.approx(short)


def test_a_reward_that_replaces_another_is_in_the_same_units():
    routers = [Orchestrator(["a", "b"], seed=1, reward=reward, ids="derived") for reward in (None, STARS)]
    for router, (low, high, middle) in zip(routers, ((0.0, 1.0, 0.5), (1.0, 5.0, 3.0)), strict=True):
        for number in range(60):
            decision = router.decide(Task())
            router.observe(decision.id, Outcome.completed(high), default=True)
            if number % 3 == 0:
                router.observe(decision.id, Outcome.completed(middle if decision.agent == "a" else low))
    one, other = (router.derive(Task()) for router in routers)
    np.testing.assert_allclose(other.terms.estimate, 1.0 + 4.0 * one.terms.estimate, atol=1e-9)
    assert routers[0].fingerprint() == routers[1].fingerprint(), "the state is on the unit scale"
