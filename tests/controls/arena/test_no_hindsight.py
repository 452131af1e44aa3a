"""What comes later must not change an earlier choice: a prefix of a set is played as it is in the whole set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.context import prepare
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.live import live
from bot_orch.lab.harness.players import play

ROUNDS = 120


def _drifting() -> Matrix:
    """Later tasks have larger numbers and other words."""
    rng = np.random.default_rng(8)
    n = 3 * ROUNDS
    kind, size = rng.integers(2, size=n), np.repeat([1.0, 30.0, 500.0], ROUNDS)
    raw = (rng.normal(size=(n, 3)) + kind[:, None]) * size[:, None]
    raw[rng.random(raw.shape) < 0.05] = np.nan
    text = np.array([f"part{t // ROUNDS} word{t % 11} {'sum' if each else 'essay'}" for t, each in enumerate(kind)])
    reward = (rng.random((n, 3)) < np.where(kind[:, None], [0.9, 0.2, 0.5], [0.2, 0.8, 0.5])).astype(float)
    return Matrix("drifting", ("a", "b", "c"), reward, features=raw, text=text)


def _first(matrix: Matrix, n: int) -> Matrix:
    cut = {field.name: getattr(matrix, field.name) for field in fields(matrix)}
    return replace(matrix, **{name: each[:n] for name, each in cut.items() if isinstance(each, np.ndarray)})


def check_prefix(name: str, kind: Callable[..., Replay] = Replay, *, alone: bool = False) -> None:
    """Raise ``AssertionError`` if later rows change a choice of the first rounds."""
    whole, chosen = _drifting(), []
    for matrix in (whole, _first(whole, ROUNDS)):
        replay = kind(matrix, "given", ROUNDS, seeds=[0] if alone else [0, 1])
        player = discover_entrants()[name].build(replay.setup)
        chosen.append(play(live(player, replay.setup) if alone else player, replay).agent)
    differ = np.flatnonzero((chosen[0] != chosen[1]).any(axis=1))
    assert not differ.size, f"round {differ[0] + 1}: the choice depends on tasks that come later"


class Reduced(Replay):
    """Leaks: hands our policies the context that is prepared in hindsight."""

    def __init__(self, matrix: Matrix, *arguments: Any, **options: Any) -> None:
        super().__init__(matrix, *arguments, **options)
        found = prepare(matrix.features)
        assert self.inputs is not None and found is not None
        self.inputs = replace(self.inputs, values=found, own=found.shape[1], text="")


@pytest.mark.parametrize("name", ["auto", "linucb", "lints", "thompson-beta"])
def test_choices_do_not_depend_on_later_tasks(name: str) -> None:
    check_prefix(name)


def test_nor_do_those_of_a_live_router() -> None:
    check_prefix("auto", alone=True)


@pytest.mark.parametrize("name", ["auto", "linucb"])
def test_control_features_reduced_with_later_rows_are_caught(name: str) -> None:
    with pytest.raises(AssertionError, match="tasks that come later"):
        check_prefix(name, Reduced)


def test_peers_are_prepared_in_hindsight_as_documented() -> None:
    pytest.importorskip("river")
    with pytest.raises(AssertionError, match="tasks that come later"):
        check_prefix("river-linucb")
