"""What a guarantee costs and saves on tables of rewards and dollars: `python benchmarks/guarantee.py FILE.npz ...`.

    python benchmarks/guarantee.py TABLE.npz [--orders 5] [--losses .01 .02 .05] [--rounds N]

Per table (arrays `reward` and `cost_usd`, tasks x agents) and order of tasks: `Orchestrator` with prices. The
baseline is the agent with the largest mean reward; at the objective's weight of dollars the dearest agent has to earn
a tenth more than the cheapest. Printed are the share of tasks that another agent served, dollars and reward per task
over those of the baseline on the same tasks, and in how many orders the promise was ever broken. In the same table:
the baseline alone, the router without a guarantee, and the mix of two agents with the same dollars, fitted in
hindsight.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from bot_orch import Agent, Guarantee, Objective, Orchestrator, Outcome, Task
from bot_orch.arrays import Floats, Ints


@dataclass(frozen=True)
class Table:
    """Rewards and dollars, tasks x agents, without rows that miss one."""

    name: str
    agents: tuple[str, ...]
    reward: Floats
    usd: Floats

    @property
    def baseline(self) -> int:
        """The agent with the largest mean reward."""
        return int(np.argmax(self.reward.mean(axis=0)))


def read(path: Path, rounds: int | None) -> Table:
    """One table, its first rows if there are more than ``rounds`` in a random order."""
    with np.load(path, allow_pickle=False) as found:
        reward, usd, names = found["reward"], found["cost_usd"], found["agent"]
    fine = np.isfinite(reward).all(axis=1) & np.isfinite(usd).all(axis=1)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(fine))[:rounds]
    return Table(path.stem, tuple(str(each) for each in names), np.clip(reward[rows], 0.0, 1.0), usd[rows])


def play(table: Table, order: Ints, promise: Guarantee | None, seed: int) -> Ints:
    """Agents that a router with default policy chose, task by task."""
    means = table.usd.mean(axis=0)
    agents = [Agent(name, price=float(usd)) for name, usd in zip(table.agents, means, strict=True)]
    weight = 0.1 / float(means.max() - means.min())
    router = Orchestrator(agents, objective=Objective(usd=weight), guarantee=promise, seed=seed)
    chosen = np.zeros(len(order), dtype=np.int64)
    for number, row in enumerate(order):
        decision = router.decide(Task(f"t{number}"))
        chosen[number] = agent = table.agents.index(decision.agent)
        usd, reward = float(table.usd[row, agent]), float(table.reward[row, agent])
        router.observe(decision.id, Outcome.completed(reward, cost_usd=usd))
    return chosen


def mix_reward(table: Table, usd: float) -> float:
    """Reward of the best fixed mix of two agents that costs at most ``usd`` a task."""
    dollars, reward = table.usd.mean(axis=0), table.reward.mean(axis=0)
    found = [float(reward[a]) for a in range(len(dollars)) if dollars[a] <= usd]
    for a, b in combinations(range(len(dollars)), 2):
        low, high = (a, b) if dollars[a] < dollars[b] else (b, a)
        if dollars[low] <= usd < dollars[high]:
            share = (usd - dollars[low]) / (dollars[high] - dollars[low])
            found.append(float((1.0 - share) * reward[low] + share * reward[high]))
    return max(found, default=float("nan"))


def measure(table: Table, loss: float | None, orders: int) -> str:
    """One line of the table."""
    base = table.baseline
    promise = None if loss is None else Guarantee(table.agents[base], loss)
    kept, dollars, rewards, broken = [], [], [], 0
    for seed in range(orders):
        order = np.random.default_rng(100 + seed).permutation(len(table.reward))
        chosen = play(table, order, promise, seed)
        reward = table.reward[order, chosen]
        lost = np.cumsum(table.reward[order, base] - reward)
        broken += loss is not None and bool((lost > loss * np.arange(1, len(order) + 1) + 1e-9).any())
        kept.append(float((chosen != base).mean()))
        dollars.append(float(table.usd[order, chosen].mean()))
        rewards.append(float(reward.mean()))
    alone, usd = float(table.reward[:, base].mean()), float(table.usd[:, base].mean())
    mix = mix_reward(table, float(np.mean(dollars)))
    name = "no guarantee" if loss is None else f"loss at most {loss:g}"
    cells = (
        f"{np.mean(kept):.2f}",
        f"{np.mean(dollars) / usd:.3f}",
        f"{np.mean(rewards) - alone:+.4f}",
        f"{mix - alone:+.4f}",
        "" if loss is None else f"{broken} of {orders}",
    )
    return "| " + " | ".join((f"{table.name}, {len(table.reward)} tasks", name, *cells)) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.npz")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--losses", type=float, nargs="+", default=[0.01, 0.02, 0.05])
    given = parser.parse_args()
    head = (
        "table",
        "promise",
        "served by others",
        "dollars / baseline's",
        "reward - baseline's",
        "same for a mix",
        "broken",
    )
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for path in given.files:
        table = read(path, given.rounds)
        for loss in (None, *given.losses):
            print(measure(table, loss, given.orders), flush=True)


if __name__ == "__main__":
    main()
