"""Broken constraints that the checks of ``tests/unit/constraints`` must catch."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bot_orch.core.constraints import Budget, pacing
from bot_orch.core.constraints.curve import Multiplier

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "constraints"))
from limited_worlds import World, play

TWO = World(quality=(0.5, 0.9), price=(0.001, 0.003), seconds=(1.0, 1.0), noisy=False)


def spent(policy="ucb1", rounds=500, **settings):
    found = play(TWO, policy, [Budget(0.0015)], rounds=rounds, **settings)
    return found.usd[150:].mean() / 0.0015


def test_the_control_itself_holds():
    assert spent() == pytest.approx(1.0, abs=0.02)


def test_a_multiplier_that_never_moves_is_caught(monkeypatch):
    real = Multiplier.step

    def still(self, state, pending):
        return replace(real(self, state, pending), multiplier=np.zeros(state["tasks"].shape))

    monkeypatch.setattr(Multiplier, "step", still)
    assert spent() == pytest.approx(1.0, abs=0.02)  # the credit alone keeps the budget, at the cost of debts
    monkeypatch.setattr(pacing, "_CREDIT", 1e9)
    assert spent() > 1.3


def test_outcomes_that_are_never_charged_are_caught(monkeypatch):
    """Prices that rise after they were learned: without charging what was paid, the balance does not notice."""
    world = World(quality=(0.5, 0.9), price=(0.001, 0.003), seconds=(1.0, 1.0), drift=True)
    whole = play(world, "ucb1", [Budget(0.0015)], rounds=900).usd.mean() / 0.0015
    monkeypatch.setattr(Multiplier, "charge", lambda self, state, used: None)
    blind = play(world, "ucb1", [Budget(0.0015)], rounds=900).usd.mean() / 0.0015
    assert whole < 1.02 and abs(blind - 1.0) > 0.1


def test_a_floor_that_ignores_prices_is_caught(monkeypatch):
    """Evenly spread, a floor of 0.1 sends one in twenty tasks to an agent that costs 100 tasks' allowance."""
    world = World(quality=(0.5, 0.9), price=(0.0005, 0.1), seconds=(1.0, 1.0), noisy=False)
    fair = play(world, "ucb1", [Budget(0.001)], rounds=300, floor=0.1).usd.mean()
    monkeypatch.setattr(pacing, "_FLOOR_USAGE", 1e9)
    monkeypatch.setattr(pacing, "_DEBT", 1e9)
    monkeypatch.setattr(pacing, "_CREDIT", 1e9)
    even = play(world, "ucb1", [Budget(0.001)], rounds=300, floor=0.1).usd.mean()
    assert even > 3 * fair
