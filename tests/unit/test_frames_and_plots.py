"""Tables as DataFrames, figures as figures: the numbers of the commands, and no global state."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bot_orch import InvalidInputError, Outcome, Router, Task
from bot_orch.cli import main
from bot_orch.evaluation import evaluate
from bot_orch.evaluation.export import COLUMNS
from bot_orch.frames import decisions_frame, evaluation_frame, league_frame, logged_frame, results_frame, spend_frame
from bot_orch.log import open_log
from bot_orch.plots import plot_curves, plot_league, plot_log, plot_plane, plot_set


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "router.sqlite"
    rng = np.random.default_rng(1)
    with Router(["a", "b"], "ucb1", path=path, floor=0.8, seed=1) as router:
        for _ in range(200):
            made = router.decide(Task())
            reward = float(rng.random() < (0.8 if made.agent == "a" else 0.2))
            router.observe(made.id, Outcome.completed(reward, cost_usd=0.5))
    return path


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arena")
    rng = np.random.default_rng(0)
    rewards, costs = rng.random((60, 3)) * [0.2, 0.5, 1.0], np.tile([0.1, 0.2, 0.4], (60, 1))
    np.savez(folder / "three.npz", reward=rewards, cost_usd=costs)
    words = ["arena", str(folder / "three.npz"), "--policies", "ucb1", "--seeds", "2", "--out", str(folder / "out")]
    assert main([*words, "--quiet"]) == 0
    return folder / "out"


def test_decisions_of_a_log(log):
    frame = decisions_frame(log)
    assert tuple(frame.columns) == COLUMNS and len(frame) == 200
    assert set(frame["agent"]) == {"a", "b"} and frame["reward"].notna().all()


def test_an_evaluation_is_that_of_the_command(log):
    frame = evaluation_frame(log, ["uniform", "agent:a"])
    assert list(frame["method"]) == ["IPS", "SNIPS", "DR"] * 2
    source = open_log(log)
    wanted = evaluate(source, "agent:a").estimates[2]
    source.close()
    assert frame.iloc[5][["value", "low", "high"]].tolist() == [wanted.value, wanted.low, wanted.high]
    refused = evaluation_frame(log, ["agent:a"], min_effective=1e6)
    assert "are worth" in refused["refused"][0]


def test_logged_means_and_spending(log):
    means = logged_frame(log).set_index("agent")
    assert means.loc["all", "decisions"] == 200 and means.loc["a", "mean"] > means.loc["b", "mean"]
    spent = spend_frame(log, "agent")
    assert spent["cost_usd"].sum() == pytest.approx(100.0) and next(iter(spent.columns)) == "key"


def test_results_of_an_arena(out):
    assert set(results_frame(out)["policy"]) >= {"ucb1"} and list(league_frame(out)["policy"]) == ["ucb1"]


def test_figures_show_what_they_say(log, out):
    rewards = plot_log(log, "rewards").axes[0]
    assert [line.get_label() for line in rewards.get_lines()] == ["a", "b"]
    assert rewards.get_lines()[0].get_ydata()[-1] > rewards.get_lines()[1].get_ydata()[-1]
    assert "ucb1" in [label.get_text() for label in plot_league(out).axes[0].get_yticklabels()]
    assert len(plot_curves(out).axes) == 1 and len(plot_set(out, "three").axes) == 2
    assert plot_plane(out, "three").axes[0].get_xlabel() == "dollars per task"


def test_mistakes_are_named(log, out):
    with pytest.raises(InvalidInputError, match="dataset: 'four' is not in .*; choose one of three"):
        plot_set(out, "four")
    with pytest.raises(InvalidInputError, match="order: has no results for 'odd'; choose one of shuffled"):
        plot_league(out, "odd")
    with pytest.raises(InvalidInputError, match="kind: is 'odd'"):
        plot_log(log, "odd")


def test_figures_leave_pyplot_alone(log, out):
    code = (
        "import sys, json; from bot_orch.plots import *; import matplotlib; before = matplotlib.rcParams.copy();"
        f"plot_log({str(log)!r}); plot_league({str(out)!r}); plot_set({str(out)!r}, 'three');"
        "print(json.dumps(['matplotlib.pyplot' in sys.modules, before == matplotlib.rcParams.copy()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [False, True]
