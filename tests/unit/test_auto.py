"""auto: cold start, drift, easy problems, costs, units, agents that come and go."""

import numpy as np
import pytest

from bot_orch import Agent, InvalidInputError, Orchestrator, Outcome, Task
from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.context import with_context
from bot_orch.numerics.choice import coupled_randucb
from bot_orch.policies.auto import TRUST, Auto
from bot_orch.policies.base import Feedback, Situation
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys, generator, uniform


def simulate(policy, reward, context=None, penalty=None, seeds=6, prices_known=False):
    """Agents chosen, (T, seeds), where ``reward`` is (T, M) probabilities of success; ``penalty`` may be a price."""
    rounds, m = reward.shape
    policy = with_context(policy, numbers=0 if context is None else context.shape[-1], words=0)
    state = allocate(policy.schema(0), (seeds,), m)
    draw, coin = (derive_keys(["auto", name], range(seeds)) for name in ("draw", "coin"))
    chosen = np.empty((rounds, seeds), dtype=int)
    fixed = np.zeros((seeds, m)) if penalty is None else np.broadcast_to(penalty, (seeds, m))
    for t in range(rounds):
        x = None if context is None else np.broadcast_to(context[t], (seeds, context.shape[-1]))
        situation = Situation(t + 1, fixed, None, x, cost=fixed if prices_known else None)
        drawn = pipeline.decide(policy, state, situation, u=uniform(draw, t))
        earned = (uniform(coin, t) < reward[t, drawn.agent]).astype(float)
        pipeline.apply(policy, state, pipeline.bandit_feedback(drawn, earned))
        chosen[t] = drawn.agent
    return chosen


def expected(reward, chosen):
    return reward[np.arange(len(chosen))[:, None], chosen]


def test_cold_start_with_sixty_agents():
    means = np.linspace(0.9, 0.3, 60)[generator("cold start").permutation(60)]
    reward = np.tile(means, (900, 1))
    earned = expected(reward, simulate(Auto(), reward, seeds=3))
    assert earned[:120].mean() > means.mean() - 0.05, "the first rounds are worse than choosing at random"
    assert earned[600:].mean() > 0.8
    thompson = expected(reward, simulate(make_policy("thompson-beta"), reward, seeds=2))
    assert earned.mean() > thompson.mean()


def test_small_regret_on_an_easy_problem():
    reward = np.tile([0.2, 0.5, 0.9, 0.4], (500, 1))
    assert 0.9 - expected(reward, simulate(Auto(), reward)).mean() < 0.05


def test_useless_features_cost_little():
    reward = np.tile([0.3, 0.8, 0.5], (600, 1))
    context = generator("useless").normal(size=(600, 10))
    assert 0.8 - expected(reward, simulate(Auto(), reward, context)).mean() < 0.1


def test_learns_what_a_line_cannot():
    x = generator("ring").normal(size=(900, 2))
    inside = (x**2).sum(axis=1) < 1.4
    reward = np.where(inside[:, None], [0.9, 0.1], [0.1, 0.9])
    earned = expected(reward, simulate(Auto(), reward, x))[500:].mean()
    linear = expected(reward, simulate(make_policy("lints", scale=0.2), reward, x))[500:].mean()
    assert earned > 0.75 > linear


def test_follows_a_change():
    reward = np.where(np.arange(1200)[:, None] < 600, [0.8, 0.2, 0.4], [0.2, 0.8, 0.4])
    earned = expected(reward, simulate(Auto(), reward))
    frozen = expected(reward, simulate(Auto(forgetting=False), reward))
    assert earned[:600].mean() > 0.72
    assert earned[800:].mean() > 0.7
    assert earned[600:].mean() > frozen[600:].mean() + 0.02


def test_nothing_to_forget_costs_little():
    reward = np.tile([0.6, 0.5, 0.4], (800, 1))
    remembering = expected(reward, simulate(Auto(forgetting=False), reward, seeds=40)).mean()
    assert expected(reward, simulate(Auto(), reward, seeds=40)).mean() > remembering - 0.01


def test_costs_count():
    reward = np.tile([0.80, 0.75, 0.3], (600, 1))
    chosen = simulate(Auto(), reward, penalty=np.array([0.2, 0.0, 0.0]))
    assert (chosen[300:] == 1).mean() > 0.85
    for seed in range(3):
        router = Orchestrator([Agent("dear", cost=0.5), "cheap"], "auto", seed=seed)
        picks = [play(router, {"dear": 0.9, "cheap": 0.7}) for _ in range(400)]
        assert picks[100:].count("cheap") > 270


@pytest.mark.parametrize("features", [0, 2])
def test_a_dear_agent_is_tried_and_found_to_be_worth_it(features):
    reward, price = np.tile([0.6, 0.9], (300, 1)), np.array([0.05, 0.2])
    context = generator("auto", "dear").normal(size=(300, features)) if features else None
    known = simulate(Auto(), reward, context, price, seeds=10, prices_known=True)
    net = (expected(reward, known) - price[known]).mean()
    assert net > 0.67, "the best agent has 0.7, the cheap one 0.55"


def test_a_cost_is_held_against_an_agent_only_once_outcomes_are_in():
    policy, price = Auto(), np.array([0.05, 0.4])
    learned = {"count": np.array([30.0, 2.0]), "total": np.array([18.0, 1.0])}
    state = policy.adopt(allocate(policy.schema(0), (), 2), learned)
    known, blind = (policy.choose(state, Situation(33, price, cost=cost)) for cost in (price, None))
    assert known.propensities[1] > blind.propensities[1] + 0.1
    np.testing.assert_allclose(known.exploration - blind.exploration, price * TRUST / (TRUST + state["count"]))
    waiting = policy.choose(state, Situation(33, price, cost=price, pending=np.array([0.0, 40.0])))
    assert waiting.propensities[1] < blind.propensities[1] + 0.1, "what is under way counts as asked"


