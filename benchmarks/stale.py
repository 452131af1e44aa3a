"""Does a router look again? An agent that improves while it is ignored, lost feedback, and the price of looking.

    python benchmarks/stale.py [--part improves locks stationary] [--quick]

`improves`: one agent earns .8, the others .5; after 2000 rounds one of the others earns .95. Printed: after how many
rounds it gets half of the next 50 decisions. `locks`: agents earn .8, .6 and .6, and half of the outcomes are never
reported; printed is the share of runs whose last 500 of 3000 rounds are mostly on the best agent. `stationary`:
regret where nothing changes, in the world of `improves` and in one whose agents earn from .4 to .8, beside Thompson
sampling, which looks again only as its posterior asks for it. Plain `Orchestrator(names, seed=...)`, floor included.

Bars: the improved agent is found within 300 rounds in 19 of 20 runs, and 23 of 24 runs end on the best agent.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from _harness import Bench
from _spread import mean_error, spread

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import Floats, Ints

_BEFORE, _AFTER, _WINDOW, _SOON = 2000, 1000, 50, 300
_LOCKED, _END = 3000, 500
_STATIONARY = 2000
_IMPROVES, _WORLDS = (2, 3, 4, 8), (2, 4, 8, 30)

Job = tuple[str, int, int]


def played(means: Floats, seed: int, *, policy: str = "auto", lost: float = 0.0) -> Ints:
    """Agents chosen in a world of Bernoulli rewards with these means, (rounds, M)."""
    drawn = np.random.default_rng([seed, means.shape[1]])
    rewards, kept = drawn.random(means.shape) < means, drawn.random(len(means)) >= lost
    names = [f"agent-{i}" for i in range(means.shape[1])]
    router, index, chosen = Orchestrator(names, policy, seed=seed), {n: i for i, n in enumerate(names)}, []
    for t, reward in enumerate(rewards):
        decision = router.decide(Task(str(t)))
        chosen.append(index[decision.agent])
        if kept[t]:
            router.observe(decision.id, Outcome.completed(float(reward[chosen[-1]])))
    return np.array(chosen)


def incumbent(agents: int, rounds: int) -> Floats:
    """The agent in the middle earns .8, the others .5."""
    means = np.full((rounds, agents), 0.5)
    means[:, agents // 2] = 0.8
    return means


def improves(agents: int, seed: int, *, before: int) -> float:
    """After how many rounds the agent that improved gets half of the next 50 decisions; infinity for not in time."""
    means = incumbent(agents, before + _AFTER + _WINDOW)
    means[before:, 0] = 0.95
    mine = np.cumsum(np.concatenate([[0], played(means, seed)[before:] == 0]))
    enough = np.flatnonzero(2 * (mine[_WINDOW:] - mine[:-_WINDOW]) >= _WINDOW)
    return float(enough[0]) if enough.size else np.inf


def locks(seed: int, *, rounds: int) -> float:
    """The share of the last 500 rounds on the best agent."""
    means = np.tile([0.6, 0.8, 0.6], (rounds, 1))
    return float((played(means, seed, lost=0.5)[-_END:] == 1).mean())


def regret(agents: int, seed: int, *, rounds: int) -> dict[str, float]:
    """Regret over all rounds and per round in the second half, by world and policy."""
    worlds = {"one ahead": incumbent(agents, rounds), "spread": np.tile(np.linspace(0.4, 0.8, agents), (rounds, 1))}
    found = {}
    for world, means in worlds.items():
        for policy in ("auto", "thompson-beta"):
            lost = means.max(axis=1) - means[np.arange(rounds), played(means, seed, policy=policy)]
            found[f"{world} {policy}"] = float(lost.sum())
            found[f"{world} {policy} late"] = float(lost[rounds // 2 :].mean())
    return found


def one(job: Job, *, rounds: dict[str, int]) -> float | dict[str, float]:
    """One run of a part."""
    part, agents, seed = job
    if part == "improves":
        return improves(agents, seed, before=rounds[part])
    return locks(seed, rounds=rounds[part]) if part == "locks" else regret(agents, seed, rounds=rounds[part])


def report(bench: Bench, part: str, agents: int, found: list[float | dict[str, float]]) -> None:
    """Print the row of a part and note its bars."""
    if part == "stationary":
        by = {name: mean_error([each[name] for each in found if isinstance(each, dict)]) for name in _names(found)}
        for world in ("one ahead", "spread"):
            cells = []
            for policy in ("auto", "thompson-beta"):
                (total, error), (late, _) = by[f"{world} {policy}"], by[f"{world} {policy} late"]
                cells.append(f"{policy} {total:.1f} +- {error:.1f}, late {late:.4f} a round")
            print(f"stationary M={agents}, {world}: regret {'; '.join(cells)}", flush=True)
        return
    values = np.array([each for each in found if isinstance(each, float)])
    if part == "improves":
        soon, middle = int((values <= _SOON).sum()), np.sort(values)[(len(values) - 1) // 2]
        spelled = " ".join("never" if np.isinf(each) else f"{each:.0f}" for each in np.sort(values))
        print(f"improves M={agents}: within {_SOON} rounds in {soon} of {len(values)}, median {middle:.0f} ({spelled})")
        bench.bar(f"improves M={agents}", soon / len(values), 0.95)
    else:
        ends = int((values > 0.5).sum())
        print(f"locks: {ends} of {len(values)} runs end on the best agent, mean share {values.mean():.3f}")
        bench.bar("locks", ends / len(values), 23 / 24)


def _names(found: list[float | dict[str, float]]) -> list[str]:
    return list(found[0]) if isinstance(found[0], dict) else []


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("improves", "locks", "stationary")
    parser.add_argument("--part", nargs="+", choices=parts, default=parts, help="default: all three")
    parser.add_argument("--agents", nargs="+", type=int, metavar="M", help="numbers of agents (default: 2 to 8, 30)")
    parser.add_argument("--seeds", type=int, metavar="N", help="runs (default: 20; 24 where feedback is lost)")
    parser.add_argument("--quick", action="store_true", help="4 runs; 500 rounds before the change, 1000 elsewhere")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    asked = parser.parse_args()
    rounds = {"improves": _BEFORE, "locks": _LOCKED, "stationary": _STATIONARY}
    if asked.quick:
        rounds = {"improves": 500, "locks": 1000, "stationary": 1000}
    sizes = {"improves": asked.agents or _IMPROVES, "locks": (3,), "stationary": asked.agents or _WORLDS}
    jobs: list[Job] = []
    for part in asked.part:
        seeds = asked.seeds or (4 if asked.quick else 24 if part == "locks" else 20)
        jobs += [(part, agents, seed) for agents in sizes[part] for seed in range(seeds)]
    bench, found = Bench("share"), dict[tuple[str, int], list[float | dict[str, float]]]()
    wanted = {place: sum(job[:2] == place for job in jobs) for place in {job[:2] for job in jobs}}
    for job, result in spread(partial(one, rounds=rounds), jobs, asked.jobs):
        found.setdefault(job[:2], []).append(result)
        if len(found[job[:2]]) == wanted[job[:2]]:
            report(bench, job[0], job[1], found[job[:2]])
    bench.finish()


if __name__ == "__main__":
    main()
