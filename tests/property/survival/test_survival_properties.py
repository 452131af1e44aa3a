"""What must hold for any parameters and any right-censored data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bot_orch.survival import (
    Exponential,
    GammaFrailty,
    LogNormal,
    OnlineKaplanMeier,
    Weibull,
    completion_survival,
    kaplan_meier,
    life_table,
    reward_of,
)

some = settings(max_examples=40, deadline=None)
times = st.floats(1e-3, 1e4)
positive = st.floats(0.05, 50.0)
shapes = st.floats(0.2, 8.0)

models = st.one_of(
    st.builds(Exponential, positive),
    st.builds(Weibull, positive, shapes),
    st.builds(LogNormal, st.floats(-3, 5), st.floats(0.1, 4)),
    st.builds(
        lambda rows: completion_survival(life_table([t for t, _ in rows], [c for _, c in rows])),
        st.lists(st.tuples(times, st.integers(0, 4)), min_size=1, max_size=20),
    ),
)


@st.composite
def data(draw):
    rows = draw(st.lists(st.tuples(times, st.integers(0, 4)), min_size=1, max_size=40))
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def stream(online, t, cause):
    state = online.init((), 1)
    for row in zip(t, cause, strict=True):
        online.update(state, *row, agent=0)
    return online.model(state).select(0)


@some
@given(models, st.lists(times, min_size=2, max_size=30))
def test_survival_starts_at_one_and_never_rises(model, t):
    s = model.survival(np.sort(t))
    assert model.survival(0.0) == pytest.approx(1.0, abs=1e-12)
    assert np.all((s >= 0) & (s <= 1))
    assert np.all(np.diff(s) <= 1e-12)


@some
@given(models, st.floats(0, 0.999), st.floats(0.1, 5.0))
def test_a_quantile_is_reached_and_not_before(model, p, theta):
    t = float(model.sample(p, theta))
    goal = (1 - p) ** (1 / theta)
    assume(np.isfinite(t) and t > 1e-250)
    assert model.survival(t * (1 + 1e-6)) <= goal + 1e-6
    assert model.survival(t * (1 - 1e-6)) >= goal - 1e-3 * (1 - goal) - 1e-5


@some
@given(models, times, st.integers(0, 4), st.floats(0.01, 20.0), st.sampled_from(["zero", "expected"]))
def test_reward_lies_in_the_unit_interval(model, t, cause, theta, censored):
    reward = reward_of(model, t, cause, theta, censored=censored)
    assert 0.0 <= reward <= 1.0
    assert (reward == 0.0) or cause in (0, 1)
    other = reward_of(model, t, cause, theta, censored=censored, reference=Exponential(10.0))
    assert 0.0 <= other <= 1.0


@some
@given(data(), st.randoms(use_true_random=False))
def test_streaming_table_equals_batch_whatever_the_order(rows, random):
    t, cause = rows
    order = list(range(t.size))
    random.shuffle(order)
    streamed = stream(OnlineKaplanMeier(64), t[order], cause[order])
    np.testing.assert_allclose(streamed.survival(t), completion_survival(life_table(t, cause)).survival(t), atol=1e-12)


@some
@given(data())
def test_completed_failed_and_running_add_up_to_one(rows):
    t, cause = rows
    table = life_table(t, cause)
    swapped = life_table(t, np.where(cause == 1, 2, np.minimum(cause, 2) - (cause > 1)))  # failures as completions
    running = kaplan_meier(table, causes=(1, 2, 3, 4)).levels
    np.testing.assert_allclose(
        2 - completion_survival(table).levels - completion_survival(swapped).levels + running, 1.0, atol=1e-12
    )


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(times, st.booleans(), st.integers(0, 2)), max_size=12))
def test_an_agents_outcomes_touch_no_other_agent(rows):
    online = OnlineKaplanMeier(32)
    together, alone = online.init((), 3), online.init((), 3)
    for t, event, agent in rows:
        online.update(together, t, event, agent=agent)
        if agent == 1:
            online.update(alone, t, event, agent=1)
    for name in online.schema:
        np.testing.assert_array_equal(together[name][1], alone[name][1])


@some
@given(st.floats(0.05, 3), st.integers(0, 5), st.floats(0, 20))
def test_outcomes_move_the_posterior_the_right_way(variance, events, hazard):
    law = GammaFrailty(variance)
    mean = law.posterior_mean(events, hazard)
    assert mean > 0
    assert law.posterior_mean(events + 1, hazard) > mean  # one more finished: easier
    assert law.posterior_mean(events, hazard + 1) < mean  # one more hazard survived: harder
