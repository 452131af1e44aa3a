"""Broken variants that the checks of the survival package must catch.

Each check passes on the real thing and fails on every variant listed for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from bot_orch.survival import (
    Cause,
    Exponential,
    GammaFrailty,
    OnlineKaplanMeier,
    StepSurvival,
    Weibull,
    completion_survival,
    kaplan_meier,
    life_table,
    observe,
    reward_of,
    survival_reward,
    tail_check,
)

RNG = np.random.default_rng(20)
TRUTH = Weibull(10.0, 1.5)
DONE = TRUTH.sample(RNG.random(4000))
CUT = observe(DONE, RNG.exponential(10.0, 4000))
CRASHED = observe(DONE, 60.0, {Cause.CRASHED: Exponential(15.0).sample(RNG.random(4000))})


# Censoring ---------------------------------------------------------------------------------------------------------


def check_censoring(estimate):
    """The estimate of S(8) is right although half the times are censored."""
    assert estimate(CUT.t_s, CUT.cause) == pytest.approx(float(TRUTH.survival(8.0)), abs=0.03)


def by_table(t, cause):
    return kaplan_meier(life_table(t, cause)).survival(8.0)


def test_censoring():
    check_censoring(by_table)


BROKEN_CENSORING = {
    "censored counted as event": lambda t, cause: by_table(t, np.ones_like(cause)),
    "censored dropped": lambda t, cause: by_table(t[cause == 1], cause[cause == 1]),
    "censored set to a constant": lambda t, cause: by_table(np.where(cause == 0, 1000.0, t), np.ones_like(cause)),
    "frequencies of what was seen": lambda t, _: np.mean(t > 8.0),
}


@pytest.mark.parametrize("broken", BROKEN_CENSORING.values(), ids=BROKEN_CENSORING.keys())
def test_broken_censoring_is_caught(broken):
    with pytest.raises(AssertionError):
        check_censoring(broken)


# Failures ----------------------------------------------------------------------------------------------------------


def check_failures(estimate):
    """The estimated probability of never completing is the share that crashed."""
    share = np.mean(CRASHED.cause == Cause.CRASHED)
    assert estimate(CRASHED.t_s, CRASHED.cause) == pytest.approx(share, abs=0.02)


def test_failures():
    check_failures(lambda t, cause: completion_survival(life_table(t, cause)).survival(59.0))


BROKEN_FAILURES = {
    "crash treated as censoring": lambda t, cause: kaplan_meier(life_table(t, cause)).survival(59.0),
    "crash treated as completion": lambda t, cause: kaplan_meier(life_table(t, cause > 0)).survival(59.0),
    "crash dropped": lambda t, cause: completion_survival(life_table(t[cause < 2], cause[cause < 2])).survival(59.0),
}


@pytest.mark.parametrize("broken", BROKEN_FAILURES.values(), ids=BROKEN_FAILURES.keys())
def test_broken_failures_are_caught(broken):
    with pytest.raises(AssertionError):
        check_failures(broken)


# Reward ------------------------------------------------------------------------------------------------------------


def check_reward(reward):
    """In [0, 1]; a crash earns nothing; expected credit makes the mean independent of the watcher's patience."""
    crash = reward(TRUTH, CRASHED.t_s, CRASHED.cause)
    assert np.all(crash[CRASHED.cause == Cause.CRASHED] == 0)
    credited = reward(TRUTH, CUT.t_s, CUT.cause)
    assert np.all((credited >= 0) & (credited <= 1))
    assert credited.mean() == pytest.approx(0.5, abs=0.02)


def live(model, t, cause, theta=1.0):
    return reward_of(model, t, cause, theta, censored="expected")


def test_reward():
    check_reward(live)


BROKEN_REWARDS = {
    "silence is zero": lambda m, t, cause: reward_of(m, t, cause),
    "silence is a success": lambda m, t, cause: survival_reward(m.survival(t), cause < 2),
    "crash is silence": lambda m, t, cause: live(m, t, np.where(cause > 1, 0, cause)),
    "crash is success": lambda m, t, cause: live(m, t, np.where(cause > 1, 1, cause)),
    "hazard for survival": lambda m, t, cause: np.where(cause == 1, m.cumulative_hazard(t), live(m, t, cause)),
    "slow is better": lambda m, t, cause: np.where(cause == 1, 1 - m.survival(t), live(m, t, cause)),
}


