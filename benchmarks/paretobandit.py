"""ParetoBandit's experiment 01, from raw text: three LLMs, seven budgets, beside the published router [1]_.

Their protocol: a router learns online from the prompts of ``val`` in a random order, then from those of ``test``; it
is paced by the same budget throughout, and reward and dollars of ``test`` are reported, over 20 seeds. Theirs starts
from priors worth 1,164 outcomes of another split and sees MiniLM embeddings; ours starts from nothing but a price list
and sees :class:`~bot_orch.encoders.HashedWords`.

    python benchmarks/paretobandit.py paretobandit_k3.npz --published paretobandit_k3_published.csv

It runs on any set with ``text``, ``split``, ``reward`` and ``cost_usd``, at any ``--budgets``.

References
----------
.. [1] ParetoBandit: github.com/ParetoBandit/ParetoBandit, experiments/01_stationary_budget_pacing.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Bools, Floats, Ints
from bot_orch.lab.environments.matrix.context import Inputs, inputs_of
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.figures import new_figure, plot_hull, save_figure
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.lab.harness.replay_metrics import frontier, hull_mix, oracle_at
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import make_policy
from bot_orch.rng import generator

__all__ = ["BUDGETS", "Point", "SplitSet", "draw", "markdown", "orders", "paced_point", "read_set", "table"]

#: Dollars per request: seven log-spaced targets between the mean costs of the cheapest and the dearest model on val.
BUDGETS = (2.92914e-05, 8.28849e-05, 0.000234537, 0.00066366, 0.00187794, 0.00531393, 0.0150366)
#: Price lists known in advance, dollars per million tokens in and out, and a guess of the tokens of a call.
_PER_MILLION = {"llama": (0.10, 0.10), "mistral": (0.50, 1.50), "gemini": (1.25, 10.0)}
_TOKENS = (200.0, 400.0)


@dataclass(frozen=True, slots=True, eq=False)
class SplitSet:
    """Outcomes of every agent (T, M), the encoder's numbers of the texts, and which rows are reported."""

    agents: tuple[str, ...]
    reward: Floats
    cost_usd: Floats
    _: KW_ONLY
    inputs: Inputs
    test: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Mean reward and dollars on ``test`` per seed, at one budget."""

    budget: float
    reward: Floats
    cost_usd: Floats


def read_set(path: Path) -> SplitSet:
    """Read a set with ``text`` and ``split``, and encode its texts."""
    with np.load(path, allow_pickle=False) as file:
        agents = tuple(str(name) for name in file["agent"])
        reward, cost = (np.asarray(file[key], dtype=float) for key in ("reward", "cost_usd"))
        inputs = inputs_of(Matrix("paretobandit", agents, reward, text=file["text"]))
        assert inputs is not None
        return SplitSet(agents, reward, cost, inputs=inputs, test=np.asarray(file["split"] == "test"))


def orders(found: SplitSet, seeds: int) -> Ints:
    """Rows of every round, (T, seeds): ``val`` shuffled, then ``test`` shuffled."""
    parts = [np.flatnonzero(~found.test), np.flatnonzero(found.test)]
    each = [
        np.concatenate([generator("paretobandit", seed, index).permutation(rows) for index, rows in enumerate(parts)])
        for seed in range(seeds)
    ]
    return np.stack(each, axis=1)


def paced_point(found: SplitSet, policy: Policy, budget: float, *, seeds: int, prices: bool = True) -> Point:
    """Learn on val, go on on test, one budget throughout."""
    matrix = Matrix("paretobandit", found.agents, found.reward, cost_usd=found.cost_usd)
    price = tuple(_price(name) for name in found.agents) if prices else None
    replay = Replay(matrix, "given", seeds=range(seeds), budget_usd=budget, price=price)
    replay.inputs, replay.rows = found.inputs, orders(found, seeds)
    agent = play(PolicyPlayer(policy, replay.setup), replay).agent
    reported = slice(int(np.count_nonzero(~found.test)), None)
    reward, cost = (values[replay.rows, agent][reported].mean(axis=0) for values in (found.reward, found.cost_usd))
    return Point(budget, reward, cost)


def _price(name: str) -> float:
    """Dollars of a call by the price list, at a guess of its length; NaN for other agents."""
    for key, (per_in, per_out) in _PER_MILLION.items():
        if key in name:
            return (per_in * _TOKENS[0] + per_out * _TOKENS[1]) / 1e6
    return float("nan")


def table(found: SplitSet, points: Sequence[Point], published: Mapping[float, tuple[float, float]]) -> str:
    """Published router, hull, ours and oracle at every budget, as text."""
    reward, cost = found.reward[found.test], found.cost_usd[found.test]
    head = ("budget", "published", "hull", "ours", "s.e.", "oracle", "published $", "ours $", "ours/budget")
    lines = ["  ".join(f"{name:>11}" for name in head)]
    for point in points:
        hull = hull_mix(reward.mean(axis=0), cost.mean(axis=0), point.budget).of(reward.mean(axis=0))
        best = oracle_at(reward, cost, point.budget)
        theirs, paid = published.get(round(point.budget, 12), (float("nan"), float("nan")))
        error = point.reward.std(ddof=1) / np.sqrt(len(point.reward)) if len(point.reward) > 1 else 0.0
        mine = point.cost_usd.mean()
        numbers = [point.budget, theirs, float(hull), point.reward.mean(), error]
        numbers += [reward[np.arange(len(best)), best].mean(), paid, mine, mine / point.budget]
        forms = [".3e", ".4f", ".4f", ".4f", ".4f", ".4f", ".3e", ".3e", ".3f"]
        lines.append("  ".join(f"{number:>11{form}}" for number, form in zip(numbers, forms, strict=True)))
    return "\n".join(lines)


def markdown(found: SplitSet, points: Sequence[Point], published: Mapping[float, tuple[float, float]]) -> str:
    """Format the table of docs/evidence/benchmarks.md.

    The last two columns are rewards above the hull at the router's own dollars.
    """
    reward, cost = found.reward[found.test], found.cost_usd[found.test]
    vertices = np.array(frontier(reward.mean(axis=0), cost.mean(axis=0)), dtype=float)

    def above(value: float, paid: float) -> str:
        return f"{value - float(np.interp(paid, vertices[:, 0], vertices[:, 1])):+.4f}"

    lines = [
        "| dollars per request | published | hull | ours | ± | oracle | spent / budget "
        "| published - hull | ours - hull |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for point in points:
        hull = hull_mix(reward.mean(axis=0), cost.mean(axis=0), point.budget).of(reward.mean(axis=0))
        best = oracle_at(reward, cost, point.budget)
        theirs, paid = published.get(round(point.budget, 12), (float("nan"), float("nan")))
        error = point.reward.std(ddof=1) / np.sqrt(len(point.reward)) if len(point.reward) > 1 else 0.0
        mine, spent = float(point.reward.mean()), float(point.cost_usd.mean())
        cells = [f"{point.budget:.3e}", f"{theirs:.4f}", f"{float(hull):.4f}", f"{mine:.4f}", f"{error:.4f}"]
        cells += [f"{reward[np.arange(len(best)), best].mean():.4f}", f"{spent / point.budget:.3f}"]
        cells += ["" if np.isnan(theirs) else above(theirs, paid), above(mine, spent)]
        lines.append("| " + " | ".join("" if cell == "nan" else cell for cell in cells) + " |")
    return "\n".join(lines)


def read_published(path: Path | None) -> dict[float, tuple[float, float]]:
    """(reward, dollars) of the published router by budget, from a csv with ``router`` and ``budget_usd``."""
    if path is None:
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["router"] == "ParetoBandit pacer"]
    return {
        round(float(row["budget_usd"]), 12): (float(row["mean_reward"]), float(row["mean_cost_usd"])) for row in rows
    }


def draw(found: SplitSet, points: Sequence[Point], published: Mapping[float, tuple[float, float]]) -> Any:
    """Mean reward on test against dollars per request: hull, oracle, the published router and ours."""
    reward, cost = found.reward[found.test], found.cost_usd[found.test]
    figure, axes = new_figure(1, 1, 7.5, 4.6)
    axis = axes[0, 0]
    plot_hull(axis, frontier(reward.mean(axis=0), cost.mean(axis=0)))
    grid = np.geomspace(BUDGETS[0], BUDGETS[-1], 60)
    best = [reward[np.arange(len(reward)), oracle_at(reward, cost, budget)].mean() for budget in grid]
    axis.plot(grid, best, color="#9e9e9e", linestyle=":", label="oracle")
    if published:
        theirs = sorted((paid, value) for value, paid in published.values())
        axis.plot(
            *zip(*theirs, strict=True), color="#c62828", marker="s", linewidth=1.2, label="ParetoBandit, published"
        )
    mine = [(point.cost_usd.mean(), point.reward.mean()) for point in points]
    error = [
        point.reward.std(ddof=1) / np.sqrt(len(point.reward)) if len(point.reward) > 1 else 0.0 for point in points
    ]
    x, y = zip(*mine, strict=True)
    axis.errorbar(x, y, yerr=error, color="#00796b", marker="o", linewidth=1.5, capsize=2, label="BOT-Orch")
    axis.set_xscale("log")
    axis.set_xlabel("dollars per request on test")
    axis.set_ylabel("mean reward on test")
    axis.legend(loc="lower right")
    return figure


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment, print the table, write the figure."""
    parser = argparse.ArgumentParser(prog="paretobandit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="matrix with text, split, reward and cost_usd")
    parser.add_argument("--published", type=Path, help="csv of published results")
    parser.add_argument("--policy", default="auto", help="policy (default: auto)")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS, metavar="USD", help="dollars per request")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/evidence/benchmarks.md")
    parser.add_argument(
        "--no-prices", action="store_true", help="no price list: dollars are learned from the first call on"
    )
    parser.add_argument("--out", type=Path, default=Path("out/paretobandit"))
    given = parser.parse_args(arguments)
    found, published = read_set(given.data), read_published(given.published)
    points = []
    for budget in given.budgets:
        points.append(
            paced_point(found, make_policy(given.policy), budget, seeds=given.seeds, prices=not given.no_prices)
        )
        print(table(found, points[-1:], published).splitlines()[-1], file=sys.stderr, flush=True)
    print((markdown if given.markdown else table)(found, points, published))
    png, _ = save_figure(lambda: draw(found, points, published), given.out / "paretobandit")
    print(f"figure: {png}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
