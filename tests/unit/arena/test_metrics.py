"""Metrics and league against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bot_orch.lab.arena.league import COLUMNS, csv_text, league
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import matrix_from_arrays
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import baseline, chosen, score

R = np.array([[1.0, 0.0, 0.5], [0.5, 0.25, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.5]])


def _score(matrix: Matrix, agent: list[int], **settings: Any) -> dict[str, list[float]]:
    replay = Replay(matrix, "given", seeds=[0], **settings)
    metrics: dict[str, list[float]] = score(replay, chosen(replay, np.array(agent)[:, None]))["metrics"]
    return metrics


def test_normalised_and_regret_by_hand() -> None:
    metrics = _score(Matrix("toy", ("a", "b", "c"), R), [0, 0, 1, 1])
    assert metrics["reward"] == [(1 + 0.5 + 0 + 1) / 4]
    random, best = R.mean(), 2.5 / 4
    assert metrics["normalised"] == [pytest.approx((0.625 - random) / (best - random))]
    assert metrics["regret_best_single"] == [pytest.approx(0.0)]
    assert metrics["share_max"] == [0.5]
    assert "solved" not in metrics
    assert "cost_usd" not in metrics


def test_baselines() -> None:
    matrix = Matrix("toy", ("a", "b", "c"), R)
    replay = Replay(matrix, "shuffled", seeds=range(3))
    for name, level in (("best-single", 1.0), ("random", 0.0)):
        assert np.allclose(score(replay, baseline(replay, name))["metrics"]["normalised"], level)
    oracle = score(replay, baseline(replay, "oracle"))
    assert np.allclose(oracle["metrics"]["reward"], R.max(axis=1).mean())
    assert oracle["shares"]["b"][0] == 0.25
    random = score(replay, baseline(replay, "random"))
    assert np.allclose(random["metrics"]["share_max"], 1 / 3)


def test_best_single_is_judged_on_the_rounds_played() -> None:
    replay = Replay(Matrix("toy", ("a", "b", "c"), R[::-1]), "given", rounds=1, seeds=[0])
    assert score(replay, baseline(replay, "best-single"))["metrics"]["reward"] == [1.0]


def test_runtime_costs_and_truth() -> None:
    arrays = {
        "time_s": np.array([[1.0, 10.0], [10.0, 3.0]]),
        "event": np.array([[1, 0], [0, 1]]),
        "cutoff_s": np.array(10.0),
        "cost_usd": np.array([[1.0, np.nan], [3.0, 4.0]]),
        "true_reward": np.array([[0.25, 0.5], [0.75, 1.0]]),
    }
    metrics = _score(matrix_from_arrays("toy", arrays), [1, 1])
    assert metrics["solved"] == [0.5]
    assert metrics["par10"] == [(100.0 + 3.0) / 2]
    assert metrics["mean_observed_time"] == [6.5]
    assert metrics["cost_usd"] == [4.0], "over the cells where it is known"
    assert metrics["true_reward"] == [0.75]


def test_runs_that_did_not_take_place_are_not_counted_as_failures() -> None:
    arrays = {
        "reward": np.array([[0.5, 1.0], [0.5, 1.0]]),
        "time_s": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "event": np.array([[1.0, np.nan], [1.0, 1.0]]),
        "cutoff_s": np.array(10.0),
    }
    metrics = _score(matrix_from_arrays("toy", arrays), [1, 1])
    assert metrics["solved"] == [1.0]
    assert metrics["par10"] == [4.0]


def test_without_headroom_there_is_no_normalised() -> None:
    assert "normalised" not in _score(Matrix("flat", ("a", "b"), np.full((3, 2), 0.5)), [0, 1, 0])


def test_curve_ends_at_normalised() -> None:
    rng = np.random.default_rng(0)
    replay = Replay(Matrix("toy", ("a", "b"), rng.random((200, 2)) * [0.5, 1.0]), seeds=range(4))
    result = score(replay, chosen(replay, rng.integers(0, 2, (200, 4))))
    assert result["curve"]["mean"][-1] == pytest.approx(np.mean(result["metrics"]["normalised"]))
    assert result["curve"]["round"][-1] == 200


def _payload(values: list[float], kind: str = "ours") -> dict[str, Any]:
    return {"metrics": {"normalised": values, "reward": values}, "shares": {"a": [1.0] * len(values)}, "kind": kind}


def test_league_orders_counts_and_leaves_baselines_out() -> None:
    results = {
        ("x", "shuffled", "oracle"): _payload([9.0, 9.0], "baseline"),
        ("x", "shuffled", "p"): _payload([0.5, 0.6]),
        ("x", "shuffled", "q"): _payload([0.9, 0.8], "peer"),
        ("y", "shuffled", "p"): _payload([1.0, 1.0]),
        ("y", "shuffled", "q"): _payload([0.0, 0.2], "peer"),
        ("y", "given", "q"): _payload([7.0, 7.0], "peer"),
    }
    first, second = league(results, "shuffled")
    assert (first.policy, first.best_or_draw, first.sets, first.worst) == ("p", 1, 2, pytest.approx(0.55))
    assert (second.policy, second.mean) == ("q", pytest.approx(0.475))


def test_curves_end_within_the_frame_and_titles_over_their_panel() -> None:
    pytest.importorskip("matplotlib")
    from bot_orch.lab.arena.plots import draw_curves

    def curve(level: float) -> dict[str, Any]:
        return _payload([level]) | {"curve": {"round": [1, 2], "mean": [50.0, level], "std": [0.0, 0.0]}}

    name = "x" * 99
    results = {(name, "given", policy): curve(v) for policy, v in (("p", 9.0), ("q", -3.0), ("r", 0.5))}
    for baseline_name, level in (("best-single", 1.0), ("random", 0.0)):
        results[name, "given", baseline_name] = _payload([level], "baseline")
    figure = draw_curves(results, league(results, "given"), "given")
    low, high = figure.axes[0].get_ylim()
    assert low < -3.0
    assert high > 9.0
    assert len(figure.axes[0].get_title()) == 40


def test_csv_has_exactly_these_columns() -> None:
    text = csv_text({("x", "given", "p"): _payload([1.0, 2.0])}, shares=True)
    lines = text.splitlines()
    assert lines[0] == "dataset,order,policy,metric,mean,std,seeds" == ",".join(COLUMNS)
    assert lines[1] == "x,given,p,normalised,1.5,0.7071067812,2"
    assert lines[-1] == "x,given,p,share:a,1,0,2"
    assert "share:" not in csv_text({("x", "given", "p"): _payload([1.0])}, shares=False)
