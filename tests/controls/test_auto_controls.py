"""auto with a part broken: the tests of that part must notice."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bot_orch.arrays import allocate
from bot_orch.core.alignment.dual import AutoLambda
from bot_orch.core.alignment.gaps import Gaps
from bot_orch.core.alignment.units import Relative
from bot_orch.policies.auto import memory
from bot_orch.policies.auto.kinds import steps
from bot_orch.policies.auto.policy import Auto
from bot_orch.policies.auto.state import AutoState
from bot_orch.rng import generator
from bot_orch.testing import policies as checks


def test_a_cheat_that_sets_the_standard(monkeypatch):
    """If agents not known yet did not count as close, whoever is known first would be the measure of all others."""
    first = Relative(np.array([1.0, 0.0]), np.array([0.9, 0.0]), np.array([True, False]))
    assert AutoLambda().excess(first)[0] > 0.2

    def of_the_known(distance, known, share=4):
        return np.sort(distance[known])[(known.sum() - 1) // share, None]

    monkeypatch.setattr("bot_orch.core.alignment.dual.closest_share", of_the_known)
    assert AutoLambda().excess(first)[0] == 0.0


def test_judging_by_the_mean_condemns_early():
    gaps, state = Gaps(1), allocate(Gaps(1).schema, (), 2)
    for agent, value in ((0, 0.2), (0, 0.3), (1, 0.6), (1, 1.2)):
        gaps.see_gap(state, np.array(agent), np.array(value))
    gaps.see_unit(state, np.array(1.0))
    unit = gaps.unit(state)
    budget = AutoLambda().budget(gaps.mean(state, unit), state["count"] >= 2)
    assert gaps.lower(state, unit)[1] < budget[0] < gaps.mean(state, unit)[1]


def error_of_solver(block, n=150):
    """How far fitted values of the first member lie from those of the linear system solved at once."""
    rng = generator("replay")
    state = AutoState(**allocate(Auto(capacity=256).schema(2), (), 2))
    x, agent, reward = rng.normal(size=(n, 2)), rng.integers(2, size=n), rng.random(n)
    for t in range(n):
        steps("plain").learn(state, int(agent[t]), reward[t], x[t], np.full(2, np.nan), float(t), block, True)
    scaled = x * memory.scale_of(state)
    near, p = np.exp(-cdist(scaled, scaled)), memory.PRIORS[0]
    whole = p[5] * near + np.equal.outer(agent, agent) * (p[0] + p[1] * near)
    exact = np.linalg.solve(whole + np.eye(n), reward - state.levels[0])
    return float(np.abs(whole @ (state.alpha[0, :n] - exact)).max())


def test_without_steps_for_old_rows_the_solution_is_wrong():
    assert error_of_solver(block=8) < 0.1
    assert error_of_solver(block=1) > 0.15


def test_a_cursor_that_is_not_saved(monkeypatch):
    real = checks.Orchestrator.from_json.__func__

    def lossy(cls, text):
        router = real(cls, text)
        router._state.parts["policy"]["counters"][1] = 3
        return router

    monkeypatch.setattr(checks.Orchestrator, "from_json", classmethod(lossy))
    with pytest.raises(AssertionError, match="restored"):
        checks.check_round_trip(Auto())
