"""One outcome at a time against all at once."""

from __future__ import annotations

import numpy as np
import pytest

from bot_orch.arrays import decode, encode, insert_agent, remove_agent
from bot_orch.survival import (
    AcceleratedLikelihood,
    Cause,
    Exponential,
    LogLogistic,
    LogNormal,
    OnlineExponential,
    OnlineKaplanMeier,
    OnlineLogTime,
    OnlinePiecewise,
    OnlineRegression,
    Prior,
    ProportionalLikelihood,
    Weibull,
    completion_survival,
    fit_accelerated,
    fit_exponential,
    fit_log_logistic,
    fit_log_normal,
    fit_piecewise,
    fit_proportional,
    fit_weibull,
    life_table,
)

GRID = np.geomspace(0.01, 300, 50)
BREAKS = (2.0, 8.0, 20.0)
PAIRS = [
    (OnlineExponential(), fit_exponential, 1e-12),
    (OnlinePiecewise(BREAKS), lambda t, d: fit_piecewise(t, d, BREAKS), 1e-12),
    (OnlineKaplanMeier(capacity=512), None, 1e-12),
    (OnlineLogTime(Weibull), fit_weibull, 1e-6),
    (OnlineLogTime(LogNormal), fit_log_normal, 1e-6),
    (OnlineLogTime(LogLogistic), fit_log_logistic, 1e-6),
    (OnlineLogTime(Exponential), fit_exponential, 1e-6),
]
FITS = [pair[0] for pair in PAIRS]
NAMES = [type(fit).__name__ + getattr(getattr(fit, "kind", None), "__name__", "") for fit in FITS]


def stream(seed, n, scale=10.0, shape=1.5):
    rng = np.random.default_rng(seed)
    t, c = scale * rng.weibull(shape, n), rng.exponential(2 * scale, n)
    return np.minimum(t, c), t <= c


def batch_model(batch, t, d):
    return completion_survival(life_table(t, d)) if batch is None else batch(t, d).model


@pytest.mark.parametrize(("online", "batch", "tolerance"), PAIRS, ids=NAMES)
@pytest.mark.parametrize("n", [3, 30, 400])
def test_streaming_equals_batch(online, batch, tolerance, n):
    t, d = stream(n, n)
    d[0] = True
    state = online.init((), 1)
    for t_s, event in zip(t, d, strict=True):
        online.update(state, t_s, event, agent=0)
    expected = batch_model(batch, t, d).survival(GRID)
    np.testing.assert_allclose(online.model(state).survival(GRID[:, None])[:, 0], expected, atol=tolerance)


@pytest.mark.parametrize("kind", [Weibull, LogNormal, LogLogistic], ids=lambda k: k.__name__)
def test_parameters_from_moments_are_those_of_the_batch_fit(kind):
    batch = {Weibull: fit_weibull, LogNormal: fit_log_normal, LogLogistic: fit_log_logistic}[kind]
    t, d = stream(5, 20_000)
    online = OnlineLogTime(kind)
    state = online.init((), t.size)  # every outcome as an agent of its own, then summed: states can be added
    online.update(state, t, d)
    state["moments"] = state["moments"].sum(axis=0, keepdims=True)
    ours, exact = online.fit(state), batch(t, d).model
    assert ours.converged.all()
    np.testing.assert_allclose(ours.model.location, exact.location, rtol=1e-6)
    np.testing.assert_allclose(ours.model.spread, exact.spread, rtol=1e-6)


@pytest.mark.parametrize("online", FITS, ids=NAMES)
def test_seeds_step_together_and_agents_come_and_go(online):
    rng = np.random.default_rng(7)
    seeds, agents, rounds = 3, 2, 25
    t, d = rng.gamma(2, 5, (rounds, seeds)), rng.random((rounds, seeds)) < 0.8
    chosen = rng.integers(0, agents, (rounds, seeds))
    state = online.init((seeds,), agents)
    for r in range(rounds):
        online.update(state, t[r], d[r], agent=chosen[r])
    together = online.model(state)
    assert together.lead == (seeds, agents)
    alone = online.init((), 1)
    for r in np.flatnonzero(chosen[:, 2] == 1):
        online.update(alone, t[r, 2], d[r, 2], agent=0)
    expected = online.model(alone).survival(GRID[:, None])[:, 0]
    np.testing.assert_allclose(together.select((2, 1)).survival(GRID), expected, atol=1e-9)

    saved = decode(encode(state))
    insert_agent(online.schema, saved, batch_ndim=1)
    assert online.model(saved).lead == (seeds, 3)
    np.testing.assert_array_equal(online.model(saved).survival(5.0)[:, 2], 1.0)
    remove_agent(online.schema, saved, 0, batch_ndim=1)
    np.testing.assert_allclose(online.model(saved).select((2, 0)).survival(GRID), expected, atol=1e-9)


@pytest.mark.parametrize("online", FITS, ids=NAMES)
def test_weight_zero_and_full_information(online):
    t, d = np.array([[3.0, 9.0], [4.0, 2.0]]), np.array([[True, True], [True, False]])
    every, one = online.init((2,), 2), online.init((2,), 2)
    online.update(every, t, d)
    for agent in (0, 1):
        online.update(one, t[:, agent], d[:, agent], agent=agent)
        online.update(one, 99.0, True, agent=agent, weight=0.0)
    for name, array in every.items():
        np.testing.assert_allclose(array, one[name], rtol=1e-12)


