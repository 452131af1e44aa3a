"""Every estimate against lifelines, on a fixed and on random right-censored data sets.

lifelines stops its optimiser at a gradient of about 1e-6, so parameters of its univariate fits are good to about 1e-5.
Its Weibull, log-normal and log-logistic fits are therefore taken further with its own negative log-likelihood and
scipy's tightest optimiser, and parameters are compared to 1e-6 relative; the likelihood of ours is never below theirs.
What lifelines has in closed form is compared to 1e-12 without help. Regressions are compared at their tightest options,
to 1e-6, but for the log-normal one, whose optimiser stops at 2e-6; Cox's model to 1e-6.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bot_orch.survival import (
    Cause,
    Exponential,
    LogLogistic,
    LogNormal,
    Weibull,
    cumulative_incidence,
    fit_accelerated,
    fit_exponential,
    fit_log_logistic,
    fit_log_normal,
    fit_piecewise,
    fit_proportional,
    fit_weibull,
    kaplan_meier,
    life_table,
    nelson_aalen,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # lifelines' own, while it is imported
    import lifelines
    import pandas as pd


def right_censored(seed):
    if seed == "fixed":  # ties, a censoring tied with an event, a long tail
        t = np.array([6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35], dtype=float)
        return t, np.arange(21) < 9
    rng = np.random.default_rng(seed)
    t = rng.weibull(rng.uniform(0.7, 2.5), 150) * rng.uniform(0.1, 1000)
    c = rng.exponential(np.median(t) * 2, 150)
    return np.minimum(t, c), t <= c


DATA = ["fixed", 1, 2, 3]


@pytest.fixture(params=DATA, ids=str)
def data(request):
    return right_censored(request.param)


def theirs(fitter, t, d, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitter.fit(t, d, **options)


def test_kaplan_meier_and_nelson_aalen(data):
    t, d = data
    table = life_table(t, d)
    km = theirs(lifelines.KaplanMeierFitter(), t, d)
    grid = np.linspace(0, t.max() * 1.1, 200)
    np.testing.assert_allclose(kaplan_meier(table).survival(grid), km.predict(grid).to_numpy(), atol=1e-12)
    na = theirs(lifelines.NelsonAalenFitter(nelson_aalen_smoothing=False), t, d)
    np.testing.assert_allclose(nelson_aalen(table), na.predict(table.times_s).to_numpy(), atol=1e-12)


def test_kaplan_meier_with_weights_and_late_entries(data):
    t, d = data
    rng = np.random.default_rng(0)
    weights, entry = rng.integers(1, 5, t.size), t * rng.uniform(0, 0.3, t.size)
    km = theirs(lifelines.KaplanMeierFitter(), t, d, weights=weights)
    ours = kaplan_meier(life_table(t, d, weights)).survival(t)
    np.testing.assert_allclose(ours, km.predict(t).to_numpy(), atol=1e-12)
    km = theirs(lifelines.KaplanMeierFitter(), t, d, entry=entry)
    ours = kaplan_meier(life_table(t, d, entry_s=entry)).survival(t)
    np.testing.assert_allclose(ours, km.predict(t).to_numpy(), atol=1e-12)


def test_exponential(data):
    t, d = data
    ours, other = fit_exponential(t, d), theirs(lifelines.ExponentialFitter(), t, d)
    np.testing.assert_allclose(ours.model.scale_s, other.lambda_, rtol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood, other.log_likelihood_, atol=1e-6)


UNIVARIATE = [
    (fit_weibull, lifelines.WeibullFitter, ("scale_s", "shape"), ("lambda_", "rho_")),
    (fit_log_normal, lifelines.LogNormalFitter, ("mu", "sigma"), ("mu_", "sigma_")),
    (fit_log_logistic, lifelines.LogLogisticFitter, ("scale_s", "shape"), ("alpha_", "beta_")),
]


@pytest.mark.parametrize(("fit", "fitter", "mine", "names"), UNIVARIATE, ids=lambda v: getattr(v, "__name__", ""))
def test_parametric(data, fit, fitter, mine, names):
    t, d = data
    ours, other = fit(t, d), theirs(fitter(), t, d)
    parameters = np.array([getattr(ours.model, name) for name in mine])
    loose = np.array([getattr(other, name) for name in names])
    assert ours.converged
    np.testing.assert_allclose(parameters, loose, rtol=1e-4)
    assert ours.log_likelihood >= other.log_likelihood_ - 1e-9
    np.testing.assert_allclose(ours.log_likelihood, other.log_likelihood_, atol=1e-6)
    np.testing.assert_allclose(parameters, refined(other, loose, t, d), rtol=1e-6)
    np.testing.assert_allclose(ours.model.log_likelihood(t, d).sum(), ours.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(ours.model.cumulative_hazard(t), other.cumulative_hazard_at_times(t), rtol=1e-3)


def refined(fitter, start, t, d):
    """Newton's method with numerical derivatives on the negative log-likelihood of lifelines itself."""
    from scipy.optimize import root

    def hazard(p):
        return np.asarray(fitter._cumulative_hazard(p, t), dtype=float)

    def log_likelihood(p):
        return float(np.sum(np.where(d, np.asarray(fitter._log_hazard(p, t), dtype=float), 0.0) - hazard(p)))

    def slope(p):
        h = 1e-3 * np.maximum(np.abs(p), 1e-2)
        steps = np.diag(h)
        coefficient = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}  # sixth-order central differences
        return np.array(
            [
                sum(c * (log_likelihood(p + k * e) - log_likelihood(p - k * e)) for k, c in coefficient.items())
                for e in steps
            ]
        )

    return root(slope, start, tol=1e-12).x


