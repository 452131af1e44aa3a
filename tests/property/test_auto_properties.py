"""Properties of auto's choice and memory."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bot_orch.arrays import allocate
from bot_orch.policies.auto.policy import Auto, coupled_randucb
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


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), unit, st.floats(-1e3, 1e3)), min_size=1, max_size=40), st.integers(2, 8))
def test_estimates_stay_finite_and_near_the_rewards(history, capacity):
    policy = Auto(capacity=capacity, block=3)
    state = allocate(policy.schema(1), (), 3)
    for t, (agent, reward, x) in enumerate(history, start=1):
        seen = np.eye(3, dtype=bool)[agent]
        feedback = Feedback(t, np.array(agent), seen, np.full(3, reward), np.full(3, 1 / 3), np.zeros(3), np.array([x]))
        policy.update(state, feedback)
    choice = policy.choose(state, Situation(len(history) + 1, np.zeros(3), None, np.array([0.0])))
    assert np.isfinite(choice.estimate).all() and np.all(choice.exploration > 0.0)
    assert np.all(np.abs(choice.estimate - 0.5) < 1.5)