def test_a_prior_speaks_before_the_first_outcome_and_fades():
    for online in (
        OnlineExponential(Prior(10.0)),
        OnlinePiecewise(BREAKS, Prior(10.0)),
        OnlineLogTime(Weibull, Prior(10.0)),
    ):
        state = online.init((), 1)
        assert 0.2 < online.model(state).survival(10.0)[0] < 0.6
        for _ in range(300):
            online.update(state, 1.0, True, agent=0)
            online.update(state, 3.0, True, agent=0)
        assert online.model(state).survival(10.0)[0] < 0.05


def test_discounting_forgets():
    for online in (
        OnlineExponential(discount=0.9),
        OnlinePiecewise((50.0,), discount=0.9),
        OnlineLogTime(Weibull, discount=0.9),
    ):
        state = online.init((), 1)
        for t in [100.0, 150.0] * 50 + [1.0, 1.5] * 50:
            online.update(state, t, True, agent=0)
        assert online.model(state).quantile(0.5)[0] < 2.0


def test_a_full_table_stays_close_to_kaplan_meier():
    t, d = stream(11, 4000)
    online = OnlineKaplanMeier(capacity=128)
    state = online.init((), 1)
    for t_s, event in zip(t, d, strict=True):
        online.update(state, t_s, event, agent=0)
    exact = completion_survival(life_table(t, d))
    gap = np.abs(online.model(state).survival(t[:, None])[:, 0] - exact.survival(t))
    assert online.table(state).exits.sum() == pytest.approx(4000)
    assert gap.max() < 0.02  # half a step of one table entry; sampling error at n = 4000 is about 0.01


def test_the_table_tells_causes_apart():
    online = OnlineKaplanMeier(capacity=8)
    state = online.init((), 1)
    for t, cause in [(1.0, Cause.CRASHED), (2.0, Cause.COMPLETED), (3.0, Cause.CENSORED)]:
        online.update(state, t, cause, agent=0)
    exact = completion_survival(life_table([1.0, 2.0, 3.0], [2, 1, 0]))
    np.testing.assert_allclose(online.model(state).survival(GRID[:, None])[:, 0], exact.survival(GRID))


def features(seed, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    t = 10 * np.exp(x @ [0.6, -0.4]) * rng.weibull(1.5, n)
    c = rng.exponential(30, n)
    return np.minimum(t, c), t <= c, x


def run_regression(online, t, d, x):
    state = online.init((), 1)
    for row in zip(t, d, x, strict=True):
        online.update(state, *row, agent=0)
    return online.model(state)


@pytest.mark.parametrize("kind", [Exponential, Weibull, LogNormal, LogLogistic], ids=lambda k: k.__name__)
def test_regression_inside_the_window_is_the_batch_fit(kind):
    t, d, x = features(1, 60)
    online = OnlineRegression(AcceleratedLikelihood(kind), 2, Prior(10.0, weight=1e-9), window=64, ridge=0.0)
    ours, exact = run_regression(online, t, d, x), fit_accelerated(kind, t, d, x).model
    np.testing.assert_allclose(ours.coefficients[0], exact.coefficients, rtol=1e-6)
    np.testing.assert_allclose(ours.base.location[0], exact.base.location, rtol=1e-6)
    np.testing.assert_allclose(ours.at(x[0]).survival(5.0)[0], exact.at(x[0]).survival(5.0), rtol=1e-6)


def test_proportional_hazards_inside_the_window_is_the_batch_fit():
    t, d, x = features(2, 60)
    online = OnlineRegression(ProportionalLikelihood((5.0, 12.0)), 2, Prior(10.0, weight=1e-9), window=64, ridge=0.0)
    ours, exact = run_regression(online, t, d, x), fit_proportional(t, d, x, (5.0, 12.0)).model
    np.testing.assert_allclose(ours.coefficients[0], exact.coefficients, rtol=1e-6)
    np.testing.assert_allclose(ours.base.rates[0], exact.base.rates, rtol=1e-6)


@pytest.mark.parametrize("kind", [Exponential, Weibull, LogNormal, LogLogistic, None], ids=str)
def test_regression_beyond_the_window_converges_to_the_batch_fit(kind):
    """The distance to the batch fit becomes small beside the statistical error."""
    t, d, x = features(3, 1200)
    breaks = (5.0, 12.0)
    likelihood = ProportionalLikelihood(breaks) if kind is None else AcceleratedLikelihood(kind)
    online = OnlineRegression(likelihood, 2, Prior(10.0, weight=1e-6), window=100, ridge=0.0)
    ours = run_regression(online, t, d, x)
    exact = fit_proportional(t, d, x, breaks) if kind is None else fit_accelerated(kind, t, d, x)
    gap = np.abs(ours.coefficients[0] - exact.model.coefficients).max()
    standard_error = 1 / (1.5 * np.sqrt(d.sum()))  # of a Weibull of shape 1.5 with standard normal features
    assert 1e-8 < gap < 0.1 * standard_error


def test_regression_for_many_seeds_and_agents():
    t, d, x = features(4, 80)
    online = OnlineRegression(AcceleratedLikelihood(Weibull), 2, Prior(10.0), window=16)
    state = online.init((2,), 3)
    for row in zip(t, d, x, strict=True):
        online.update(state, *row, agent=[0, 2])
    model = online.model(state)
    alone = run_regression(online, t, d, x)
    np.testing.assert_allclose(model.coefficients[1, 2], alone.coefficients[0], rtol=1e-6)
    np.testing.assert_array_equal(model.coefficients[0, 1], 0.0)
    saved = decode(encode(state))
    insert_agent(online.schema, saved, 1)
    assert online.model(saved).coefficients.shape == (2, 4, 2)
