"""The models agree with themselves: survival, hazard, inverse, sampling, selection, degenerate data."""

from __future__ import annotations

import numpy as np
import pytest

import bot_orch.survival as survival
from bot_orch.errors import InvalidInputError
from bot_orch.survival import (
    Baseline,
    CompetingRisks,
    Exponential,
    GammaFrailty,
    LogLogistic,
    LogNormal,
    LogNormalFrailty,
    PiecewiseConstant,
    StepSurvival,
    Weibull,
    fit_exponential,
    fit_log_logistic,
    fit_log_normal,
    fit_piecewise,
    fit_weibull,
    life_table,
)

SMOOTH = [
    Exponential([5.0, 20.0]),
    Weibull([5.0, 20.0], [0.7, 2.5]),
    LogNormal([1.0, 3.0], [0.4, 1.5]),
    LogLogistic([5.0, 20.0], [1.2, 4.0]),
    PiecewiseConstant([3.0, 10.0], [[0.1, 0.4, 0.05], [0.02, 0.02, 0.2]]),
    CompetingRisks(Weibull([5.0, 20.0], [0.7, 2.5]), Exponential([30.0, 60.0])),
    Baseline(Weibull([5.0, 20.0], [0.7, 2.5]), GammaFrailty(0.7)),
    Baseline(LogNormal([1.0, 3.0], [0.4, 1.5]), LogNormalFrailty(0.7)),
]
GRID = np.array([0.3, 1.0, 2.9, 4.5, 9.0, 11.0, 25.0])


@pytest.mark.parametrize("model", SMOOTH, ids=lambda m: type(m).__name__)
class TestSmooth:
    def test_hazard_is_the_slope_of_the_cumulative_hazard(self, model):
        h = 1e-5
        slope = (model.cumulative_hazard(GRID[:, None] + h) - model.cumulative_hazard(GRID[:, None] - h)) / (2 * h)
        np.testing.assert_allclose(model.hazard(GRID[:, None]), slope, rtol=2e-5)

    def test_inverse(self, model):
        t = model.time_at(model.cumulative_hazard(GRID[:, None]))
        np.testing.assert_allclose(t, np.broadcast_to(GRID[:, None], t.shape), rtol=1e-6)

    def test_starts_at_one(self, model):
        np.testing.assert_allclose(model.survival(0.0), 1.0, atol=1e-15)
        np.testing.assert_array_equal(model.sample(0.0), [0.0, 0.0])

    def test_select_is_the_model_of_one_agent(self, model):
        one = model.select(1)
        assert model.lead == (2,)
        assert one.lead == ()
        np.testing.assert_allclose(one.survival(GRID), model.survival(GRID[:, None])[:, 1], rtol=1e-12)

    def test_samples_have_survival_to_the_power_theta(self, model):
        u = (np.arange(2000) + 0.5) / 2000
        theta = 2.5
        t = model.sample(u[:, None], theta)
        for x in (1.0, 5.0):
            np.testing.assert_allclose(np.mean(t > x, axis=0), model.survival(x) ** theta, atol=1e-3)


def test_batch_and_agents_broadcast():
    rng = np.random.default_rng(0)
    scale = rng.uniform(1, 10, (4, 6))  # seeds, agents
    t = Weibull(scale, 1.5).sample(rng.random((7, 4, 6)), rng.gamma(2, 0.5, (7, 4, 1)))
    assert t.shape == (7, 4, 6)


@pytest.mark.parametrize("fit", [fit_exponential, fit_weibull, fit_log_normal, fit_log_logistic])
def test_rows_are_fitted_apart_and_weight_zero_is_absent(fit):
    rng = np.random.default_rng(1)
    t = rng.weibull(1.3, (3, 2, 40)) * 10
    d = rng.random(t.shape) < 0.7
    weights = (rng.random(t.shape) < 0.8).astype(float)
    t[weights == 0] = np.nan
    together = fit(t, d, weights)
    alone = fit(t[2, 1][weights[2, 1] > 0], d[2, 1][weights[2, 1] > 0])
    np.testing.assert_allclose(together.model.select((2, 1)).survival(GRID), alone.model.survival(GRID), rtol=1e-8)
    np.testing.assert_allclose(together.log_likelihood[2, 1], alone.log_likelihood, rtol=1e-10)
    assert together.converged.all()


@pytest.mark.parametrize("fit", [fit_weibull, fit_log_normal, fit_log_logistic, fit_exponential])
def test_without_events_nothing_ends(fit):
    result = fit([[1.0, 2.0], [1.0, 2.0]], [[False, False], [True, True]])
    assert result.converged.tolist() == [False, True]
    assert result.model.survival(1e6)[0] == 1.0
    assert np.isposinf(result.model.sample(0.5)[0])


