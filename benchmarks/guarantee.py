"""What a guarantee costs and saves on tables of rewards and dollars: `python benchmarks/guarantee.py FILE.npz ...`.

    python benchmarks/guarantee.py TABLE.npz [--orders 5] [--losses .01 .02 .05] [--rounds N] [--attempts 1 2]
    python benchmarks/guarantee.py --streams 100

Per table (arrays `reward` and `cost_usd`, tasks x agents) and order of tasks: `Orchestrator` with prices. The
baseline is the agent with the largest mean reward; at the objective's weight of dollars the dearest agent has to earn
a tenth more than the cheapest. Printed are the share of tasks that another agent served, dollars and reward per task
over those of the baseline on the same tasks, and in how many orders the promise was ever broken. In the same table:
the baseline alone, the router without a guarantee, and the mix of two agents with the same dollars, fitted in
hindsight. With 2 attempts an answer is looked at before it is delivered: its signal (array `signal`) is reported.

Streams are simulated through `Orchestrator`, too: rewards of the other agent at the boundary of the promise, worse
after a change, or chosen by an adversary that sees whether others are served. Printed is the share of streams in which
the promise was ever broken.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from bot_orch import Agent, Answer, Guarantee, Objective, Orchestrator, Outcome, Task
from bot_orch.arrays import Floats, Ints


@dataclass(frozen=True)
class Table:
    """Rewards and dollars, tasks x agents, without rows that miss one."""

    name: str
    agents: tuple[str, ...]
    reward: Floats
    usd: Floats
    signal: Floats | None = None

    @property
    def baseline(self) -> int:
        """The agent with the largest mean reward."""
        return int(np.argmax(self.reward.mean(axis=0)))


def read(path: Path, rounds: int | None) -> Table:
    """One table, its first rows if there are more than ``rounds`` in a random order."""
    with np.load(path, allow_pickle=False) as found:
        reward, usd, names = found["reward"], found["cost_usd"], found["agent"]
        signal = found["signal"] if "signal" in found.files else None
    fine = np.isfinite(reward).all(axis=1) & np.isfinite(usd).all(axis=1)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(fine))[:rounds]
    shown = None if signal is None else signal[rows].astype(float)
    return Table(path.stem, tuple(str(each) for each in names), np.clip(reward[rows], 0.0, 1.0), usd[rows], shown)


def play(table: Table, order: Ints, promise: Guarantee | None, seed: int, *, attempts: int) -> tuple[Ints, Floats]:
    """Agents whose answers a router with default policy delivered, and the dollars of all answers, task by task."""
    means = table.usd.mean(axis=0)
    agents = [Agent(name, price=float(usd)) for name, usd in zip(table.agents, means, strict=True)]
    weight = 0.1 / float(means.max() - means.min())
    router = Orchestrator(agents, objective=Objective(usd=weight), guarantee=promise, seed=seed)
    chosen, spent = np.zeros(len(order), dtype=np.int64), np.zeros(len(order))
    for number, row in enumerate(order):
        seen: list[Answer] = []
        while True:
            decision = router.decide(Task(f"t{number}"), seen=seen, attempts=attempts)
            chosen[number] = agent = table.agents.index(decision.agent)
            if decision.action == "accept":
                break
            usd = float(table.usd[row, agent])
            spent[number] += usd
            if attempts == 1:
                break
            signal = np.nan if table.signal is None else float(table.signal[row, agent])
            shown = None if np.isnan(signal) else signal
            seen.append(Answer(decision.agent, decision.id, signal=shown, cost_usd=usd))
        reward = float(table.reward[row, agent])
        router.observe(decision.id, Outcome.completed(reward, cost_usd=usd if attempts == 1 else None))
    return chosen, spent


def stream(world: str, rounds: int, seed: int) -> tuple[bool, float]:
    """Whether the promise was ever broken in one stream, and the share of tasks that others served."""
    promise, rng = Guarantee("large", 0.2), np.random.default_rng(seed)
    agents = [Agent("small", price=0.0), Agent("large", price=0.3)]
    weights = Objective(usd=1.0)
    router = Orchestrator(agents, "ucb1", encoder=None, objective=weights, guarantee=promise, seed=seed)
    loss, broken, others = 0.0, False, 0
    for number in range(rounds):
        certificate = router.certificate() if world == "adversary" else None
        serves = certificate is not None and certificate.serves_others
        p = {
            "at the boundary": (0.8, 0.8 - 0.2 / 0.75),
            "drifting": (0.8, 0.9 if number < 0.6 * rounds else 0.3),
            "adversary": (1.0, 0.5) if serves else (0.0, 0.0),
        }[world]
        reward = dict(zip(("large", "small"), (float(rng.random() < each) for each in p), strict=True))
        decision = router.decide(Task())
        router.observe(decision.id, Outcome.completed(reward[decision.agent]))
        loss += reward["large"] - reward[decision.agent]
        others += decision.agent == "small"
        broken |= loss > promise.loss_at_most * (number + 1) + 1e-9
    return broken, others / rounds


def streams(number: int, rounds: int) -> None:
    """Print the share of streams in which the promise was broken, by world."""
    print("| world | streams | rounds | served by others | ever broken |\n|---|---|---|---|---|", flush=True)
    for world in ("at the boundary", "drifting", "adversary"):
        found = [stream(world, rounds, seed) for seed in range(number)]
        broken, others = (float(np.mean(each)) for each in zip(*found, strict=True))
        print(f"| {world} | {number} | {rounds} | {others:.2f} | {broken:.3f} |", flush=True)


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


def measure(table: Table, loss: float | None, orders: int, attempts: int) -> str:
    """One line of the table."""
    base = table.baseline
    promise = None if loss is None else Guarantee(table.agents[base], loss)
    kept, dollars, rewards, broken = [], [], [], 0
    for seed in range(orders):
        order = np.random.default_rng(100 + seed).permutation(len(table.reward))
        chosen, spent = play(table, order, promise, seed, attempts=attempts)
        reward = table.reward[order, chosen]
        lost = np.cumsum(table.reward[order, base] - reward)
        broken += loss is not None and bool((lost > loss * np.arange(1, len(order) + 1) + 1e-9).any())
        kept.append(float((chosen != base).mean()))
        dollars.append(float(spent.mean()))
        rewards.append(float(reward.mean()))
    alone, usd = float(table.reward[:, base].mean()), float(table.usd[:, base].mean())
    mix = mix_reward(table, float(np.mean(dollars)))
    name = "no guarantee" if loss is None else f"loss at most {loss:g}"
    name += "" if attempts == 1 else f", {attempts} attempts"
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
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.npz")
    parser.add_argument("--streams", type=int, help="simulate so many streams per world")
    parser.add_argument("--attempts", type=int, nargs="+", default=[1])
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--losses", type=float, nargs="+", default=[0.01, 0.02, 0.05])
    given = parser.parse_args()
    if given.streams:
        streams(given.streams, given.rounds or 400)
        return
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
        for attempts in given.attempts:
            for loss in (None, *given.losses):
                print(measure(table, loss, given.orders, attempts), flush=True)


if __name__ == "__main__":
    main()
