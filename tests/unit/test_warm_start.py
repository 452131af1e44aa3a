"""Warm start: evaluations in every form, good ones help from the first round, wrong ones do no lasting harm."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bot_orch import InvalidInputError, Orchestrator, Outcome, Router, Task, available_policies, make_policy
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.warm import Evaluations, WarmStart, as_evaluations, teach
from bot_orch.errors import UnknownAgentError
from bot_orch.lab.paper.theory.weights import ExponentialWeights
from bot_orch.policies import Situation
from bot_orch.testing import check_policy

NAN = float("nan")
REWARDS = {"a": [0.0, 1.0, 0.5], "b": [1.0, NAN, 0.25]}
MATRIX = np.array([[0.0, 1.0], [1.0, NAN], [0.5, 0.25]])


@pytest.mark.parametrize(
    "source",
    [
        REWARDS,
        MATRIX,
        MATRIX.tolist(),
        pd.DataFrame(REWARDS),
        pd.DataFrame({**REWARDS, "question": ["x", "y", "z"]}),
        Evaluations(("b", "a"), MATRIX[:, ::-1]),
        [{"a": 0.0, "b": 1.0}, {"a": 1.0}, {"a": 0.5, "b": 0.25}],
    ],
    ids=lambda source: type(source).__name__,
)
def test_every_form_gives_the_same_rows(source):
    assert np.array_equal(as_evaluations(source, ("a", "b")).rewards, MATRIX, equal_nan=True)


def test_one_outcome_per_row_as_in_a_log():
    frame = pd.DataFrame({"agent": ["b", "a"], "reward": [1.0, 0.5], "length": [3, 9], "w": [1.0, 0.0]})
    found = as_evaluations(frame, ("a", "b"), features=["length"], weight="w")
    assert np.array_equal(found.rewards, [[NAN, 1.0], [0.5, NAN]], equal_nan=True)
    assert found.features.tolist() == [[3.0], [9.0]] and found.weight.tolist() == [1.0, 0.0]
    records = [{"agent": "b", "reward": 1.0, "features": (3.0,)}, {"agent": "a", "reward": 0.5, "features": (9.0,)}]
    assert as_evaluations(records, ("a", "b")).features.tolist() == [[3.0], [9.0]]


@pytest.mark.parametrize(
    ("evaluations", "settings", "message"),
    [
        ({"a": [2.0]}, {}, "evaluations: holds a reward outside of"),
        ({"a": [1.0], "b": [1.0, 0.0]}, {}, r"evaluations: has columns of \[1, 2\] rows; pad them with nan"),
        ({"c": [1.0]}, {}, r"evaluations: has the columns \['c'\]"),
        ("old.sqlite", {}, "evaluations: is 'old.sqlite'; .* a Router also reads the path of a log"),
        (Path("old.sqlite"), {}, "a Router also reads the path of a log"),
        ({"a": [1.0], "B_agent": [1.0], "b_agent": [0.0]}, {"agents": ["a", "b agent"]}, "did you mean 'b agent'"),
        ([[1.0, 0.0, 0.5]], {}, r"evaluations: has the shape \(1, 3\), there are 2 agents"),
        ([{"agent": "c", "reward": 1.0}], {}, "evaluations.agent: 'c' is no agent"),
        ({"a": [1.0, 0.0]}, {"features": [[1.0]]}, r"features: have the shape \(1, 1\); pass 2 rows"),
        ({"a": [1.0, 0.0]}, {"features": ["x"]}, r"features: \['x'\] are no columns"),
        ({"a": [1.0, 0.0]}, {"features": [[np.inf], [1.0]]}, "features: hold a number that is not finite"),
        ({"a": [1.0, 0.0]}, {"tasks": [Task()]}, "tasks: are 1, and evaluations have 2 rows; pass one Task per row"),
        ({"a": [1.0, 0.0]}, {"weight": -1.0}, "weight: is -1.0"),
        ({"a": [1.0, 0.0]}, {"weight": [1.0]}, "weight: is"),
        ({"a": [1.0, 0.0]}, {"most": 0}, "most: is 0"),
    ],
)
def test_mistakes_are_told_and_change_nothing(evaluations, settings, message):
    router = Orchestrator(settings.pop("agents", ["a", "b"]))
    before = router.fingerprint()
    with pytest.raises(InvalidInputError, match=message):
        router.learn_from(evaluations, **settings)
    assert router.fingerprint() == before and not isinstance(router.policy, WarmStart)


def test_columns_of_other_agents_are_named():
    router = Orchestrator(["small", "large"])
    with pytest.warns(UserWarning, match="no agents of the router: huge"):
        router.learn_from({"small": [1.0], "large": [0.0], "huge": [1.0], "length": [3.0]}, features=["length"])


def test_a_state_is_saved_in_folders_that_exist(tmp_path):
    """A misspelt folder is not created."""
    with pytest.raises(InvalidInputError, match="misspelt is no folder"):
        Orchestrator(["a", "b"]).save(tmp_path / "misspelt" / "x.json")
    assert not (tmp_path / "misspelt").exists()


def test_weights_thin_or_repeat_lessons():
    def estimates(**settings):
        router = Orchestrator(["a", "b"], make_policy("ucb1"))
        lessons = router.learn_from({"a": [1.0, 0.0, 1.0, 0.0], "b": [NAN, 1.0, NAN, 1.0]}, **settings)
        return lessons, router._state.parts["policy"]["warm_count"].tolist()

    assert estimates() == (6, [4.0, 2.0])
    assert estimates(weight=0.5) == (3, [2.0, 1.0])
    assert estimates(weight=3) == (18, [12.0, 6.0])
    assert estimates(weight=[1.0, 0.0, 0.0, 2.0]) == (5, [3.0, 2.0])
    assert estimates(most=1) == (2, [1.0, 1.0])
    assert estimates(weight=300) == (1800, [1200.0, 600.0])  # 50 000 over all agents, if that is more than 1000 each
    router = Orchestrator(["a", "b"])
    assert router.learn_from({"a": [1.0]}, weight=0.0) == 0 and not isinstance(router.policy, WarmStart)


def test_features_come_from_evaluations_or_must_fit():
    router = Orchestrator(["a", "b"], "linucb")
    router.learn_from(np.ones((4, 2)), tasks=[Task(features=(1.0, number)) for number in range(4)])
    assert router.n_features == 2
    with pytest.raises(InvalidInputError, match="task.features: has 0 numbers"):
        router.decide(Task())
    with pytest.raises(InvalidInputError, match="features: have 0 columns, tasks have 2 features"):
        router.learn_from(np.ones((4, 2)))
    plain = Orchestrator(["a", "b"], "linucb")
    plain.learn_from(np.ones((4, 2)))
    with pytest.raises(InvalidInputError, match="task.features: has 1 numbers, the first task had none"):
        plain.decide(Task(features=(1.0,)))  # taken, the lessons would be lost


@pytest.mark.parametrize("name", ["ucb1", "linucb", "no-ot"])
def test_a_warm_policy_passes_the_conformance_checks(name):
    assert check_policy(WarmStart(make_policy(name), taught=7))


def test_a_policy_that_predicts_no_reward_learns_less_because_it_cannot_be_tested():
    router = Orchestrator(["a", "b"], ExponentialWeights(), seed=2)
    assert router.learn_from(np.tile([0.0, 1.0], (200, 1))) == 40


@pytest.mark.parametrize("name", sorted(available_policies()))
def test_every_policy_learns_saves_and_goes_on(name):
    rng = np.random.default_rng(1)
    rewards = (rng.random((200, 2)) < [0.1, 0.9]).astype(float)
    router = Orchestrator(["a", "b"], name, seed=2)
    assert router.learn_from(rewards) == 400
    first = router.derive(Task()).propensities
    cold = Orchestrator(["a", "b"], name, seed=2).derive(Task()).propensities
    assert first[1] > cold[1] or name == "random"
    copy = Orchestrator.from_json(router.to_json())
    for each in (router, copy):
        for _ in range(20):
            each.observe(each.decide(Task()).id, Outcome.completed(0.5))
    router.add_agent("c")
    copy.add_agent("c")
    router.remove_agent("a")
    copy.remove_agent("a")
    assert router.fingerprint() == copy.fingerprint() and router.agents == ("b", "c")


def test_a_second_time_adds_lessons_to_the_first():
    router = Orchestrator(["a", "b"], "ucb1")
    router.learn_from({"a": [1.0, 1.0]})
    router.learn_from({"b": [0.0, 0.0, 0.0]})
    state = router._state.parts["policy"]
    assert state["warm_count"].tolist() == [2.0, 3.0] and state["cold_count"].tolist() == [0.0, 0.0]
    assert json.loads(router.to_json())["settings"]["policy"]["policy"]["id"] == "ucb1"


def test_texts_of_evaluations_are_context():
    router = Orchestrator(["a", "b"], "linucb", seed=1, n_features=0)
    texts = ["sort a list in python", "translate this into french"] * 20
    router.learn_from([[1.0, 0.0], [0.0, 1.0]] * 20, tasks=[Task(text=text) for text in texts])
    estimates = [router.derive(Task(text=text)).terms.estimate for text in texts[:2]]
    assert estimates[0][0] > 0.8 > 0.2 > estimates[0][1] and estimates[1][1] > 0.8 > 0.2 > estimates[1][0]
    with pytest.raises(InvalidInputError, match=r"task\.encoded: is 'other@1#2'"):
        router.learn_from([[1.0, 0.0]], tasks=[Task(features=(0.1, 0.2), encoded="other@1#2")])
    with pytest.raises(InvalidInputError, match="tasks: come from the encoders"):
        as_evaluations(np.ones((2, 1)), "a", tasks=[Task(features=(1.0,), encoded=name) for name in ("x#1", "y#1")])


def test_texts_stay_unused_after_evaluations_without_texts():
    plain, texts = Orchestrator(["a", "b"], seed=1), Orchestrator(["a", "b"], seed=1)
    for router in (plain, texts):
        router.learn_from(REWARDS)
    made = texts.decide(Task(text="hello"))
    assert made.features == () and made.agent == plain.decide(Task()).agent
    texts.observe(made.id, Outcome.completed(1.0))


def test_without_a_text_evaluations_count_as_having_an_empty_one():
    router, same = (Orchestrator(["a", "b"], "linucb", seed=1) for _ in range(2))
    for each in (router, same):
        each.decide(Task(text="hello"))
    router.learn_from(REWARDS)
    same.learn_from(REWARDS, tasks=[Task() for _ in range(3)])
    assert router.fingerprint() == same.fingerprint() and router.derive(Task(text="hello")).features


@pytest.mark.parametrize("name", ["ucb1", "bot", "linucb", "epsilon-greedy"])
def test_a_reward_replaces_silence_in_both_states(name):
    late, prompt = (Orchestrator(["a", "b"], name, seed=1, patience_s=1.0) for _ in range(2))
    ends = {late: Outcome.censored(elapsed_s=2.0, reason="cancelled"), prompt: Outcome.completed(0.75)}
    for router, end in ends.items():
        router.learn_from(REWARDS)
        first = router.decide(Task(), ["a"])
        router.observe(first.id, end)
        router.observe(router.decide(Task(), ["a"]).id, Outcome.completed(0.5))
        if router is late:
            router.observe(first.id, Outcome.completed(0.75))
    states = [router._state.parts["policy"] for router in (late, prompt)]
    assert set(states[0]) == set(states[1])
    for part in set(states[0]) - {"lead"}:  # predictions are not compared again
        np.testing.assert_allclose(states[0][part], states[1][part], atol=1e-12, err_msg=part)


def test_it_is_no_policy_to_choose_by_name():
    assert "warm-start" not in available_policies()
    with pytest.raises(UnknownAgentError):
        Router(["a"]).learn_from(Evaluations(("z",), np.ones((1, 1))))


# what it is for ------------------------------------------------------------------------------------------------------

M, ROUNDS, ROWS, SEEDS, FLOOR = 5, 2250, 600, 24, 0.02
POLICY = make_policy("ucb1")


def taught(rng, believed):
    """The policy and its states, one row per seed, after evaluations in which the agents earn ``believed``."""
    if believed is None:
        return POLICY, allocate(POLICY.schema(0), (SEEDS,), M)
    found = [
        teach(
            POLICY,
            allocate(POLICY.schema(0), (), M),
            Evaluations(tuple("abcde"), (rng.random((ROWS, M)) < rates).astype(float)),
            t=1,
            n_features=0,
            most=1000.0,
        )
        for rates in believed
    ]
    return found[0].policy, {name: np.stack([each.state[name] for each in found]) for name in found[0].state}


def regret(belief=None):
    """Mean regret per round among five Bernoulli agents, all seeds at once."""
    rng = np.random.default_rng(9)
    rates = np.array([rng.permutation(np.linspace(0.3, 0.8, M)) for _ in range(SEEDS)])
    policy, state = taught(rng, None if belief is None else belief(rates))
    lost = np.zeros(ROUNDS)
    for t in range(1, ROUNDS + 1):
        drawn = pipeline.decide(policy, state, Situation(t, np.zeros((SEEDS, M))), u=rng.random(SEEDS), floor=FLOOR)
        earned = np.take_along_axis(rates, drawn.agent[:, None], axis=1)[:, 0]
        lost[t - 1] = (rates.max(axis=1) - earned).mean()
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, (rng.random(SEEDS) < earned).astype(float)))
    return lost


def swapped(rates):
    """The best agent is taken for the worst and the other way round; the others are as they are."""
    wrong, rows = rates.copy(), np.arange(len(rates))
    wrong[rows, rates.argmax(axis=1)], wrong[rows, rates.argmin(axis=1)] = rates.min(axis=1), rates.max(axis=1)
    return wrong


BELIEFS = {"cold": None, "right": lambda rates: rates, "inverse": lambda rates: 1.1 - rates, "swapped": swapped}


@pytest.fixture(scope="module")
def regrets():
    return {name: regret(belief) for name, belief in BELIEFS.items()}


def test_good_evaluations_are_worth_two_thousand_rounds(regrets):
    late = regrets["cold"][1750:].mean()
    assert regrets["cold"][:250].mean() > 4 * late
    assert regrets["right"][:250].mean() < late
    assert regrets["right"][1750:].mean() < late


@pytest.mark.parametrize("belief", ["inverse", "swapped"])
def test_wrong_evaluations_do_no_lasting_harm(regrets, belief):
    assert regrets[belief][1750:].mean() < regrets["cold"][1750:].mean() + 0.01
    assert regrets[belief][:2000].sum() < 1.1 * regrets["cold"][:2000].sum()


def test_control_without_the_trial_wrong_evaluations_last(regrets, monkeypatch):
    monkeypatch.setattr("bot_orch.core.warm.trial._warm_share", lambda state: np.ones(state["compared"].shape))
    assert regret(BELIEFS["inverse"])[1750:].mean() > regrets["cold"][1750:].mean() + 0.05
