"""The arena on a budget: baselines with closed forms, policies that keep it, sets without dollars refused."""

import csv
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from bot_orch.cli import main
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import Mix, budget_baseline, frontier, hull_mix, oracle_at
from bot_orch.policies.registry import make_policy


def _benchmark():
    script = Path(__file__).parents[3] / "benchmarks" / "paretobandit.py"
    spec = importlib.util.spec_from_file_location("paretobandit", script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def toy(rounds=400):
    rng = np.random.default_rng(0)
    hard = rng.random(rounds) < 0.5
    reward = np.column_stack([np.where(hard, 0.2, 0.8), np.full(rounds, 0.9)])
    usd = np.column_stack([np.full(rounds, 0.001), np.full(rounds, 0.01)])
    return reward, usd, np.column_stack([hard.astype(float), rng.random(rounds)])


def test_the_hull_is_the_best_mix_of_two():
    reward, cost = np.array([0.2, 0.5, 0.6, 0.4]), np.array([1.0, 2.0, 6.0, 3.0])
    assert hull_mix(reward, cost, 4.0) == Mix(2, 1, 0.5)
    assert float(hull_mix(reward, cost, 4.0).of(reward)) == pytest.approx(0.55)
    assert hull_mix(reward, cost, 100.0).of(cost) == 6.0 and hull_mix(reward, cost, 0.5).of(cost) == 1.0
    assert frontier(reward, cost) == [(1.0, 0.2), (2.0, 0.5), (6.0, 0.6)]
    for budget in np.linspace(1.0, 6.0, 11):
        at = hull_mix(reward, cost, budget)
        assert at.of(cost) <= budget + 1e-12
        assert at.of(reward) == pytest.approx(np.interp(budget, [1.0, 2.0, 6.0], [0.2, 0.5, 0.6]))


def test_the_oracle_keeps_the_budget_and_beats_the_hull():
    reward, usd, _ = toy()
    rows = np.arange(len(reward))
    for budget in (0.001, 0.004, 0.0075, 0.01):
        agent = oracle_at(reward, usd, budget)
        assert usd[rows, agent].mean() <= budget + 1e-12
        hull = hull_mix(reward.mean(axis=0), usd.mean(axis=0), budget).of(reward.mean(axis=0))
        assert reward[rows, agent].mean() >= hull - 0.9 / len(rows) - 1e-9


def test_baselines_of_a_budget_are_those_of_the_tasks_played():
    reward, usd, features = toy()
    replay = Replay(Matrix("toy", ("small", "large"), reward, features=features, cost_usd=usd), seeds=range(2))
    mean = {name: budget_baseline(replay, name, 0.005)(reward).mean() for name in ("cheapest", "hull", "oracle-budget")}
    paid = {name: budget_baseline(replay, name, 0.005)(usd).mean() for name in mean}
    assert mean["cheapest"] == pytest.approx(reward[:, 0].mean()) and paid["cheapest"] == pytest.approx(0.001)
    assert paid["hull"] == pytest.approx(0.005) and mean["cheapest"] < mean["hull"] < mean["oracle-budget"]


def test_the_command_reports_reward_and_dollars(tmp_path, capsys):
    reward, usd, features = toy()
    np.savez(tmp_path / "toy.npz", reward=reward, cost_usd=usd, features=features)
    out = tmp_path / "out"
    words = [
        "arena",
        str(tmp_path / "toy.npz"),
        "--policies",
        "lints-tuned",
        "--seeds",
        "2",
        "--out",
        str(out),
        "--quiet",
    ]
    assert main([*words, "--budget", "0.006"]) == 0
    with (out / "arena.csv").open() as file:
        found = {(row["policy"], row["metric"]): float(row["mean"]) for row in csv.DictReader(file)}
    assert found["lints-tuned", "cost_usd"] <= 1.02 * 0.006
    assert found["hull", "cost_usd"] == pytest.approx(0.006)
    assert found["lints-tuned", "reward"] > found["hull", "reward"]  # the feature tells which tasks are hard
    assert (out / "figures" / "plane-shuffled-00.png").exists()
    assert "hull" in (out / "index.html").read_text()


def test_mistakes_are_named(tmp_path, capsys):
    np.savez(tmp_path / "plain.npz", reward=toy()[0])
    words = ["arena", str(tmp_path / "plain.npz"), "--out", str(tmp_path / "out"), "--quiet", "--budget"]
    assert main([*words, "0.1"]) != 0
    assert "--budget: plain.npz has no cost_usd" in capsys.readouterr().err
    assert main([*words, "-1"]) != 0
    assert "--budget: is -1" in capsys.readouterr().err


def test_the_published_experiment_runs_on_a_set_of_its_form(tmp_path, capsys):
    """Invented prompts in the form of the published set: learned on val, reported on test, within the budget."""
    reward, usd, features = toy(240)
    text = np.where(features[:, 0] > 0, "prove that the sum converges", "what is the capital of Peru")
    split = np.where(np.arange(240) < 120, "val", "test")
    path = tmp_path / "set.npz"
    np.savez(path, reward=reward, cost_usd=usd, text=text, split=split, agent=np.array(["small", "large"]))
    paretobandit = _benchmark()
    found = paretobandit.read_set(path)
    rows = paretobandit.orders(found, 3)
    assert not found.test[rows[:120]].any() and found.test[rows[120:]].all()
    assert all(sorted(rows[:, seed]) == list(range(240)) for seed in range(3))
    point = paretobandit.paced_point(found, make_policy("lints", scale=0.1), 0.006, seeds=3)
    assert point.cost_usd.mean() <= 1.1 * 0.006 and point.reward.shape == (3,)
    shown = paretobandit.table(found, [point], {0.006: (0.5, 0.006)}).splitlines()
    assert shown[0].split()[:4] == ["budget", "published", "hull", "ours"] and shown[1].split()[1] == "0.5000"
    line = paretobandit.markdown(found, [point], {0.006: (0.5, 0.006)}).splitlines()[-1].split(" | ")
    mine = float(point.reward.mean()) - np.interp(
        point.cost_usd.mean(), usd[0], reward[120:].mean(axis=0)
    )  # the hull of two agents is the line between them
    assert line[1] == "0.5000" and line[-1] == f"{mine:+.4f} |"
    published = tmp_path / "published.csv"
    published.write_text(
        "budget_usd,router,mean_reward,mean_cost_usd\n0.006,ParetoBandit pacer,0.5,0.006\n,random,0.4,1\n"
    )
    assert paretobandit.read_published(published) == {0.006: (0.5, 0.006)}
    assert paretobandit.draw(found, [point], {0.006: (0.5, 0.006)}) is not None