@pytest.mark.parametrize("broken", BROKEN_REWARDS.values(), ids=BROKEN_REWARDS.keys())
def test_broken_reward_is_caught(broken):
    with pytest.raises(AssertionError):
        check_reward(broken)


# Frailty -----------------------------------------------------------------------------------------------------------


def check_frailty(law):
    """Mean 1, the Laplace transform of a gamma distribution, a posterior that starts at the mean and is calibrated."""
    rng = np.random.default_rng(1)
    theta = law.sample(rng.random(40_000))
    assert theta.mean() == pytest.approx(1.0, abs=0.03)
    assert np.exp(-theta).mean() == pytest.approx((1 + law.variance) ** (-1 / law.variance), abs=0.01)
    assert float(law.posterior_mean(0, 0.0)) == pytest.approx(1.0, abs=1e-6)
    t = Exponential(1.0).sample(rng.random(40_000), theta)
    guess = law.posterior_mean(t < 1.0, np.minimum(t, 1.0))
    for group in (t < 0.3, t >= 1.0):
        assert guess[group].mean() == pytest.approx(theta[group].mean(), abs=0.03)


def test_frailty():
    check_frailty(GammaFrailty(0.8))


@dataclass(frozen=True)
class LogNormalInstead(GammaFrailty):
    def at_normal(self, z):
        return np.exp(np.sqrt(np.log1p(self.variance)) * np.asarray(z))  # its mean is not 1


@dataclass(frozen=True)
class ShapeForScale(GammaFrailty):
    def at_normal(self, z):
        return super().at_normal(z) * self.variance


@dataclass(frozen=True)
class EventsIgnored(GammaFrailty):
    def posterior_mean(self, events, hazard):
        return super().posterior_mean(0.0 * np.asarray(events), hazard)


@dataclass(frozen=True)
class CensoredIgnored(GammaFrailty):
    def posterior_mean(self, events, hazard):
        return super().posterior_mean(events, np.asarray(events) * np.asarray(hazard))


@pytest.mark.parametrize("kind", [LogNormalInstead, ShapeForScale, EventsIgnored, CensoredIgnored])
def test_broken_frailty_is_caught(kind):
    with pytest.raises(AssertionError):
        check_frailty(kind(0.8))


# Streaming ---------------------------------------------------------------------------------------------------------


def check_streaming(online, exact):
    state = online.init((), 1)
    for row in zip(CUT.t_s[:200], CUT.cause[:200], strict=True):
        online.update(state, *row, agent=0)
    grid = np.array([2.0, 5.0, 10.0, 15.0])
    np.testing.assert_allclose(online.model(state).survival(grid[:, None])[:, 0], exact.survival(grid), atol=1e-5)


def exact_table():
    return kaplan_meier(life_table(CUT.t_s[:200], CUT.cause[:200]))


def test_streaming():
    check_streaming(OnlineKaplanMeier(256), exact_table())


class WrongRisk(OnlineKaplanMeier):
    def model(self, state):
        table = self.table(state)
        at_risk = table.at_risk[..., :1]  # nobody ever leaves the risk set
        events = table.exits[..., 1]
        return StepSurvival(table.times_s, np.cumprod(1 - events / np.maximum(at_risk, 1), axis=-1))


def test_broken_streaming_is_caught():
    with pytest.raises(AssertionError):
        check_streaming(WrongRisk(256), exact_table())


# The lemma ---------------------------------------------------------------------------------------------------------


def test_a_reward_without_its_bound_fails_the_tail_check():
    """-log S(T) instead of S(T) is not bounded, and its tail shows it; the reward itself passes."""
    epsilon = np.linspace(0.6, 3.0, 10)
    assert tail_check(TRUTH.survival(DONE), epsilon).holds.all()
    assert not tail_check(3 * TRUTH.cumulative_hazard(DONE), epsilon).holds.all()
