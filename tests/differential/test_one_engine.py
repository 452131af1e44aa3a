"""What the league measures is what a user runs: live router and batched replay agree to 1e-12.

Here every combination plays a short stream, and a few play the whole one. The whole grid, 576 cells of 2000 rounds, is
``python tests/differential/full.py``.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cells import (
    LAMBDAS,
    POLICIES,
    SIGNALS,
    TIMINGS,
    Cell,
    Recorder,
    batched,
    differences,
    one_by_one,
)

from bot_orch.core.engine import Engine

GRID = list(itertools.product(SIGNALS, LAMBDAS, TIMINGS, POLICIES))
#: Long streams and many agents: every signal, lambda, timing and policy occurs.
WHOLE = [
    Cell("embeddings", "auto", "late", "thompson-beta", 58, 2000, 1),
    Cell("labels", 0.3, "censored", "bot", 58, 2000, 1),
    Cell("latency", 1.0, "at once", "linucb", 58, 2000, 1),
    Cell("cost", 0.0, "late", "bot", 4, 2000, 2),
    Cell("none", "auto", "at once", "auto", 4, 2000, 1),
    Cell("embeddings", "auto", "censored", "auto", 58, 300, 2),
    Cell("text", 0.0, "late", "auto", 4, 1100, 2),
    Cell("text", "auto", "at once", "linucb", 4, 600, 2),
]


@pytest.mark.parametrize(("signal", "timing"), list(itertools.product(SIGNALS, TIMINGS)), ids=str)
def test_live_and_replayed_are_equal(signal, timing):
    for lambda_, policy in itertools.product(LAMBDAS, POLICIES):
        assert not differences(Cell(signal, lambda_, timing, policy, 4, 60, 2))


@pytest.mark.parametrize("cell", WHOLE, ids=str)
def test_long_streams_are_equal(cell):
    assert not differences(cell)


def test_the_grid_is_the_one_promised():
    assert len(GRID) == 6 * 4 * 3 * 4


CELL = Cell("embeddings", 0.3, "late", "bot", 4, 120, 2)


class IgnoresCosts(Recorder):
    """A replay that never tells the policy what agents cost."""

    def __init__(self, policy, setup, *args, **settings):
        super().__init__(policy, replace(setup, cost_weight=0.0), *args, **settings)


class LearnsAtOnce(Recorder):
    """A replay that pretends that every outcome came before the next choice."""

    def choose(self, before, u):
        self._waiting[:] = 0.0
        return super().choose(before, u)


def native(router):
    router.reconfigure(replace(router.settings, units="native"), router.members)


@pytest.mark.parametrize(
    ("cell", "player"),
    [(replace(CELL, signal="cost"), IgnoresCosts), (replace(CELL, policy="auto"), LearnsAtOnce)],
    ids=["ignores costs", "forgets what is pending"],
)
def test_control_a_replay_of_its_own_is_caught(cell, player):
    assert differences(cell, many=batched(cell, player))


def test_control_native_units_are_caught():
    assert "penalty" in differences(CELL, one=one_by_one(CELL, native)) or "chose" in differences(
        CELL, one=one_by_one(CELL, native)
    )


def test_control_a_floor_for_each_agent_is_caught(monkeypatch):
    def each_its_own(p, share, eligible=None):
        mask = np.ones(p.shape, bool) if eligible is None else np.broadcast_to(eligible, p.shape)
        n = mask.sum(axis=-1, keepdims=True)
        least = np.minimum(share, 1.0 / n)
        return np.where(mask, (1.0 - n * least) * p + least, 0.0)

    live = one_by_one(CELL)
    monkeypatch.setattr("bot_orch.numerics.choice.with_uniform_share", each_its_own)
    assert differences(CELL, one=live)


def test_control_another_unit_is_caught(monkeypatch):
    live = one_by_one(CELL)
    monkeypatch.setattr("bot_orch.core.alignment.model.settled_unit", lambda unit, *_, **__: 1.01 * unit)
    assert differences(CELL, one=live)


def test_control_a_reward_imputed_for_what_was_cut_off_is_caught(monkeypatch):
    cell = replace(CELL, timing="censored")
    live = one_by_one(cell)
    learn = Engine.learn

    def halves(self, parts, names, feedback, *, learned, **rest):
        reward = np.where(feedback.reward == 0.0, 0.5, feedback.reward)
        return learn(self, parts, names, replace(feedback, reward=reward, earned=None), learned=learned, **rest)

    monkeypatch.setattr(Engine, "learn", halves)
    assert differences(cell, one=live)
