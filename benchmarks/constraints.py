"""Do limits hold over 5000 rounds while rewards and prices drift? Usage over limit, per policy and constraint.

    python benchmarks/constraints.py [rounds] [policy ...]

Rewards move by 0.15 along a sine, prices by 80 %, and one price triples after 60 % of the rounds. Cells are the worst
of four seeds. Budget, capacity and deadline: usage over limit, which holds up to 1. Quality: mean reward over what is
demanded, (1 - within) times that of the best single agent, which holds from 1 on; beside it dollars over those of the
cheapest mix of agents that meets the demand, in a world that does not drift. Rewards are the expected ones of the
chosen agents, without the noise of their outcomes.

The rows *equal* and *middle* are 4000 rounds of three agents at .001, .01 and .1 dollars with mean rewards of .80, .80,
.79 and .70, .80, .81, twenty seeds, prices known: mean and largest dollars of a run, mean and least quality. The rows
*features* and *text* are 4000 tasks of two kinds for the default router: an agent at .001 dollars is as good as one at
.01 for half of them (.80) and worse for the others (.40). The best rule that knows the kinds pays $22.
"""

from __future__ import annotations

import sys
import time
from itertools import product
from pathlib import Path

import numpy as np

from bot_orch import Agent, Budget, Capacity, Deadline, Orchestrator, Outcome, Quality, Task
from bot_orch.core.constraints import Constraint

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "constraints"))
from limited_worlds import Played, World, play  # type: ignore[import-not-found]

_USD, _SHARE, _LATE = 0.0015, 0.1, 0.12
_POLICIES = ("auto", "ucb1", "thompson-beta", "linucb")
LIMITS: dict[str, list[Constraint]] = {
    "budget": [Budget(_USD)],
    "capacity": [Capacity("3", _SHARE)],
    "deadline": [Deadline(8.0, _LATE)],
    "three": [Budget(_USD), Capacity("3", _SHARE), Deadline(8.0, _LATE)],
    "four": [Budget(2.0 * _USD), Capacity("3", _SHARE), Deadline(8.0, 2.0 * _LATE), Quality(0.15)],
    "quality 10 %": [Quality(0.1)],
    "quality 2 %": [Quality(0.02)],
}


def expected(world: World, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected rewards and dollars by round and agent."""
    values = [world.at(t / rounds) for t in range(rounds)]
    return np.stack([quality for quality, _ in values]), np.stack([usd for _, usd in values])


def cheapest(quality: np.ndarray, usd: np.ndarray, demand: float) -> float:
    """Dollars of the cheapest mix of two agents whose mean reward is at least ``demand``."""
    found = [np.inf]
    for a, b in product(range(len(quality)), repeat=2):
        if quality[a] >= demand > quality[b]:
            share = (demand - quality[b]) / (quality[a] - quality[b])
            found.append(share * usd[a] + (1.0 - share) * usd[b])
    return float(min([*found, *usd[quality >= demand]]))


def cells(found: Played, world: World, limits: list[Constraint]) -> dict[str, str]:
    """Usage over limit, the worst of the seeds."""
    rounds = len(found.agent)
    quality, usd = expected(world, rounds)
    chosen = np.take_along_axis(quality, found.agent.astype(int), axis=1).mean(axis=0)
    row = {"reward": f"{chosen.mean():.3f}"}
    for each in limits:
        if isinstance(each, Budget):
            row["budget"] = f"{np.max(found.usd.mean(axis=0) / each.limit):.3f}"
        elif isinstance(each, Capacity):
            row["capacity"] = f"{np.max((found.agent == int(each.agent)).mean(axis=0) / each.limit):.3f}"
        elif isinstance(each, Deadline):
            row["deadline"] = f"{np.max((found.seconds > each.seconds).mean(axis=0) / each.limit):.3f}"
        elif isinstance(each, Quality):
            demand = (1.0 - each.within) * float(quality.mean(axis=0).max())
            row["quality"] = f"{np.min(chosen / demand):.3f}"
            if not world.drift and len(limits) == 1:
                least = cheapest(quality.mean(axis=0), usd.mean(axis=0), demand)
                row["usd"] = f"{np.max(found.usd.mean(axis=0)) / least:.2f}"
    return row


def three_agents(policies: tuple[str, ...]) -> None:
    """Print dollars and quality of three agents at prices of 1 : 10 : 100 under ``Quality(0.02)``."""
    print("\n| policy | world | usd, mean | usd, worst | quality, mean | quality, worst |\n|" + "---|" * 6)
    price = np.array([0.001, 0.01, 0.1])
    for policy, (name, quality) in product(policies, {"equal": (0.8, 0.8, 0.79), "middle": (0.7, 0.8, 0.81)}.items()):
        world = World(quality=quality, price=tuple(price), seconds=(1.0,) * 3)
        found = play(world, policy, [Quality(0.02)], rounds=4000, seeds=20, floor=0.02, price=price, exact_usd=True)
        usd, good = found.usd.sum(axis=0), np.array(quality)[found.agent.astype(int)].mean(axis=0)
        cells = (f"{usd.mean():.1f}", f"{usd.max():.1f}", f"{good.mean():.3f}", f"{good.min():.3f}")
        print("| " + " | ".join((policy, name, *cells)) + " |", flush=True)


def two_kinds() -> None:
    """Print dollars and quality where half of the tasks suit the cheap agent, eight seeds of the default router."""
    words = (["refund", "invoice", "order", "delivery"], ["integral", "theorem", "matrix", "derivative"])
    price = {"cheap": 0.001, "dear": 0.01}
    for world in ("features", "text"):
        runs = []
        for seed in range(8):
            rng, usd, good = np.random.default_rng(seed), 0.0, 0.0
            agents = [Agent(name, price=each) for name, each in price.items()]
            router = Orchestrator(agents, seed=seed, ids="derived", constraints=[Quality(0.02)])
            for number in range(4000):
                kind = int(rng.integers(2))
                text = " ".join(rng.choice(words[kind], size=3, replace=False))
                given = {"text": text} if world == "text" else {"features": (float(kind),)}
                decision = router.decide(Task(str(number), **given))
                right = 0.4 if kind and decision.agent == "cheap" else 0.8
                paid = price[decision.agent]
                router.observe(decision.id, Outcome.completed(float(rng.random() < right), cost_usd=paid))
                usd, good = usd + paid, good + right / 4000
            runs.append((usd, good))
        usds, quality = np.array(runs).T
        cells = (f"{usds.mean():.1f}", f"{usds.max():.1f}", f"{quality.mean():.3f}", f"{quality.min():.3f}")
        print("| " + " | ".join(("auto", world, *cells)) + " |", flush=True)


def main(rounds: int = 5000, policies: tuple[str, ...] = _POLICIES) -> None:
    """Print the table."""
    columns = ("budget", "capacity", "deadline", "quality", "usd", "reward")
    head = ("policy", "limits", "drift", "late by", *columns, "ms/round")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for policy in policies:
        for name, limits in LIMITS.items():
            for drift, late in ((True, 0), (True, 50), (False, 0)):
                world = World(drift=drift)
                started = time.process_time()
                found = play(world, policy, limits, rounds=rounds, seeds=4, floor=0.02, late=late)
                spent = time.process_time() - started
                row = cells(found, world, limits)
                shown = (policy, name, "yes" if drift else "no", str(late), *(row.get(each, "") for each in columns))
                print("| " + " | ".join(shown) + f" | {1e3 * spent / rounds:.2f} |", flush=True)
    three_agents(policies)
    two_kinds()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000, tuple(sys.argv[2:]) or _POLICIES)
