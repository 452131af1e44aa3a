"""Properties of auto's choice and memory."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bot_orch.arrays import allocate
from bot_orch.core import pipeline
from bot_orch.core.context import WithContext
from bot_orch.numerics.choice import coupled_randucb
from bot_orch.policies.auto import Auto
from bot_orch.policies.base import Feedback, Situation

shapes = st.tuples(st.integers(1, 3), st.integers(1, 6))
unit = st.floats(0.0, 1.0)


@given(st.data(), shapes)
def test_optimism_is_a_probability_vector(data, shape):
    location = data.draw(arrays(float, shape, elements=st.floats(-2.0, 2.0)))
    sd = data.draw(arrays(float, shape, elements=st.floats(1e-6, 2.0)))
    mask = data.draw(arrays(bool, shape, elements=st.booleans()))
    mask[:, 0] |= ~mask.any(axis=-1)
    p = coupled_randucb(location, sd, mask)
    assert np.all(p >= 0.0) and np.all(p[~mask] == 0.0)
    assert np.allclose(p.sum(axis=-1), 1.0, atol=1e-9)


@given(st.data(), st.integers(2, 6), st.floats(0.0, 0.5))
def test_a_penalty_never_helps(data, m, penalty):
    location = data.draw(arrays(float, (m,), elements=st.floats(-1.0, 1.0)))
    sd = data.draw(arrays(float, (m,), elements=st.floats(1e-3, 1.0)))
    worse = location - penalty * np.eye(m)[0]
    assert coupled_randucb(worse, sd)[0] <= coupled_randucb(location, sd)[0] + 1e-9


numbers = st.one_of(st.floats(-1e38, 1e38), st.just(float("nan")), st.floats(-3.0, 3.0))
outcomes = st.tuples(st.integers(0, 2), unit, numbers, st.integers(0, 4096), st.floats(0.0, 1.0))


def learned(policy, history):
    state = allocate(policy.schema(0), (), 3)
    for t, (agent, reward, x, code, claim) in enumerate(history, start=1):
        raw, stated = np.array([x, float(t % 5), float(code), 0.0]), np.array([claim, np.nan, 1.0])
        told = (np.eye(3, dtype=bool)[agent], np.full(3, reward), np.full(3, 1 / 3), np.zeros(3), raw)
        policy.update(state, Feedback(t, np.array(agent), *told, claims=stated if t % 2 else None))
    return state


@settings(max_examples=25, deadline=None)
@given(st.lists(outcomes, min_size=1, max_size=70), numbers, st.floats(0.0, 1.0))
def test_estimates_stay_finite_and_near_the_rewards(history, x, claim):
    policy = WithContext(Auto(), numbers=2, words=2)
    state = learned(policy, history)
    assert all(np.isfinite(array).all() for name, array in state.items() if name != "context_rows")
    raw, stated = np.array([x, 1.0, 7.0, 0.0]), np.array([claim, 0.0, np.nan])
    choice = policy.choose(state, Situation(len(history) + 1, np.zeros(3), None, raw, claims=stated))
    assert np.isfinite(choice.estimate).all() and np.all(choice.exploration > 0.0)
    assert np.all(np.abs(choice.estimate - 0.5) < 1.5) and abs(choice.propensities.sum() - 1.0) < 1e-9


@settings(max_examples=40, deadline=None)
@given(
    st.lists(outcomes, max_size=40),
    st.floats(0.01, 1.0),
    arrays(bool, (3,), elements=st.booleans()),
    arrays(float, (3,), elements=st.floats(0.0, 2.0)),
    arrays(float, (3,), elements=st.integers(0, 5)),
)
def test_a_floor_leaves_everybody_a_share(history, floor, mask, penalty, pending):
    mask[0] |= not mask.any()
    policy = WithContext(Auto(), numbers=2, words=2)
    state, raw = learned(policy, history), np.array([0.1, 1.0, 7.0, 0.0])
    situation = Situation(len(history) + 1, penalty, mask, raw, pending, penalty)
    drawn = pipeline.decide(policy, state, situation, u=0.3, floor=floor)
    p, doubt = drawn.propensities, drawn.choice.doubt
    assert np.all(p[~mask] == 0.0) and abs(p.sum() - 1.0) < 1e-9
    assert np.all(p[mask] >= floor / 4 / mask.sum() * (1 - 1e-9))
    assert np.all(doubt[~mask] == 0.0) and abs(doubt.sum() - 1.0) < 1e-9
    wanted = (1.0 - floor) * drawn.choice.propensities + 0.75 * floor * doubt + 0.25 * floor * mask / mask.sum()
    assert np.allclose(p, wanted, rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(outcomes, max_size=30), st.integers(0, 2), st.integers(1, 20))
def test_what_is_under_way_never_adds_exploration(history, agent, waiting):
    policy = Auto()
    state = allocate(policy.schema(0), (), 3)
    for t, (who, reward, *_) in enumerate(history, start=1):
        told = (np.eye(3, dtype=bool)[who], np.full(3, reward), np.full(3, 1 / 3), np.zeros(3))
        policy.update(state, Feedback(t, np.array(who), *told))
    pending = np.where(np.arange(3) == agent, float(waiting), 0.0)
    free, busy = (policy.choose(state, Situation(40, np.zeros(3), pending=each)) for each in (np.zeros(3), pending))
    assert busy.exploration[agent] < free.exploration[agent]
    others = np.arange(3) != agent
    assert np.array_equal(busy.exploration[others], free.exploration[others])
