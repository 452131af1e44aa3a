"""Frailty: mean 1, the dependence it induces, and what outcomes tell of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bot_orch.survival import Exponential, FrailtyProcess, GammaFrailty, Weibull

LAWS = [GammaFrailty(0.3), GammaFrailty(2.0)]


@pytest.mark.parametrize("law", LAWS, ids=str)
class TestLaw:
    def test_it_is_the_gamma_distribution_of_mean_one(self, law):
        u = np.array([1e-12, 0.01, 0.5, 0.99, 1 - 1e-12])
        np.testing.assert_allclose(law.sample(u), stats.gamma(1 / law.variance, scale=law.variance).ppf(u), rtol=1e-6)

    @pytest.mark.parametrize(("events", "hazard"), [(0, 0.0), (0, 2.0), (1, 0.1), (3, 2.0), (2, 9.0)])
    def test_posterior_is_the_mean_of_weighted_draws(self, law, events, hazard):
        theta = law.sample((np.arange(200_000) + 0.5) / 200_000)
        mean = np.average(theta, weights=theta**events * np.exp(-hazard * theta))
        np.testing.assert_allclose(law.posterior_mean(events, hazard), mean, rtol=2e-3)

    def test_induced_dependence_between_agents(self, law):
        """Given theta agents are independent; otherwise Kendall's tau between their times is v / (v + 2)."""
        rng = np.random.default_rng(5)
        theta = law.sample(rng.random(4000))
        models = Exponential(3.0), Weibull(10.0, 2.0)
        times = [model.sample(rng.random(4000), theta) for model in models]
        assert stats.kendalltau(*times).statistic == pytest.approx(law.variance / (law.variance + 2), abs=0.03)
        transformed = [model.survival(t) ** theta for model, t in zip(models, times, strict=True)]
        assert stats.kendalltau(*transformed).statistic == pytest.approx(0, abs=0.03)

    def test_history_keeps_the_law(self, law):
        path = FrailtyProcess(law, rho=0.8).path(np.random.default_rng(7).random((60, 4000)))
        assert path[-1].mean() == pytest.approx(1.0, abs=4 * np.sqrt(law.variance / 4000))
        assert stats.spearmanr(path[-2], path[-1]).statistic == pytest.approx(0.786, abs=0.04)  # 6/pi asin(rho/2)


def test_variance_zero_is_no_frailty():
    law = GammaFrailty(0.0)
    np.testing.assert_allclose(law.sample([0.1, 0.9]), 1.0)
    np.testing.assert_allclose(law.posterior_mean(3, 7.0), 1.0)
