"""Estimators against the formulas they claim."""

import numpy as np
import pytest

from bot_orch.arrays import allocate
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.estimators import EMA, LastReward, Mean, MeanReward
from bot_orch.numerics.schedules import Constant, LogGrowth, Power


def feed(estimator, choices, rewards, m=3):
    state = allocate(estimator.schema(), (), m)
    for agent, reward in zip(choices, rewards, strict=True):
        estimator.update(state, np.arange(m) == agent, np.full(m, reward))
    return estimator.estimate(state), estimator.count(state), state


@pytest.fixture
def history():
    rng = np.random.default_rng(0)
    return rng.integers(3, size=500), rng.random(500)


def by_agent(history, agent):
    choices, rewards = history
    return rewards[choices == agent]


def test_mean(history):
    estimate, count, _ = feed(Mean(), *history)
    for agent in range(3):
        assert estimate[agent] == pytest.approx(by_agent(history, agent).mean(), abs=1e-12)
    assert count.sum() == 500
    assert feed(Mean(prior=2.0), [0], [1.0])[0].tolist() == pytest.approx([2 / 3, 0.5, 0.5])


@pytest.mark.parametrize("history_term", [None, MeanReward(0.05), LastReward(0.05)])
def test_ema_is_the_printed_recursion(history, history_term):
    estimator = EMA(0.9) if history_term is None else EMA(0.9, history_term)
    estimate, _, _ = feed(estimator, *history)
    for agent in range(3):
        rhat, past = 0.0, []
        for reward in by_agent(history, agent):
            f = 0.0
            if past and history_term is not None:
                f = 0.05 * (np.mean(past) if isinstance(history_term, MeanReward) else past[-1])
            rhat = 0.9 * rhat + 0.1 * reward + f
            past.append(reward)
        assert estimate[agent] == pytest.approx(rhat, abs=1e-12)


def test_schedules():
    assert [Constant(3.0)(t) for t in (1, 9)] == [3.0, 3.0]
    assert [Power(1.0)(t) for t in (1, 4, 16)] == [1.0, 0.5, 0.25]
    assert LogGrowth(2.0)(1) == 2.0
    assert LogGrowth(2.0)(100) > LogGrowth(2.0)(10)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: EMA(1.0),
        lambda: Mean(-1.0),
        lambda: Constant(0.0),
        lambda: Power(float("nan")),
    ],
)
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(InvalidInputError):
        bad()