def test_a_dear_agent_that_is_not_worth_it_costs_little():
    reward, price = np.tile([0.6, 0.6], (300, 1)), np.array([0.05, 0.2])
    chosen = simulate(Auto(), reward, None, price, seeds=20, prices_known=True)
    assert (expected(reward, chosen) - price[chosen]).mean() > 0.55 - 0.035


def test_before_anything_is_known_prices_do_not_decide():
    router = Orchestrator([Agent("dear", cost=0.5), "cheap", Agent("between", cost=0.2)], "auto")
    first = router.decide(Task("t"))
    assert first.propensities == pytest.approx(np.full(3, 1 / 3))
    assert first.terms.exploration - first.terms.cost == pytest.approx(np.full(3, first.terms.exploration[1]))


def play(router, means, features=()):
    decision = router.decide(Task("t", features=features))
    earned = float(uniform(3, decision.key.counter) < means[decision.agent])
    router.observe(decision.id, Outcome.completed(reward=earned))
    return decision.agent


@pytest.mark.parametrize("factor", [1000.0, 2.0**-20])
def test_units_of_features_do_not_matter(factor):
    x = generator("units").normal(size=(300, 3)) * [1.0, 50.0, 0.01]
    reward = np.where(x[:, :1] > 0, [0.9, 0.1], [0.1, 0.9])
    same = simulate(Auto(), reward, x) == simulate(Auto(), reward, x * factor)
    assert same.mean() > 0.999  # rounding may tip a draw


@pytest.mark.parametrize("factor", [1e-3, 1e3, 1e6])
def test_units_do_not_matter_where_size_does(factor):
    x = generator("units", "line").normal(size=(500, 3))
    reward = np.clip(0.5 + 0.2 * x[:, :1] * [1.0, -1.0] + 0.15 * x[:, 1:2] * [-1.0, 1.0], 0.0, 1.0)
    assert (simulate(Auto(), reward, x) == simulate(Auto(), reward, x * factor)).mean() > 0.999


def loud_noise():
    """The feature that matters varies a hundred times less than one that does not."""
    x = generator("loud").normal(size=(700, 2)) * [1.0, 100.0]
    reward = np.where(x[:, :1] > 0, [0.9, 0.1], [0.1, 0.9])
    return expected(reward, simulate(Auto(), reward, x, seeds=4))[400:].mean()


def test_a_feature_in_small_units_is_found():
    assert loud_noise() > 0.8


def test_a_constant_feature_is_ignored():
    x = np.column_stack([generator("constant").normal(size=200), np.full(200, 7.0)])
    reward = np.where(x[:, :1] > 0, [0.9, 0.1], [0.1, 0.9])
    assert np.isfinite(expected(reward, simulate(Auto(), reward, x))).all()


def test_agents_come_and_go():
    router = Orchestrator(["a", "b", "c"], "auto", n_features=1, seed=2)
    means = {"a": 0.2, "b": 0.9, "c": 0.5, "d": 0.95}
    for t in range(150):
        play(router, means, (float(t % 3),))
    before = router.derive(Task(features=(1.0,))).terms.estimate
    own = {name: router._state.parts["policy"][name].copy() for name in ("count", "total", "theta", "inverse")}
    router.remove_agent("a")
    after = router.derive(Task(features=(1.0,))).terms.estimate
    np.testing.assert_allclose(after, before[1:], rtol=0, atol=0.05)  # shrunk towards the mean of those present
    for name, array in own.items():
        np.testing.assert_array_equal(router._state.parts["policy"][name], array[1:])
    router.add_agent("d")
    assert "d" in [play(router, means, (float(t % 3),)) for t in range(200)]


def test_pending_choices_make_it_look_elsewhere():
    router = Orchestrator(["a", "b", "c"], "auto", seed=4)
    assert {router.decide(Task()).agent for _ in range(6)} == {"a", "b", "c"}


def test_full_feedback_teaches_about_everybody():
    policy = Auto()
    state = allocate(policy.schema(0), (), 3)
    for t in range(1, 30):
        p = np.full(3, 1 / 3)
        seen = np.ones(3, dtype=bool)
        policy.update(state, Feedback(t, np.array(0), seen, np.array([0.1, 0.9, 0.5]), p, np.zeros(3)))
    np.testing.assert_allclose(policy.choose(state, Situation(30, np.zeros(3))).estimate, [0.1, 0.9, 0.5], atol=0.15)


def test_optimism_agrees_with_sampling():
    rng = generator("optimism")
    location, sd = rng.normal(size=5) * 0.2, rng.uniform(0.05, 0.6, size=5)
    z = np.abs(rng.normal(size=200_000))
    counts = np.bincount(np.argmax(location + z[:, None] * sd, axis=1), minlength=5) / z.size
    np.testing.assert_allclose(coupled_randucb(location, sd), counts, atol=0.004)


def test_optimism_splits_ties():
    np.testing.assert_allclose(coupled_randucb(np.zeros(4), np.ones(4)), np.full(4, 0.25))
    mask = np.array([False, True, True, False])
    np.testing.assert_allclose(coupled_randucb(np.zeros(4), np.ones(4), mask), [0.0, 0.5, 0.5, 0.0])


def test_settings_are_checked():
    with pytest.raises(InvalidInputError, match="scale: is 0"):
        Auto(scale=0.0)
    with pytest.raises(InvalidInputError, match="rows: is not a setting of policy auto"):
        make_policy("auto", rows=2048)
