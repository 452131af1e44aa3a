"""Does `Quality` keep its floor, and for how many dollars? Every cell with its gates, through the public Orchestrator.

    python benchmarks/quality.py [--seeds 20] [--rounds 4000] [--only WORD ...] [--jobs 1]

Rewards are 0 or 1. Counted is the expected reward (the known mean) of the chosen agents in the second half of the
rounds, exploration of the floor included; the floor is (1 - within) times the mean reward of the best agent. Dollars
are those of a round over those of the cheapest single agent that keeps the floor, in the second half and in all rounds,
as means of a cell. The rows *equal* and *middle* are three agents at .001, .01 and .1 dollars with mean rewards of .80,
.80, .79 and .70, .80, .81 under ``Quality(0.02)``: dollars and expected reward of all rounds. `--only` takes cells
whose name contains one of the words.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from bot_orch import Agent, Orchestrator, Outcome, Quality, Task

WITHIN = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
WORDS = (("refund", "invoice", "order", "delivery"), ("integral", "theorem", "matrix", "derivative"))
SLACK, RUNS, SEEDS = 0.01, 0.97, 0.85  # below the floor; share of all runs and of a cell's runs within that


@dataclass(frozen=True)
class Cell:
    """Mean rewards by kind of task and agent, prices in thousandths of a dollar, and gates on dollars."""

    name: str
    means: tuple[tuple[float, ...], ...]
    prices: tuple[float, ...]
    within: float
    late: float = 1.35  # dollars of the second half over those of the cheapest single agent
    total: float = 1.8
    old: tuple[float, float, float] | None = None  # dollars: mean, of 95 % of the runs; expected reward

    @property
    def usual(self) -> np.ndarray:
        """Mean rewards over all tasks."""
        return np.asarray(np.mean(self.means, axis=0))

    @property
    def floor(self) -> float:
        """Mean reward that is promised."""
        return float((1.0 - self.within) * self.usual.max())

    @property
    def single(self) -> float:
        """Dollars of the cheapest agent that keeps the floor."""
        return min(usd for usd, mean in zip(self.prices, self.usual, strict=True) if mean >= self.floor - 1e-9) / 1e3


def cells() -> list[Cell]:
    """Three agents, two agents, two kinds of text, and the two worlds with a hundredfold price."""
    found = []
    for within in WITHIN:
        for prices in ((1.0, 8.0, 50.0), (1.0, 10.0, 50.0), (1.0, 5.0, 20.0), (1.0, 3.0, 10.0)):
            name = ":".join(f"{each:g}" for each in prices)
            found.append(Cell(f"three {name} within {within}", ((0.6, 0.75, 0.9),), prices, within))
        for mean, price in ((0.6, 50.0), (0.6, 5.0), (0.75, 10.0), (0.75, 3.0)):
            name = f"two {mean} 1:{price:g} within {within}"
            found.append(Cell(name, ((mean, 0.9),), (1.0, price), within, late=1.5, total=2.2))
        kinds = ((0.7, 0.8, 0.9), (0.4, 0.6, 0.9))
        found.append(Cell(f"text within {within}", kinds, (1.0, 8.0, 50.0), within))
    hundred = (1.0, 10.0, 100.0)
    found.append(Cell("equal", ((0.8, 0.8, 0.79),), hundred, 0.02, old=(18.0, np.inf, 0.784)))
    return [*found, Cell("middle", ((0.7, 0.8, 0.81),), hundred, 0.02, old=(66.0, 150.0, 0.78))]


def lived(cell: Cell, seed: int, *, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected reward and dollars of each round."""
    rng, names = np.random.default_rng([seed, 7]), [str(i) for i in range(len(cell.prices))]
    agents = [Agent(name, price=price / 1e3) for name, price in zip(names, cell.prices, strict=True)]
    router = Orchestrator(agents, seed=seed, ids="derived", constraints=[Quality(cell.within)])
    means, usd = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        kind = int(rng.integers(len(cell.means)))
        text = " ".join(rng.choice(WORDS[kind], size=3, replace=False)) if len(cell.means) > 1 else None
        decision = router.decide(Task(str(t), text=text))
        agent = int(decision.agent)
        means[t], usd[t] = cell.means[kind][agent], cell.prices[agent] / 1e3
        reward = float(rng.random() < means[t])
        router.observe(decision.id, Outcome.completed(reward, cost_usd=usd[t]))
    return means, usd


def played(job: tuple[Cell, int], *, rounds: int) -> tuple[float, float, float, float, float]:
    """Expected reward of the second half and of all, dollars of a round likewise, and seconds of a round."""
    started = time.process_time()
    means, usd = lived(*job, rounds=rounds)
    half = rounds // 2
    spent = (time.process_time() - started) / rounds
    return means[half:].mean(), means.mean(), usd[half:].mean(), usd.mean(), spent


def verdict(cell: Cell, runs: np.ndarray, *, rounds: int) -> tuple[list[str], bool]:
    """Cells of a row of the table, and whether all gates hold."""
    late, every, paid, total, seconds = runs.T
    if cell.old is not None:
        usd = total * rounds
        most = float(np.quantile(usd, 0.95))
        holds = usd.mean() <= cell.old[0] and most <= cell.old[1] and every.mean() >= cell.old[2]
        shown = [f"{cell.old[2]:.3f}", f"{every.mean():.3f}", "", f"$ {usd.mean():.1f}", f"95 %: $ {most:.1f}"]
    else:
        kept = float(np.mean(late >= cell.floor - SLACK))
        dear, dearer = paid.mean() / cell.single, total.mean() / cell.single
        holds = kept >= SEEDS and late.mean() >= cell.floor and dear <= cell.late and dearer <= cell.total
        shown = [f"{cell.floor:.3f}", f"{late.mean():.3f}", f"{kept:.0%}", f"{dear:.2f}", f"{dearer:.2f}"]
    return [cell.name, *shown, f"{1e3 * seconds.mean():.2f}", "holds" if holds else "MISSED"], bool(holds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    head = (
        "cell",
        "floor",
        "expected reward",
        "runs that keep it",
        "dollars, late",
        "dollars, all",
        "ms/round",
        "gates",
    )
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    kept, held = [], []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for cell in cells():
            if asked.only and not any(word in cell.name for word in asked.only):
                continue
            jobs = [(cell, seed) for seed in range(asked.seeds if cell.old is None else 2 * asked.seeds)]
            runs = np.array(list(pool.map(partial(played, rounds=asked.rounds), jobs)))
            row, holds = verdict(cell, runs, rounds=asked.rounds)
            print("| " + " | ".join(row) + " |", flush=True)
            held.append(holds)
            if cell.old is None:
                kept += list(runs[:, 0] >= cell.floor - SLACK)
    if kept:
        print(f"\n{np.mean(kept):.1%} of {len(kept)} runs keep the floor less {SLACK} (gate: {RUNS:.0%})")
    print(f"gates hold in {sum(held)} of {len(held)} cells")


if __name__ == "__main__":
    main()
