"""Policies against what their papers say, beyond the common conformance suite."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.stream import Stream
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.paper.theory.temperature import BoltzmannGumbel
from bot_orch.lab.paper.theory.weights import ExponentialWeights, ImportanceWeighted
from bot_orch.numerics.choice import (
    argmax_ties,
    best_of_family,
    best_probabilities,
    draw,
    softmax,
    with_uniform_share,
)
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.base import Feedback, Situation
from bot_orch.policies.bot import algorithm_1
from bot_orch.policies.registry import from_spec, make_policy
from bot_orch.rng import derive_keys
from bot_orch.testing.policies import trained_state

NO_PENALTY = Situation(10, np.zeros(4), None, np.full(2, 0.5))


def monte_carlo_best(samples):
    return np.bincount(samples.argmax(axis=1), minlength=samples.shape[1]) / len(samples)


def test_thompson_beta_matches_sampling_from_the_posterior():
    policy = make_policy("thompson-beta")
    state = trained_state(policy, (), 40)
    wins, n = state["total"], state["count"]
    rng = np.random.default_rng(0)
    for penalty in (np.zeros(4), np.array([0.0, 0.2, 0.4, 0.1])):
        draws = rng.beta(1 + wins, 1 + n - wins, size=(200_000, 4)) - penalty
        p = policy.choose(state, Situation(1, penalty)).propensities
        assert p == pytest.approx(monte_carlo_best(draws), abs=0.006)


@pytest.mark.parametrize("outcomes", [(5, 20), (40, 3_000), (100_000, 100_000), (1, 30_000)])
def test_thompson_beta_integrates_to_one_in_ten_thousand(outcomes):
    n, policy = np.array(outcomes, dtype=float), make_policy("thompson-beta")
    state = allocate(policy.schema(0), (), 2)
    for worth in (0.02, 0.5, 0.9):
        state["count"][...], state["total"][...] = n, np.round(worth * n + [0.0, np.sqrt(n[1]) / 4.0])
        (a, b), (c, d) = zip(1.0 + state["total"], 1.0 + n - state["total"], strict=True)
        quantiles = beta.ppf((np.arange(200_000) + 0.5) / 200_000, a, c)
        p = policy.choose(state, Situation(1, np.zeros(2))).propensities[0]
        assert p == pytest.approx(beta.cdf(quantiles, b, d).mean(), abs=1e-4)


def test_lints_matches_sampling():
    policy = make_policy("lints")
    choice = policy.choose(trained_state(policy, (), 40), NO_PENALTY)
    draws = np.random.default_rng(1).normal(choice.estimate, choice.exploration, size=(200_000, 4))
    assert choice.propensities == pytest.approx(monte_carlo_best(draws), abs=0.006)


def test_boltzmann_gumbel_matches_sampling():
    policy = BoltzmannGumbel()
    choice = policy.choose(trained_state(policy, (), 60), NO_PENALTY)
    draws = choice.estimate + choice.exploration * np.random.default_rng(2).gumbel(size=(200_000, 4))
    assert choice.propensities == pytest.approx(monte_carlo_best(draws), abs=0.006)


def test_two_gaussians_have_a_closed_form():
    from scipy.special import ndtr

    p = best_of_family(np.array([0.3, 0.1]), np.array([0.2, 0.05]), ndtr)
    assert p[0] == pytest.approx(ndtr(0.2 / np.hypot(0.2, 0.05)), abs=2e-3)


def test_identical_agents_are_equally_likely_best():
    cdf = np.tile(np.linspace(0.01, 1.0, 60), (5, 1))
    assert best_probabilities(cdf) == pytest.approx(np.full(5, 0.2))


def test_ucb1_is_the_formula():
    policy = make_policy("ucb1")
    state = trained_state(policy, (), 50)
    choice = policy.choose(state, NO_PENALTY)
    n = state["count"]
    assert choice.exploration == pytest.approx(np.sqrt(2 * np.log(n.sum()) / n))
    assert choice.propensities.argmax() == (choice.estimate + choice.exploration).argmax()


def test_linucb_is_ridge_regression():
    policy = make_policy("linucb", ridge=2.0)
    rng = np.random.default_rng(3)
    state = allocate(policy.schema(3), (), 2)
    x, r = rng.normal(size=(60, 3)), rng.random(60)
    for row, reward in zip(x, r, strict=True):
        observed = np.array([True, False])
        policy.update(state, Feedback(1, np.array(0), observed, np.full(2, reward), np.ones(2), np.zeros(2), row))
    design = np.column_stack([np.ones(60), x])
    gram = design.T @ design + 2.0 * np.eye(4)
    assert state["theta"][0] == pytest.approx(np.linalg.solve(gram, design.T @ r))
    assert state["inverse"][0] == pytest.approx(np.linalg.inv(gram))
    probe = rng.normal(size=3)
    choice = policy.choose(state, Situation(1, np.zeros(2), None, probe))
    one = np.concatenate([[1.0], probe])
    assert choice.exploration[0] == pytest.approx(np.sqrt(one @ np.linalg.inv(gram) @ one))
    assert state["theta"][1].tolist() == [0.0] * 4


def test_exponential_weights_are_cumulative_utilities():
    policy = ExponentialWeights(Constant(0.3))
    rng = np.random.default_rng(4)
    rewards, w = rng.random((30, 1, 3)), rng.random((30, 1, 3))
    trace = simulate(
        policy, Stream(rewards, w), derive_keys(["t"], [0]), lambda_=0.5, feedback="full", keep_propensities=True
    )
    utility = (rewards - 0.5 * w)[:-1, 0].sum(axis=0)
    expected = np.exp(0.3 * utility)
    assert trace.propensities[-1, 0] == pytest.approx(expected / expected.sum())


def test_importance_weighted_losses_are_unbiased():
    policy = ImportanceWeighted(Constant(1.0))
    p = np.array([0.1, 0.3, 0.6])
    u = np.array([0.2, 0.9, 0.4])
    expected = np.zeros(3)
    for agent in range(3):
        feedback = Feedback(1, np.array(agent), np.arange(3) == agent, u, p, np.zeros(3))
        expected += p[agent] * np.where(feedback.observed, policy.gain(feedback), 0.0)
    assert expected == pytest.approx(u - 1.0)


def test_printed_order_sees_this_rounds_rewards_and_bandit_order_does_not():
    rewards = np.zeros((200, 40, 2))
    lucky = np.random.default_rng(5).integers(2, size=(200, 40))
    np.put_along_axis(rewards, lucky[..., None], 1.0, axis=-1)
    stream, keys = Stream(rewards, np.zeros_like(rewards)), derive_keys(["t"], range(40))
    policy = algorithm_1(alpha=0.0, eta=20.0)
    printed = simulate(policy, stream, keys, feedback="printed")
    causal = simulate(policy, stream, keys)
    assert (printed.agent == lucky).mean() > 0.99
    assert (causal.agent == lucky).mean() == pytest.approx(0.5, abs=0.03)


def test_one_seed_of_a_batch_is_the_live_router():
    """The experiment loop and the orchestrator make the same decisions from the same numbers."""
    from bot_orch import Orchestrator, Outcome, Task
    from bot_orch.rng import derive_key

    rng = np.random.default_rng(6)
    rewards = rng.random((60, 3, 4))
    keys = np.array([derive_key("orchestrator", seed) for seed in range(3)], dtype=np.uint64)
    for name in ("bot", "thompson-beta", "ucb1", "linucb"):
        trace = simulate(make_policy(name), Stream(rewards, np.zeros_like(rewards)), keys)
        for seed in range(3):
            router = Orchestrator(["0", "1", "2", "3"], name, lambda_=1.0, floor=0.0, seed=seed)
            for t in range(60):
                decision = router.decide(Task())
                assert int(decision.agent) == trace.agent[t, seed], f"{name} differs at round {t}"
                router.observe(decision.id, Outcome.completed(reward=rewards[t, seed, int(decision.agent)]))


def test_a_uniform_share_is_of_all_traffic():
    p = np.array([[1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    assert with_uniform_share(p, 0.02)[0] == pytest.approx([0.985, 0.005, 0.005, 0.005])
    assert with_uniform_share(p, 0.02)[1] == pytest.approx(p[1])
    assert with_uniform_share(p, 0.0) is p
    some = with_uniform_share(np.array([1.0, 0.0, 0.0]), 0.1, np.array([True, True, False]))
    assert some == pytest.approx([0.95, 0.05, 0.0])


def test_unknown_settings_are_named():
    with pytest.raises(InvalidInputError, match="etta: is not a setting of policy bot; choose from eta, estimator"):
        make_policy("bot", etta=1.0)
    with pytest.raises(InvalidInputError, match="spec.family"):
        from_spec({"id": "bot"})
    with pytest.raises(InvalidInputError, match="estimator.id: 'x' is not known"):
        from_spec({"family": "estimator", "id": "x"})


def test_every_policy_beats_random_on_an_easy_problem():
    rng = np.random.default_rng(7)
    means = np.array([0.1, 0.9, 0.3])
    rewards = (rng.random((400, 60, 3)) < means).astype(float)
    keys = derive_keys(["easy"], range(60))
    from bot_orch.policies.registry import available_policies

    for name in available_policies():
        trace = simulate(make_policy(name), Stream(rewards, np.zeros_like(rewards)), keys)
        share = (trace.agent[200:] == 1).mean()
        if name == "random":
            assert share == pytest.approx(1 / 3, abs=0.02)
        else:
            assert share > 0.4, f"{name} has not learned: {share:.2f}"


def test_feedback_modes_share_one_pipeline():
    state = allocate(algorithm_1().schema(0), (2,), 3)
    drawn = pipeline.decide(algorithm_1(), state, Situation(1, np.zeros((2, 3))), u=np.array([0.1, 0.9]))
    bandit = pipeline.bandit_feedback(drawn, np.array([0.5, 1.0]))
    assert bandit.observed.sum() == 2
    full = pipeline.full_feedback(drawn, np.ones((2, 3)))
    assert full.observed.all()


def test_column_by_column_is_the_same_to_the_last_bit():
    rng = np.random.default_rng(8)
    for m in range(1, 10):
        x = rng.normal(size=(200, m)) * 10
        batch, rows = softmax(x), np.array([softmax(row) for row in x])
        assert batch.tobytes() == rows.tobytes()
        u = rng.random(200)
        assert draw(batch, u).tolist() == [int(draw(p, v)) for p, v in zip(batch, u, strict=True)]
        assert argmax_ties(x.round()).tobytes() == np.array([argmax_ties(row) for row in x.round()]).tobytes()


TOY = '''"""Softmax over means."""

from dataclasses import dataclass, field
from typing import ClassVar

from bot_orch.numerics.choice import softmax
from bot_orch.numerics.estimators import Estimator, Mean
from bot_orch.policies.base import Choice, EstimatorPolicy, no_exploration


@dataclass(frozen=True, slots=True)
class Toy(EstimatorPolicy):
    """Softmax over means, at temperature 0.1."""

    estimator: Estimator = field(default_factory=Mean)
    id: ClassVar[str] = "toy"

    def choose(self, state, situation):
        estimate = self.estimator.estimate(state)
        p = softmax(10.0 * (estimate - situation.penalty), situation.eligible)
        return Choice(p, estimate, no_exploration(estimate))
'''
USE = """
import sys
import bot_orch.policies
bot_orch.policies.__path__.append(sys.argv[1])  # as if the file lay there
sys.path.append(sys.argv[2])
from bot_orch import Orchestrator, Task
from bot_orch.cli import main
from bot_orch.policies.registry import make_policy
from bot_orch.testing.policies import check_policy
from cases import CASES

print(Orchestrator(["a", "b"], "toy").decide(Task()).policy)
print(len(check_policy(make_policy("toy"))), CASES["toy"].policy["id"])
main(["arena", "--list-policies"])
"""


def test_a_policy_is_one_file(tmp_path):
    """Router, conformance checks, fingerprints and arena take what they need from the class."""
    (tmp_path / "toy.py").write_text(TOY)
    cases = Path(__file__).parents[1] / "fingerprints"
    done = subprocess.run([sys.executable, "-c", USE, tmp_path, cases], capture_output=True, text=True, check=True)
    decided, checked, *listed = done.stdout.splitlines()
    assert (decided, checked) == ("toy@1", "12 toy")
    assert any("toy" in line and "Softmax over means, at temperature 0.1." in line for line in listed)
