"""Draw ``img/budget.png``: three simulated agents, rewards and dollars that depend on the task, seven budgets."""

from pathlib import Path

import numpy as np

from bot_orch.lab.arena.plots import plot_hull
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.figures import new_figure, save_figure
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.lab.harness.replay_metrics import frontier
from bot_orch.policies.registry import make_policy


def world(rounds: int = 3000) -> Matrix:
    """Tasks with two features: one tells how hard a task is, one how long."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rounds, 2))
    ability = np.array([0.0, 1.0, 2.0])
    reward = 1.0 / (1.0 + np.exp(-(1.0 + 1.3 * ability - 1.5 * x[:, :1])))
    usd = np.array([1e-4, 1e-3, 1e-2]) * np.exp(0.7 * x[:, 1:] + 0.4 * rng.normal(size=(rounds, 3)) - 0.325)
    return Matrix("simulated", ("small", "medium", "large"), reward, features=x, cost_usd=usd)


def picture(rounds: int = 3000, seeds: int = 4):
    """Mean reward against mean dollars in the second half, at each budget, beside the hull of single agents."""
    matrix = world(rounds)
    figure, axes = new_figure(1, 1, 7, 4)
    axis, half = axes[0, 0], rounds // 2
    plot_hull(axis, frontier(matrix.reward.mean(axis=0), matrix.cost_usd.mean(axis=0)))
    points = []
    for budget in np.geomspace(1.5e-4, 8e-3, 7):
        replay = Replay(matrix, "shuffled", rounds, seeds=range(seeds), components=None, budget_usd=float(budget))
        agent = play(PolicyPlayer(make_policy("lints", scale=0.2), replay.setup), replay).agent
        paid, earned = (each[replay.rows, agent][half:].mean() for each in (matrix.cost_usd, matrix.reward))
        points.append((paid, earned))
        axis.axvline(budget, color="#cfd8dc", linewidth=0.8)
    axis.plot(*zip(*points, strict=True), color="#00796b", marker="o", label="router, one budget each (grey lines)")
    axis.set_xscale("log")
    axis.set_xlabel("dollars per task")
    axis.set_ylabel("mean reward")
    axis.legend(loc="lower right")
    return figure


if __name__ == "__main__":
    save_figure(picture, Path(__file__).parent / "img" / "budget")