@pytest.mark.parametrize("fit", [fit_weibull, fit_log_normal, fit_log_logistic])
def test_a_single_time_does_not_break_the_fit(fit):
    model = fit([3.0, 3.0], [True, True]).model
    assert model.survival(2.0) > 0.99
    assert model.survival(4.0) < 0.01


def test_a_zero_time_is_taken():
    assert np.isfinite(fit_weibull([0.0, 1.0, 2.0], [True, True, True]).model.scale_s)


def test_fits_maximise_their_own_likelihood():
    rng = np.random.default_rng(3)
    t, d = rng.gamma(2, 5, 60), rng.random(60) < 0.6
    for fit in (fit_weibull, fit_log_normal, fit_log_logistic):
        best = fit(t, d)
        for bend in (0.99, 1.01):
            mu, sigma = best.model.location, best.model.spread
            for other in (best.model.from_location(mu * bend, sigma), best.model.from_location(mu, sigma * bend)):
                assert other.log_likelihood(t, d).sum() < best.log_likelihood


def test_late_entries_leave_the_exponential_memoryless():
    t, entry = np.array([5.0, 8.0, 9.0]), np.array([1.0, 2.0, 3.0])
    fit = fit_exponential(t, [True] * 3, entry_s=entry)
    assert fit.model.scale_s == fit_exponential(t - entry, [True] * 3).model.scale_s
    assert fit.log_likelihood == pytest.approx(fit.model.log_likelihood(t, [True] * 3, entry).sum())
    rates = fit_piecewise(t, [True] * 3, [100.0], entry_s=entry).model.rates
    assert rates[0] == pytest.approx(1 / fit.model.scale_s)


def test_steps():
    model = StepSurvival([[1.0, 2.0], [4.0, np.inf]], [[0.5, 0.0], [0.3, 0.3]])
    np.testing.assert_array_equal(model.survival(3.0), [0.0, 1.0])
    np.testing.assert_array_equal(model.survival_before(4.0), [0.0, 1.0])
    np.testing.assert_array_equal(model.hazard(4.0), [0.0, 0.7])
    np.testing.assert_array_equal(model.time_at(np.inf), [2.0, np.inf])
    np.testing.assert_allclose(model.with_hazard_ratio([2.0, 2.0]).survival(4.0), [0.0, 0.09])
    assert model.log_likelihood(4.0, True)[1] == pytest.approx(np.log(0.7))


def test_piecewise_never_ending():
    model = PiecewiseConstant([1.0], [1.0, 0.0])
    assert np.isposinf(model.time_at(2.0))
    assert model.survival(np.inf) == pytest.approx(np.exp(-1))


def test_competing_exponentials_in_closed_form():
    model = CompetingRisks(Exponential(10.0), Exponential(30.0))
    t = np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(model.incidence(t), 0.75 * -np.expm1(-t * (1 / 10 + 1 / 30)), rtol=1e-9)
    np.testing.assert_allclose(model.time_at(-np.log(1 - model.incidence(t))), t, rtol=1e-6)
    assert np.isposinf(model.quantile(0.8))


@pytest.mark.parametrize(
    "call",
    [
        lambda: fit_weibull([-1.0], [True]),
        lambda: fit_weibull([np.nan], [True]),
        lambda: fit_weibull([1.0], [True], [-1.0]),
        lambda: PiecewiseConstant([2.0, 1.0], [1, 1, 1]),
        lambda: PiecewiseConstant([1.0], [1.0]),
        lambda: life_table([1.0], [9]),
        lambda: survival.Prior(-1.0),
        lambda: survival.Prior(1.0, weight=0.0),
        lambda: survival.GammaFrailty(-1.0),
        lambda: survival.FrailtyProcess(survival.GammaFrailty(1.0), rho=1.0),
        lambda: survival.cause_codes(["on strike"]),
        lambda: survival.OnlineLogTime(Weibull, shortest_s=2.0, longest_s=1.0),
        lambda: survival.OnlineExponential().update(survival.OnlineExponential().init((), 2), 1.0, True, agent=2),
        lambda: survival.fit_accelerated(Weibull, [1.0], [True], [[np.nan]]),
    ],
)
def test_what_is_refused(call):
    with pytest.raises(InvalidInputError):
        call()


def test_public_names_are_sorted_and_exist():
    assert survival.__all__ == sorted(survival.__all__)
    assert all(hasattr(survival, name) for name in survival.__all__)