def test_piecewise(data):
    t, d = data
    breaks = np.quantile(t, [0.3, 0.7]) * 1.01  # not at an event time, where conventions differ
    ours = fit_piecewise(t, d, breaks)
    other = theirs(lifelines.PiecewiseExponentialFitter(list(breaks)), t, d)
    scales = np.array([other.lambda_0_, other.lambda_1_, other.lambda_2_])
    assert ours.log_likelihood >= other.log_likelihood_ - 1e-9
    np.testing.assert_allclose(ours.log_likelihood, other.log_likelihood_, atol=1e-6)
    np.testing.assert_allclose(ours.model.rates, 1 / scales, rtol=1e-4)  # as far as their optimiser goes


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_aalen_johansen(seed):
    rng = np.random.default_rng(seed)
    t = rng.exponential(10, 200)  # no ties: lifelines would move them at random
    cause = rng.integers(0, 3, 200)
    table = life_table(t, cause)
    for code in (Cause.COMPLETED, Cause.CRASHED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = lifelines.AalenJohansenFitter(calculate_variance=False).fit(t, cause, event_of_interest=int(code))
        curve = other.cumulative_density_.iloc[:, 0]
        np.testing.assert_allclose(cumulative_incidence(table, code), curve.loc[table.times_s], atol=1e-12)


def with_features(seed, n=200):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n)])
    t = 20 * np.exp(x @ [0.5, -0.8]) * rng.weibull(1.5, n)
    c = rng.uniform(5, 60, n)
    return np.minimum(t, c), t <= c, x


REGRESSIONS = [
    (Weibull, lifelines.WeibullAFTFitter),
    (LogNormal, lifelines.LogNormalAFTFitter),
    (LogLogistic, lifelines.LogLogisticAFTFitter),
]


@pytest.mark.parametrize(("kind", "fitter"), REGRESSIONS, ids=lambda v: v.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_accelerated_time(kind, fitter, seed):
    t, d, x = with_features(seed)
    ours = fit_accelerated(kind, t, d, x)
    frame = pd.DataFrame({"t": t, "d": d, "a": x[:, 0], "b": x[:, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = fitter(penalizer=0.0).fit(frame, "t", "d", fit_options={"ftol": 1e-16})
    assert ours.converged
    assert ours.log_likelihood >= other.log_likelihood_ - 1e-8
    np.testing.assert_allclose(ours.log_likelihood, other.log_likelihood_, atol=1e-8)
    first = other.params_.index.get_level_values(0)[0]
    tolerance = 1e-5 if kind is LogNormal else 1e-6  # their log-normal fit stops short whatever one asks for
    np.testing.assert_allclose(ours.model.coefficients, other.params_[first][["a", "b"]], rtol=tolerance)


@pytest.mark.parametrize("seed", [1, 2])
def test_exponential_regression_is_the_weibull_of_shape_one(seed):
    t, d, x = with_features(seed)
    ours = fit_accelerated(Exponential, t, d, x)
    score = np.einsum("n,nj->j", d - ours.model.at(x).cumulative_hazard(t), x)
    np.testing.assert_allclose(score, 0, atol=1e-8)


@pytest.mark.parametrize("seed", [1, 2])
def test_proportional_hazards_with_a_break_at_every_event_is_cox(seed):
    t, d, x = with_features(seed)
    events = np.sort(t[d])
    # Where censoring happens just after an event, exposure within intervals does not tell people apart: Cox's model.
    t = np.where(d, t, events[np.maximum(np.searchsorted(events, t) - 1, 0)])
    ours = fit_proportional(t, d, x, breaks_s=events)
    frame = pd.DataFrame({"t": t, "d": d, "a": x[:, 0], "b": x[:, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cox = lifelines.CoxPHFitter().fit(frame, "t", "d", fit_options={"precision": 1e-12, "r_precision": 1e-14})
    np.testing.assert_allclose(ours.model.coefficients, cox.params_, rtol=1e-6)
