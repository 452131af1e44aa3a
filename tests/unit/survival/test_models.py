"""The laws agree with themselves: survival, inverse, sampling, selection; and with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import bot_orch.survival as survival
from bot_orch.errors import InvalidInputError
from bot_orch.survival import Exponential, LogNormal, OnlineKaplanMeier, StepSurvival, Weibull, life_table

LAWS = [
    (Exponential([5.0, 20.0]), stats.expon(scale=[5.0, 20.0])),
    (Weibull([5.0, 20.0], [0.7, 2.5]), stats.weibull_min([0.7, 2.5], scale=[5.0, 20.0])),
    (LogNormal([1.0, 3.0], [0.4, 1.5]), stats.lognorm([0.4, 1.5], scale=np.exp([1.0, 3.0]))),
]
GRID = np.array([0.3, 1.0, 2.9, 4.5, 9.0, 11.0, 25.0])


@pytest.mark.parametrize(("model", "scipy"), LAWS, ids=lambda m: type(m).__name__)
class TestLaw:
    def test_survival_and_quantiles_are_those_of_scipy(self, model, scipy):
        np.testing.assert_allclose(model.survival(GRID[:, None]), scipy.sf(GRID[:, None]), rtol=1e-9)
        p = np.linspace(0.01, 0.99, 9)[:, None]
        np.testing.assert_allclose(model.quantile(p), scipy.ppf(p), rtol=1e-9)

    def test_inverse(self, model, scipy):
        t = model.time_at(model.cumulative_hazard(GRID[:, None]))
        np.testing.assert_allclose(t, np.broadcast_to(GRID[:, None], t.shape), rtol=1e-6)

    def test_starts_at_one(self, model, scipy):
        np.testing.assert_allclose(model.survival(0.0), 1.0, atol=1e-15)
        np.testing.assert_array_equal(model.sample(0.0), [0.0, 0.0])

    def test_select_is_the_model_of_one_agent(self, model, scipy):
        one = model.select(1)
        assert model.lead == (2,)
        assert one.lead == ()
        np.testing.assert_allclose(one.survival(GRID), model.survival(GRID[:, None])[:, 1], rtol=1e-12)

    def test_samples_have_survival_to_the_power_theta(self, model, scipy):
        u = (np.arange(2000) + 0.5) / 2000
        theta = 2.5
        t = model.sample(u[:, None], theta)
        for x in (1.0, 5.0):
            np.testing.assert_allclose(np.mean(t > x, axis=0), model.survival(x) ** theta, atol=1e-3)


@pytest.mark.parametrize("model", [Exponential(np.inf), Weibull(np.inf, 2.0), LogNormal(np.inf, 1.0)])
def test_an_infinite_scale_never_finishes(model):
    assert model.survival(1e6) == 1.0
    assert np.isposinf(model.sample(0.5))


def test_batch_and_agents_broadcast():
    rng = np.random.default_rng(0)
    scale = rng.uniform(1, 10, (4, 6))  # seeds, agents
    t = Weibull(scale, 1.5).sample(rng.random((7, 4, 6)), rng.gamma(2, 0.5, (7, 4, 1)))
    assert t.shape == (7, 4, 6)


def test_steps():
    model = StepSurvival([[1.0, 2.0], [4.0, np.inf]], [[0.5, 0.0], [0.3, 0.3]])
    np.testing.assert_array_equal(model.survival(3.0), [0.0, 1.0])
    np.testing.assert_array_equal(model.survival(4.0), [0.0, 0.3])
    np.testing.assert_array_equal(model.time_at(np.inf), [2.0, np.inf])


def updated(t_s, cause, agent=0):
    online = OnlineKaplanMeier(8)
    online.update(online.init((), 2), t_s, cause, agent=agent)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: life_table([-1.0], [True]), "t_s"),
        (lambda: life_table([np.nan], [True]), "t_s"),
        (lambda: life_table([1.0], [9]), "cause"),
        (lambda: updated(-1.0, True), "t_s"),
        (lambda: updated(1.0, 9), "cause"),
        (lambda: updated(1.0, True, agent=2), "agent"),
        (lambda: survival.GammaFrailty(-1.0), "variance"),
        (lambda: survival.FrailtyProcess(survival.GammaFrailty(1.0), rho=1.0), "rho"),
    ],
)
def test_what_is_refused(call, field):
    with pytest.raises(InvalidInputError, match=field):
        call()


def test_public_names_are_sorted_and_exist():
    assert survival.__all__ == sorted(survival.__all__)
    assert all(hasattr(survival, name) for name in survival.__all__)
