"""Frailty: mean 1, closed forms, the dependence it induces, and what outcomes tell of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from bot_orch.survival import (
    Baseline,
    Exponential,
    FrailtyFilter,
    FrailtyProcess,
    GammaFrailty,
    LogNormalFrailty,
    Weibull,
    conditional_survival,
    marginal_survival,
)

LAWS = [GammaFrailty(0.3), GammaFrailty(2.0), LogNormalFrailty(0.3), LogNormalFrailty(2.0)]


def density(law):
    if isinstance(law, GammaFrailty):
        return stats.gamma(1 / law.variance, scale=law.variance).pdf
    return stats.lognorm(law.sigma, scale=np.exp(-(law.sigma**2) / 2)).pdf


def integral(function):
    pieces = [0, 1e-3, 0.1, 1, 5, 50, np.inf]
    return sum(integrate.quad(function, a, b, epsabs=1e-11)[0] for a, b in pairwise(pieces))


@pytest.mark.parametrize("law", LAWS, ids=str)
class TestLaw:
    def test_mean_one_and_the_stated_variance(self, law):
        u = (np.arange(200_000) + 0.5) / 200_000
        theta = law.sample(u)
        assert theta.mean() == pytest.approx(1.0, abs=1e-3)
        assert theta.var() == pytest.approx(law.variance, rel=0.02)

    def test_laplace_and_its_inverse(self, law):
        s = np.array([0.0, 0.2, 1.0, 5.0])
        exact = [integral(lambda x, s=s: density(law)(x) * np.exp(-s * x)) for s in s]
        np.testing.assert_allclose(law.laplace(s), exact, atol=1e-7)
        np.testing.assert_allclose(law.hazard_of_marginal(law.laplace(s)), s, atol=1e-9)

    @pytest.mark.parametrize(("events", "hazard"), [(0, 0.0), (0, 2.0), (1, 0.1), (3, 2.0), (2, 9.0)])
    def test_posterior(self, law, events, hazard):
        def weight(x):
            return density(law)(x) * x**events * np.exp(-hazard * x)

        total = integral(weight)
        mean = integral(lambda x: x * weight(x)) / total
        predicted = integral(lambda x: np.exp(-0.7 * x) * weight(x)) / total
        np.testing.assert_allclose(law.posterior_mean(events, hazard), mean, rtol=1e-6)
        np.testing.assert_allclose(law.posterior_survival(0.7, events, hazard), predicted, rtol=1e-6)
        by_quadrature = super(type(law), law).posterior_mean(events, hazard)  # the gamma law has both
        np.testing.assert_allclose(by_quadrature, mean, rtol=1e-6)

    def test_induced_dependence_between_agents(self, law):
        """Given theta agents are independent; not given it Kendall's tau is that of the law."""
        rng = np.random.default_rng(5)
        theta = law.sample(rng.random(4000))
        models = Exponential(3.0), Weibull(10.0, 2.0)
        times = [model.sample(rng.random(4000), theta) for model in models]
        assert stats.kendalltau(*times).statistic == pytest.approx(law.kendall_tau(), abs=0.03)
        transformed = [conditional_survival(model, t, theta) for model, t in zip(models, times, strict=True)]
        assert stats.kendalltau(*transformed).statistic == pytest.approx(0, abs=0.03)

    def test_marginal_survival_is_what_frequencies_show(self, law):
        rng = np.random.default_rng(6)
        model = Weibull(10.0, 1.5)
        t = model.sample(rng.random(40_000), law.sample(rng.random(40_000)))
        for x in (3.0, 10.0, 30.0):
            assert np.mean(t > x) == pytest.approx(marginal_survival(model, x, law), abs=0.01)

    def test_the_baseline_behind_a_marginal_fit(self, law):
        baseline = Baseline(Weibull([10.0, 3.0], 1.5), law)
        t = np.array([[1.0], [5.0], [12.0]])
        np.testing.assert_allclose(marginal_survival(baseline, t, law), baseline.marginal.survival(t), atol=1e-10)

    def test_history_keeps_the_law(self, law):
        rng = np.random.default_rng(7)
        process = FrailtyProcess(law, rho=0.8)
        path = process.path(rng.random((60, 4000)))
        late = path[-1]
        assert late.mean() == pytest.approx(1.0, abs=4 * np.sqrt(law.variance / 4000))
        assert stats.spearmanr(path[-2], path[-1]).statistic == pytest.approx(0.786, abs=0.04)  # 6/pi asin(rho/2)
        z, theta = None, None
        steps = rng.random((4, 3))
        for u in steps:
            z, theta = process.step(z, u)
        np.testing.assert_allclose(theta, process.path(steps)[-1], rtol=1e-12)


