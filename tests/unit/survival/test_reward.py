"""The reward, its expectation, what causes do to it, and the tail of the lemma."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.survival import (
    Cause,
    Exponential,
    GammaFrailty,
    LogNormal,
    Weibull,
    cause_of,
    completion_survival,
    expected_reward,
    life_table,
    live_reward,
    observe,
    reward_of,
    survival_reward,
    tail_check,
)
from bot_orch.types import Outcome

MODEL = Weibull([5.0, 20.0], [0.7, 2.5])


def test_causes():
    assert cause_of(Outcome.completed(elapsed_s=1.0)) is Cause.COMPLETED
    assert cause_of(Outcome.censored(elapsed_s=1.0, reason="OOM")) is Cause.OUT_OF_MEMORY
    assert cause_of(Outcome.censored(elapsed_s=1.0, reason="ok")) is Cause.CENSORED  # it says it was cut off


def test_observation_for_rounds_seeds_agents():
    rng = np.random.default_rng(0)
    theta = GammaFrailty(0.5).sample(rng.random((50, 4, 1)))
    t = MODEL.sample(rng.random((50, 4, 2)), theta)
    crash = Exponential(30.0).sample(rng.random((50, 4, 2)))
    seen = observe(t, cutoff_s=15.0, failures_s={Cause.CRASHED: crash})
    assert seen.t_s.shape == (50, 4, 2)
    assert seen.t_s.max() <= 15.0
    np.testing.assert_array_equal(seen.event, (t <= crash) & (t <= 15.0))
    np.testing.assert_array_equal(seen.cause == Cause.CRASHED, (crash < t) & (crash <= 15.0))


@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("cutoff", [3.0, 20.0, np.inf])
def test_expected_reward_in_closed_form_is_the_mean(theta, cutoff):
    u = (np.arange(100_000) + 0.5) / 100_000
    seen = observe(MODEL.sample(u[:, None], theta), cutoff)
    rewards = survival_reward(MODEL.survival(seen.t_s), seen.event, theta)
    np.testing.assert_allclose(expected_reward(MODEL, cutoff, theta), rewards.mean(axis=0), atol=1e-4)


def test_the_agents_own_survival_makes_rewards_uniform():
    """Why a common reference is needed to reward speed."""
    u = np.linspace(0.0005, 0.9995, 1000)
    for model in (Exponential(1.0), Exponential(100.0), LogNormal(2.0, 1.0)):
        rewards = np.sort(survival_reward(model.survival(model.sample(u, 1.7)), True, 1.7))
        np.testing.assert_allclose(rewards, u, atol=1e-9)


def test_expected_reward_under_a_reference():
    agent, reference = Weibull(4.0, 1.3), LogNormal(2.0, 0.8)
    u = (np.arange(200_000) + 0.5) / 200_000
    seen = observe(agent.sample(u, 0.8), 12.0)
    rewards = survival_reward(reference.survival(seen.t_s), seen.event, 0.8)
    assert expected_reward(agent, 12.0, 0.8, reference=reference) == pytest.approx(rewards.mean(), abs=1e-5)
    late = seen.t_s > 2.0
    after = expected_reward(agent, 12.0, 0.8, running_for_s=2.0, reference=reference)
    assert after == pytest.approx(rewards[late].mean(), abs=1e-4)
    own = expected_reward(agent, 12.0, 0.8, running_for_s=2.0)
    assert own == pytest.approx(expected_reward(agent, 12.0, 0.8, running_for_s=2.0, reference=agent), abs=1e-8)


def test_silence_is_not_zero_on_request():
    causes = np.array([Cause.COMPLETED, Cause.CRASHED, Cause.OUT_OF_MEMORY, Cause.CENSORED])
    model = Exponential(10.0)
    s = np.exp(-0.5)
    np.testing.assert_allclose(reward_of(model, 5.0, causes), [s, 0, 0, 0])
    np.testing.assert_allclose(reward_of(model, 5.0, causes, censored="expected"), [s, 0, 0, s / 2])
    shorter = reward_of(model, 5.0, causes, censored="expected", horizon_s=8.0)[-1]
    assert 0 < shorter < s / 2
    assert reward_of(model, 5.0, causes, censored="expected", horizon_s=5.0)[-1] == 0


def test_expected_credit_makes_the_mean_free_of_the_cutoff():
    """With the right model, an impatient watcher and a patient one see the same mean reward."""
    u = (np.arange(100_000) + 0.5) / 100_000
    model, theta = Weibull(10.0, 1.4), 1.6
    for cutoff in (2.0, 8.0):
        seen = observe(model.sample(u, theta), cutoff)
        assert reward_of(model, seen.t_s, seen.cause, theta, censored="expected").mean() == pytest.approx(0.5, abs=1e-3)
        assert reward_of(model, seen.t_s, seen.cause, theta).mean() < 0.47


def test_the_posterior_mean_serves_where_theta_is_unknown():
    """Rewards by the posterior mean of theta are closer to the true ones than rewards by theta = 1."""
    rng = np.random.default_rng(1)
    law, model = GammaFrailty(1.0), Exponential(10.0)
    theta = law.sample(rng.random(4000))
    first, second = (model.sample(rng.random(4000), theta) for _ in range(2))
    belief = law.posterior_mean(1, model.cumulative_hazard(first))
    truth = survival_reward(model.survival(second), True, theta)
    error = [np.mean((reward_of(model, second, True, guess) - truth) ** 2) for guess in (1.0, belief)]
    assert error[1] < 0.8 * error[0]


def test_live_reward_needs_a_time():
    with pytest.raises(InvalidInputError, match="elapsed_s"):
        live_reward(Exponential(1.0), Outcome.completed(reward=1.0))


def test_a_crash_is_not_still_running():
    """Treating crashes as censoring claims that everything completes; counting them leaves their share."""
    rng = np.random.default_rng(2)
    done, crash = Exponential(10.0).sample(rng.random(4000)), Exponential(20.0).sample(rng.random(4000))
    seen = observe(done, 200.0, {Cause.CRASHED: crash})
    nonparametric = completion_survival(life_table(seen.t_s, seen.cause)).survival(100.0)
    assert nonparametric == pytest.approx(1 / 3, abs=0.03)


def test_tail_of_the_lemma():
    rng = np.random.default_rng(3)
    epsilon = np.linspace(0.05, 1.0, 20)
    for law in (GammaFrailty(0.2), GammaFrailty(4.0)):
        theta = law.sample(rng.random((2, 20_000)))
        seen = observe(MODEL.sample(rng.random((20_000, 2)), theta.T), 12.0)
        rewards = survival_reward(MODEL.survival(seen.t_s), seen.event, theta.T)
        check = tail_check(rewards.T, epsilon)
        assert check.empirical.shape == (2, 20)
        assert check.holds.all()
        assert (check.empirical <= check.bound).all()


def test_the_tail_bites_for_means():
    """A mean of n rewards obeys the bound at e sqrt(n); something wider than the unit interval does not."""
    rng = np.random.default_rng(4)
    n = 25
    means = rng.integers(0, 2, (4000, n)).mean(axis=1)
    epsilon = np.array([0.8, 1.0, 1.2])
    assert tail_check(means * np.sqrt(n), epsilon, mean=0.5 * np.sqrt(n)).holds.all()
    assert not tail_check(3 * means * np.sqrt(n), epsilon, mean=1.5 * np.sqrt(n)).holds.any()
