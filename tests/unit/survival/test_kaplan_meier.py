"""Kaplan-Meier and Aalen-Johansen against lifelines, and one outcome at a time against all at once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bot_orch.arrays import decode, encode, insert_agent, remove_agent
from bot_orch.survival import Cause, OnlineKaplanMeier, completion_survival, kaplan_meier, life_table

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # lifelines' own, while it is imported
    import lifelines

GRID = np.geomspace(0.01, 300, 50)


def right_censored(seed):
    if seed == "fixed":  # ties, a censoring tied with an event, a long tail
        t = np.array([6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35], dtype=float)
        return t, np.arange(21) < 9
    rng = np.random.default_rng(seed)
    t = rng.weibull(rng.uniform(0.7, 2.5), 150) * rng.uniform(0.1, 1000)
    c = rng.exponential(np.median(t) * 2, 150)
    return np.minimum(t, c), t <= c


@pytest.mark.parametrize("seed", ["fixed", 1, 2, 3])
def test_kaplan_meier_is_that_of_lifelines(seed):
    t, d = right_censored(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = lifelines.KaplanMeierFitter().fit(t, d)
    grid = np.linspace(0, t.max() * 1.1, 200)
    for ours in (kaplan_meier, completion_survival):  # the same without failures
        np.testing.assert_allclose(ours(life_table(t, d)).survival(grid), other.predict(grid).to_numpy(), atol=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_completion_with_failures_is_the_aalen_johansen_of_lifelines(seed):
    rng = np.random.default_rng(seed)
    t = rng.exponential(10, 200)  # no ties: lifelines would move them at random
    cause = rng.integers(0, 3, 200)
    table = life_table(t, cause)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = lifelines.AalenJohansenFitter(calculate_variance=False).fit(t, cause, event_of_interest=1)
    curve = other.cumulative_density_.iloc[:, 0]
    np.testing.assert_allclose(1 - completion_survival(table).levels, curve.loc[table.times_s], atol=1e-12)


def stream(seed, n, scale=10.0, shape=1.5):
    rng = np.random.default_rng(seed)
    t, c = scale * rng.weibull(shape, n), rng.exponential(2 * scale, n)
    return np.minimum(t, c), t <= c


def streamed(online, t, cause):
    state = online.init((), 1)
    for row in zip(t, cause, strict=True):
        online.update(state, *row, agent=0)
    return state


@pytest.mark.parametrize("n", [3, 30, 400])
def test_streaming_equals_batch(n):
    t, d = stream(n, n)
    online = OnlineKaplanMeier(capacity=512)
    model = online.model(streamed(online, t, d))
    expected = completion_survival(life_table(t, d)).survival(GRID)
    np.testing.assert_allclose(model.survival(GRID[:, None])[:, 0], expected, atol=1e-12)


def test_seeds_step_together_and_agents_come_and_go():
    online = OnlineKaplanMeier(capacity=512)
    rng = np.random.default_rng(7)
    seeds, agents, rounds = 3, 2, 25
    t, d = rng.gamma(2, 5, (rounds, seeds)), rng.random((rounds, seeds)) < 0.8
    chosen = rng.integers(0, agents, (rounds, seeds))
    state = online.init((seeds,), agents)
    for r in range(rounds):
        online.update(state, t[r], d[r], agent=chosen[r])
    together = online.model(state)
    assert together.lead == (seeds, agents)
    mine = np.flatnonzero(chosen[:, 2] == 1)
    expected = online.model(streamed(online, t[mine, 2], d[mine, 2])).survival(GRID[:, None])[:, 0]
    np.testing.assert_allclose(together.select((2, 1)).survival(GRID), expected, atol=1e-9)

    saved = decode(encode(state))
    insert_agent(online.schema, saved, batch_ndim=1)
    assert online.model(saved).lead == (seeds, 3)
    np.testing.assert_array_equal(online.model(saved).survival(5.0)[:, 2], 1.0)
    remove_agent(online.schema, saved, 0, batch_ndim=1)
    np.testing.assert_allclose(online.model(saved).select((2, 0)).survival(GRID), expected, atol=1e-9)


def test_a_full_table_stays_close_to_kaplan_meier():
    t, d = stream(11, 4000)
    online = OnlineKaplanMeier(capacity=128)
    state = streamed(online, t, d)
    exact = completion_survival(life_table(t, d))
    gap = np.abs(online.model(state).survival(t[:, None])[:, 0] - exact.survival(t))
    assert online.table(state).exits.sum() == pytest.approx(4000)
    assert gap.max() < 0.02  # half a step of one table entry; sampling error at n = 4000 is about 0.01


def test_the_table_tells_causes_apart():
    online = OnlineKaplanMeier(capacity=8)
    state = streamed(online, [1.0, 2.0, 3.0], [Cause.CRASHED, Cause.COMPLETED, Cause.CENSORED])
    exact = completion_survival(life_table([1.0, 2.0, 3.0], [2, 1, 0]))
    np.testing.assert_allclose(online.model(state).survival(GRID[:, None])[:, 0], exact.survival(GRID))
