"""Runtimes: the PAR10 signal, the time that features take, baselines by their metric, and rounds without a cap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.arena.run import run_one
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays, read_npz, write_npz
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import baseline, baseline_readers, chosen, score


def runtimes(**more: Any) -> Matrix:
    """Agent a is fast on three tasks and fails on one; b is slow and always completes."""
    arrays = {
        "time_s": np.array([[1.0, 9.0], [1.0, 9.0], [1.0, 9.0], [10.0, 9.0]]),
        "event": np.array([[1, 1], [1, 1], [1, 1], [0, 1]]),
        "cutoff_s": np.array(10.0),
        "features": np.arange(4.0)[:, None],
        **more,
    }
    return matrix_from_arrays("toy", arrays)


def test_best_single_is_best_in_the_metric_it_stands_beside() -> None:
    replay = Replay(runtimes(), "given", seeds=[0])
    metrics = score(replay, baseline(replay, "best-single"), own=baseline_readers(replay, "best-single"))["metrics"]
    fast = 3 * (1.0 - np.log(2.0) / np.log(11.0)) / 4
    assert metrics["reward"] == [pytest.approx(fast)], "agent a has the best reward"
    assert metrics["par10"] == [9.0], "agent b has the best PAR10: 9 seconds instead of (3 + 100) / 4"
    assert metrics["solved"] == [1.0]
    assert metrics["gap"] == [1.0]


def test_oracle_has_gap_zero_and_its_own_par10() -> None:
    replay = Replay(runtimes(), "given", seeds=[0])
    metrics = score(replay, baseline(replay, "oracle"), own=baseline_readers(replay, "oracle"))["metrics"]
    assert metrics["par10"] == [3.0]
    assert metrics["gap"] == [0.0]


def test_gap_by_hand() -> None:
    replay = Replay(runtimes(), "given", seeds=[0])
    metrics = score(replay, chosen(replay, np.array([[0], [0], [0], [0]])))["metrics"]
    assert metrics["gap"] == [pytest.approx((103.0 / 4 - 3.0) / (9.0 - 3.0))]


def test_time_of_features_passes_before_the_agent_starts() -> None:
    replay = Replay(runtimes(feature_cost_s=np.array([0.0, 2.0, np.nan, 0.5])), "given", seeds=[0])
    read = chosen(replay, np.array([[0], [1], [0], [1]]))
    paid = score(replay, read, feature_time=True)["metrics"]
    assert paid["par10"] == [(1.0 + 100.0 + 1.0 + 9.5) / 4], "9 s after 2 s of features exceed the cutoff of 10 s"
    assert paid["solved"] == [0.75]
    assert score(replay, read)["metrics"]["par10"] == [(1.0 + 9.0 + 1.0 + 9.0) / 4]


@pytest.mark.parametrize(
    ("name", "uses"), [("auto", True), ("linucb", True), ("ucb1", False), ("auto-no-context", False)]
)
def test_only_policies_that_read_features_pay(name: str, uses: bool) -> None:
    replay = Replay(runtimes(), seeds=[0])
    assert discover_entrants()[name].build(replay.setup).uses_features is uses


def test_time_of_features_in_the_arena(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    write_npz(path, runtimes(feature_cost_s=np.full(4, 20.0)))
    assert read_npz(path).feature_cost_s is not None
    unit = {"path": str(path), "order": "given", "seeds": 1, "rounds": None, "signal": "par10"}
    solved = {name: run_one({**unit, "policy": name})["metrics"]["solved"][0] for name in ("linucb", "ucb1", "oracle")}
    assert solved["linucb"] == 0.0, "the features take longer than the cutoff"
    assert solved["ucb1"] > 0.0
    assert solved["oracle"] == 1.0


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(4, -1.0)])
def test_malformed_feature_costs_are_named(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match="feature_cost_s"):
        runtimes(feature_cost_s=bad)


def test_unknown_feature_costs_count_as_none() -> None:
    assert runtimes(feature_cost_s=np.full(4, np.nan)).feature_cost_s is None


def test_par10_signal() -> None:
    replay = Replay(runtimes(), "given", seeds=[0], signal="par10")
    replay.before(0)
    assert replay.after(0, np.array([1])).reward.tolist() == [pytest.approx(1.0 - 9.0 / 100.0)]


def test_every_task_is_played_unless_a_cap_is_given(tmp_path: Path) -> None:
    path = tmp_path / "large.npz"
    write_npz(path, Matrix("large", ("a", "b"), np.tile([0.0, 1.0], (2100, 1))))
    unit = {"path": str(path), "order": "given", "policy": "random", "seeds": 1, "rounds": None}
    unit |= {"signal": "log-uniform"}
    assert run_one(unit)["rounds"] == 2100
    assert run_one({**unit, "at_most": 50})["rounds"] == 50
    assert run_one({**unit, "rounds": 70, "at_most": 50})["rounds"] == 50
