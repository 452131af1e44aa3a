"""Results of a run as DataFrames."""

import csv

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.errors import InvalidInputError
from bot_orch.lab.arena import league_frame, results_frame


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    reward = np.random.default_rng(0).random((60, 3)) * [0.2, 0.5, 1.0]
    np.savez(folder / "three agents.npz", reward=reward)
    words = ["arena", str(folder / "three agents.npz"), "--policies", "ucb1", "linucb", "--seeds", "3"]
    assert main([*words, "--out", str(folder / "out"), "--quiet"]) == 0
    return folder / "out"


def test_means_of_the_frame_are_those_of_the_table(out):
    frame = results_frame(out)
    means = frame.groupby(["dataset", "policy", "metric"])["value"].mean()
    rows = [
        row for row in csv.DictReader((out / "arena.csv").read_text().splitlines()) if row["metric"] == "normalised"
    ]
    assert {row["policy"] for row in rows} >= {"ucb1", "linucb"} and set(frame["seed"]) == {0, 1, 2}
    for row in rows:
        assert means[row["dataset"], row["policy"], "normalised"] == pytest.approx(float(row["mean"]))


def test_the_league_lists_the_best_first(out):
    frame = league_frame(out)
    assert sorted(frame["policy"]) == ["linucb", "ucb1"] and frame["mean"].is_monotonic_decreasing
    assert {"error", "best_or_draw", "sets", "worst"} <= set(frame.columns)


def test_a_folder_without_results_is_refused(out, tmp_path):
    with pytest.raises(InvalidInputError, match="out: .* holds no results"):
        results_frame(tmp_path)
    with pytest.raises(InvalidInputError, match="order: has no results for 'given'"):
        league_frame(out, "given")
