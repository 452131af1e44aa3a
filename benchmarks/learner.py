"""The gates of `auto`: feature problems, the visible sets, lock-in worlds, a text that says something, and time.

    python benchmarks/learner.py [--features FOLDER] [--sets FOLDER] [--seeds 16] [--only PART ...] [--jobs 2]

Played is the router that a user gets, floor 0.02 included; the figure at floor 0 stands beside it. `before` are the
figures of the mixture of six models that was `auto` before, frozen at b698c12a (floor 0). Rewards are means of what was
chosen, without the noise of trials; +- is one standard error over seeds.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Bench
from _spread import spread

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import Floats
from bot_orch.lab.environments.matrix.find import load_matrix
from bot_orch.lab.environments.replay.bandit import Order, Replay
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies.registry import make_policy

FLOORS = (0.02, 0.0)
PARTS = ("features", "sets", "lock-in", "time")
#: Frozen at b698c12a.
BEFORE = {"features auto": 0.539, "features linucb": 0.578, "sets shuffled": 0.656, "sets given": 0.666}
LOCKED = {("unlucky", 0.02): (0.88, 0.71), ("unlucky", 0.0): (0.001, 0.001), ("risky", 0.02): (0.85, 0.66)}
NEEDED = {("unlucky", 0.02): (0.92, 0.8), ("unlucky", 0.0): (0.85, 0.7), ("risky", 0.02): (0.92, 0.8)}
TIMES = {6: {"none": 3.0, "ten": 7.0, "text": 9.0}, 100: {"none": 6.0, "ten": 17.0, "text": 19.0}}
_WORDS = ["please", "help", "me", "with", "this", "answer", "python", "code", "refund", "invoice", "poem", "moon"]


def earned(job: tuple[str, str, Order, float], *, seeds: int, most: int | None) -> Floats:
    """Mean reward per seed of one policy on one set."""
    path, policy, order, floor = job
    matrix = load_matrix(Path(path))
    replay = Replay(matrix, order, min(most or len(matrix.playable), len(matrix.playable)), seeds=range(seeds))
    trace = play(PolicyPlayer(make_policy(policy), replay.setup, floor=floor), replay)
    reward = matrix.runtime.reward if matrix.runtime is not None and matrix.runtime_only else matrix.reward
    return np.asarray(np.nanmean(reward[replay.rows, trace.agent], axis=0))


def played(
    folder: Path, policies: list[str], orders: list[Order], *, seeds: int, most: int | None, jobs: int
) -> dict[Any, dict[str, Floats]]:
    """Rewards by policy, order and floor, then by set; printed set by set."""
    paths, found = sorted(folder.glob("*.npz")), dict[Any, dict[str, Floats]]()
    wanted = [
        (str(path), name, order, floor) for path in paths for name in policies for order in orders for floor in FLOORS
    ]
    for (path, *key), reward in spread(partial(earned, seeds=seeds, most=most), wanted, jobs):
        found.setdefault(tuple(key), {})[Path(path).stem] = reward
        print(
            f"  {Path(path).stem}, {', '.join(map(str, key))}, {reward.mean():.4f} +- {_error(reward):.4f}", flush=True
        )
    for key, sets in found.items():
        over = np.mean(list(sets.values()), axis=0)
        print(f"mean of {len(sets)} sets, {', '.join(map(str, key))}: {over.mean():.4f} +- {_error(over):.4f}")
    return found


def _error(values: Floats) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def share_of_better(job: tuple[str, float, int]) -> float:
    """Share of 2 000 rounds that the better of two agents gets; one outcome of it may mislead."""
    kind, floor, seed = job
    rng = np.random.default_rng(seed)
    rewards = rng.normal((0.55, 0.62), (0.06, 0.12), (2000, 2)).clip(0.0, 1.0)
    if kind == "risky":
        rewards = np.stack([rng.normal(0.69, 0.02, 2000), 0.87 * (rng.random(2000) > 0.15)], axis=1)
    router, asked = Orchestrator(["calm", "better"], seed=seed, floor=floor), 0
    for row in rewards:
        decision = router.decide(Task())
        better = decision.agent == "better"
        reward = 0.0 if better and not asked and kind == "unlucky" else float(row[int(better)])
        router.observe(decision.id, Outcome.completed(reward))
        asked += better
    return asked / len(rewards)


def microseconds(policy: str, agents: int, kind: str, rounds: int = 1500) -> tuple[float, float]:
    """Median of decide + observe after half the rounds, and the longest observe in milliseconds."""
    rng, router = np.random.default_rng(0), Orchestrator([str(i) for i in range(agents)], policy, seed=0)
    quality, took, longest = rng.random(agents), [], 0.0
    for _ in range(rounds):
        words = " ".join(rng.choice(_WORDS, 40))
        task = {"none": Task(), "ten": Task(features=tuple(rng.normal(size=10).tolist())), "text": Task(text=words)}[
            kind
        ]
        begin = time.perf_counter()
        decision = router.decide(task)
        decided = time.perf_counter()
        outcome = Outcome.completed(float(rng.random() < quality[int(decision.agent)]))
        told = time.perf_counter()
        router.observe(decision.id, outcome)
        end = time.perf_counter()
        took.append(decided - begin + end - told)
        longest = max(longest, end - told)
    return 1e6 * statistics.median(took[rounds // 2 :]), 1e3 * longest


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("data_features"), help="problems with numeric features")
    parser.add_argument("--sets", type=Path, default=Path("data"), help="the visible sets")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--at-most", type=int, default=2000, metavar="N", help="rounds on larger sets (default: 2000)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--jobs", type=int, default=2)
    given, bench = parser.parse_args(), Bench("reward", digits=3)
    if "features" in given.only:
        options = {"seeds": given.seeds, "most": 1000, "jobs": given.jobs}
        found = played(given.features, ["auto", "linucb"], ["shuffled"], **options)
        for floor, least in zip(FLOORS, (0.595, BEFORE["features auto"]), strict=True):
            mean = float(np.mean([each.mean() for each in found["auto", "shuffled", floor].values()]))
            bench.row(f"features floor {floor:g}", mean, BEFORE["features auto"], higher_is_better=True)
            bench.bar(f"features floor {floor:g} over {least}", mean / least)
    if "sets" in given.only:
        options = {"seeds": given.seeds, "most": given.at_most, "jobs": given.jobs}
        found = played(given.sets, ["auto"], ["shuffled", "given"], **options)
        for (_, order, floor), sets in found.items():
            mean, before = float(np.mean([each.mean() for each in sets.values()])), BEFORE[f"sets {order}"]
            bench.row(f"sets {order} floor {floor:g}", mean, before, higher_is_better=True, need=None if floor else 1.0)
    if "lock-in" in given.only:
        jobs = [(kind, floor, seed) for kind in ("unlucky", "risky") for floor in FLOORS for seed in range(18)]
        shares: dict[Any, list[float]] = {}
        for (kind, floor, _), share in spread(share_of_better, jobs, given.jobs):
            shares.setdefault((kind, floor), []).append(share)
        for key, of_seeds in shares.items():
            name, past = f"lock-in {key[0]} floor {key[1]:g}", LOCKED.get(key, (math.nan, math.nan))
            print(f"{name}: mean {np.mean(of_seeds):.3f}, worst {min(of_seeds):.3f}; before {past[0]}, {past[1]}")
            if key in NEEDED:
                bench.bar(f"{name} mean", float(np.mean(of_seeds)) / NEEDED[key][0])
                bench.bar(f"{name} worst", min(of_seeds) / NEEDED[key][1])
    if "time" in given.only:
        for agents, times in TIMES.items():
            bot, _ = microseconds("bot", agents, "none")
            for kind, most in times.items():
                took, longest = microseconds("auto", agents, kind)
                print(f"{agents} agents, {kind}: {took:.0f} us, {took / bot:.1f} times bot; longest {longest:.1f} ms")
                bench.bar(f"time {agents} agents {kind}", most / (took / bot))
    bench.finish()


if __name__ == "__main__":
    main()
