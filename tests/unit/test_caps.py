"""Caps on propensities: exact, drawn with, and derived again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.errors import InvalidInputError
from bot_orch.numerics.choice import capped


def most(new, b=1.0):
    return np.array([new, b, 1.0])


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda w: sum(w) > 0.01), st.floats(0.01, 0.99))
def test_the_cap_holds_and_the_rest_keeps_its_proportions(weights, cap):
    p = np.array(weights) / sum(weights)
    found = capped(p, most(cap))
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert found[0] <= cap or found[0] == p[0] <= cap
    if p[0] <= cap:
        assert found is p
    else:
        assert found[0] == cap  # exactly
    if p[1] > 0 and p[2] > 0:
        assert found[1] * p[2] == pytest.approx(found[2] * p[1])


def test_only_eligible_agents_get_the_rest_and_a_lone_agent_keeps_everything():
    p = np.array([1.0, 0.0, 0.0])
    assert capped(p, most(0.25), np.array([True, False, True])).tolist() == [0.25, 0.0, 0.75]
    assert capped(p, most(0.25), np.array([True, False, False])) is p
    half = np.array([0.5, 0.5, 0.0])
    found = capped(half, most(0.1, 0.2))
    np.testing.assert_allclose(found, [0.1, 0.2, 0.7], rtol=1e-15)


def test_rows_of_a_batch_are_capped_each_by_itself():
    p, caps = np.array([[0.6, 0.4, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]), np.array([0.3, 1.0, 1.0])
    may = np.array([[True, True, True], [True, True, True], [True, False, False]])
    rows = [capped(row, caps, each) for row, each in zip(p, may, strict=True)]
    np.testing.assert_allclose(capped(p, caps, may), rows, rtol=1e-15)


def test_a_better_agent_is_held_at_its_cap_and_drawn_as_recorded():
    router = Orchestrator(["old", "new"], "bot", seed=3, floor=0.02)
    drawn = 0
    for number in range(2000):
        decision = router.decide(Task(f"t-{number}"), caps={"new": 0.1})
        assert decision.propensities[1] <= 0.1
        drawn += decision.agent == "new"
        router.observe(decision.id, Outcome.completed(reward=0.9 if decision.agent == "new" else 0.1))
    assert decision.propensities[1] == 0.1  # the policy wants more
    assert 140 < drawn < 260  # ten per cent of 2000


def test_wrong_caps_are_named():
    router = Orchestrator(["a", "b"])
    with pytest.raises(InvalidInputError, match="'c' is not an agent; choose from a, b"):
        router.decide(Task("t"), caps={"c": 0.1})
    with pytest.raises(InvalidInputError, match=r"caps\.a: is 1\.5"):
        router.decide(Task("t"), caps={"a": 1.5})