@pytest.mark.parametrize("v", [0.25, 1.0, 3.0])
def test_kendall_tau_of_the_gamma(v):
    law = GammaFrailty(v)
    assert law.kendall_tau() == v / (v + 2)
    assert super(GammaFrailty, law).kendall_tau() == pytest.approx(v / (v + 2), abs=1e-6)


@pytest.mark.parametrize("law", [GammaFrailty(0.0), LogNormalFrailty(0.0)], ids=str)
def test_variance_zero_is_no_frailty(law):
    np.testing.assert_allclose(law.sample([0.1, 0.9]), 1.0)
    np.testing.assert_allclose(law.laplace(2.0), np.exp(-2.0))
    np.testing.assert_allclose(law.posterior_mean(3, 7.0), 1.0)
    np.testing.assert_allclose(law.posterior_survival(2.0, 3, 7.0), np.exp(-2.0))
    np.testing.assert_allclose(law.hazard_of_marginal(0.5), np.log(2))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_filter_within_one_task_is_the_posterior(law):
    belief = FrailtyFilter(law, rho=0.7)
    state = belief.init((3,))
    np.testing.assert_allclose(belief.mean(state), 1.0, rtol=1e-6)
    belief.update(state, [0, 1, 2], [2.0, 0.1, 1.0])
    np.testing.assert_allclose(belief.mean(state), law.posterior_mean([0, 1, 2], [2.0, 0.1, 1.0]), rtol=1e-5)
    expected = law.posterior_survival(0.7, [0, 1, 2], [2.0, 0.1, 1.0])
    np.testing.assert_allclose(belief.survival(state, np.full((3, 1), 0.7))[:, 0], expected, rtol=1e-5)


def test_the_filter_forgets_at_the_rate_of_the_process():
    law = GammaFrailty(0.5)
    means = []
    for rho in (0.0, 0.5, 0.95):
        belief = FrailtyFilter(law, rho)
        state = belief.init()
        belief.update(state, 0, 5.0)
        belief.advance(state)
        means.append(float(belief.mean(state)))
    assert means[0] == pytest.approx(1.0, abs=1e-6)
    assert means[0] > means[1] > means[2] > float(law.posterior_mean(0, 5.0))


def test_the_filter_beats_ignoring_history():
    """On tasks whose difficulty persists, the filtered mean is closer to theta than 1 is, and unbiased."""
    law, rng = GammaFrailty(0.5), np.random.default_rng(8)
    process, belief = FrailtyProcess(law, 0.9), FrailtyFilter(law, 0.9)
    theta = process.path(rng.random((60, 200)))
    state, guesses = belief.init((200,)), []
    for row in theta:
        guesses.append(belief.mean(state))  # before the outcome of this task is seen
        t = Exponential(1.0).sample(rng.random(200), row)
        belief.update(state, t < 2.0, np.minimum(t, 2.0))
        belief.advance(state)
    error = np.array(guesses)[10:] - theta[10:]
    assert np.mean(error**2) < 0.75 * np.mean((1 - theta[10:]) ** 2)
    assert abs(error.mean()) < 0.05
