"""What experiments cost beyond one machine: per round, per unit of work, and for 10^9 rounds on N nodes.

Cost per round is processor time of this process, so other work on the machine matters little. Rounds per second of a
core are those of the processes that play them, on Ray and in a process pool, in the same run. Overhead per unit is
measured with units that do nothing, beside Ray without us and a process pool without us. The tables at the end follow
from the measured numbers; ``docs/evidence/scaling.md`` shows them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _harness import Bench

from bot_orch.lab.environments.gaming import GamingSettings, gaming_matrix
from bot_orch.lab.environments.matrix.npz import write_npz
from bot_orch.lab.environments.stream import GivenAlignment, Stream
from bot_orch.lab.harness.engines import Job, answer, ask, run_local, run_unit
from bot_orch.lab.harness.engines_ray import run_ray
from bot_orch.lab.harness.experiment import Unit
from bot_orch.lab.harness.simulate import simulate
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_keys, generator

CORES_PER_NODE, NODES = 16, (1, 4, 16, 64, 256)
ROUNDS, ROUNDS_PER_SEED = 1_000_000_000, 1000
PROCESSES = 2
MEANS = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
NOTHING = "builtins:dict"  # a unit that hands its parameters back
TIMED = "scaling:timed"
CELL, REPLAY = "scaling:run_cell", "bot_orch.lab.arena.run:run_one"


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds."""

    round_s: float  # of one core
    unit_s: float  # of the process that hands out units: nothing runs faster than it asks
    start_s: float  # Ray, and the first unit on a worker


def cell(policy: str, rounds: int, seeds: int) -> dict[str, Any]:
    """A block of seeds of a simulation."""
    return {"policy": policy, "rounds": rounds, "lambda": 1.0, "seeds": [0, seeds]}


def run_cell(params: dict[str, Any]) -> dict[str, Any]:
    """Simulate six Bernoulli agents; returns the mean reward per seed."""
    seeds, rounds = range(*params["seeds"]), params["rounds"]
    draws = [generator("scaling", seed).random((rounds, len(MEANS))) < MEANS for seed in seeds]
    reward = np.stack(draws, axis=1).astype(float)
    stream = Stream(reward, np.broadcast_to(0.0, reward.shape))
    keys = derive_keys(["scaling-draw"], seeds)
    source = GivenAlignment(stream.alignment)
    trace = simulate(make_policy(params["policy"]), stream, keys, lambda_=params["lambda"], source=source)
    return {"reward": trace.pick(reward).mean(axis=0).tolist()}


def round_seconds(policy: str, seeds: int, repeats: int) -> float:
    """Processor time per round, making of the stream and scoring included; the best of several."""
    params = cell(policy, ROUNDS_PER_SEED, seeds)
    run_cell({**params, "seeds": [0, 2]})
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run_cell(params)
        times.append(time.process_time() - start)
    return min(times) / (ROUNDS_PER_SEED * seeds)


def empty_jobs(count: int) -> list[Job]:
    """Units that do nothing, with parameters of the usual size."""
    params = cell("bot", ROUNDS_PER_SEED, 500)
    return [(NOTHING, Unit(str(index), params)) for index in range(count)]


def per_unit(run: Callable[[Sequence[Job]], object], count: int, repeats: int = 3) -> tuple[float, float]:
    """Wall time and processor time of this process per unit; the best of several."""
    jobs, walls, cpus = empty_jobs(count), [], []
    run(jobs[:20])
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        run(jobs)
        walls.append((time.perf_counter() - wall) / count)
        cpus.append((time.process_time() - cpu) / count)
    return min(walls), min(cpus)


def bare_pool(jobs: Sequence[Job]) -> None:
    """A process pool without us."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=PROCESSES, mp_context=context) as pool:
        list(pool.map(answer, [ask(job) for job in jobs]))


@contextlib.contextmanager
def ray_on_this_machine() -> Iterator[Any]:
    """Ray with two cores, stopped afterwards."""
    ray = importlib.import_module("ray")
    logging.getLogger("ray").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local",
        num_cpus=PROCESSES,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=128 * 2**20,
    )
    try:
        yield ray
    finally:
        ray.shutdown()


def throughput(run: Callable[[Sequence[Job]], object], units: int, seeds: int, repeats: int = 2) -> float:
    """Rounds per second of simulations once its workers are there: the time beyond that of one round per worker."""

    def seconds(params: dict[str, Any], count: int) -> float:
        start = time.perf_counter()
        run([(CELL, Unit(str(index), params)) for index in range(count)])
        return time.perf_counter() - start

    small, large = cell("bot", 1, 1), cell("bot", ROUNDS_PER_SEED, seeds)
    seconds(small, PROCESSES)
    spent = min(seconds(large, units) - seconds(small, PROCESSES) for _ in range(repeats))
    return units * seeds * ROUNDS_PER_SEED / spent


def timed(params: dict[str, Any]) -> dict[str, float]:
    """Run a unit in the process that was asked; its processor time after a small one that loads what it needs."""
    run_unit(params["run"], {**params["unit"], **params["small"]})
    start = time.process_time()
    run_unit(params["run"], params["unit"])
    return {"seconds": time.process_time() - start, "rounds": params["rounds"]}


def core_rate(run: Callable[[Sequence[Job]], Any], params: dict[str, Any], units: int) -> float:
    """Rounds per second of processor time of the processes that play them."""
    found = [payload for _, payload in run([(TIMED, Unit(str(index), params)) for index in range(units)])]
    return float(sum(each["rounds"] for each in found) / sum(each["seconds"] for each in found))


def played(folder: Path, seeds: int) -> dict[str, dict[str, Any]]:
    """Units of a simulation and of the arena with ``auto``: without features, and a replay with claims and costs."""
    path = folder / "gaming.npz"
    write_npz(path, gaming_matrix(GamingSettings(), 0))
    rounds = 500
    replay = {"path": str(path), "order": "shuffled", "policy": "auto", "signal": "log-uniform"}
    return {
        "simulation": {
            "run": CELL,
            "unit": cell("auto", ROUNDS_PER_SEED, seeds),
            "small": {"rounds": 2, "seeds": [0, 2]},
            "rounds": ROUNDS_PER_SEED * seeds,
        },
        "arena": {
            "run": REPLAY,
            "unit": {**replay, "rounds": rounds, "seeds": 20},
            "small": {"rounds": 2, "seeds": 2},
            "rounds": rounds * 20,
        },
    }


def wall_seconds(costs: Costs, nodes: int) -> tuple[float, int]:
    """Time of ``ROUNDS`` rounds, and into how many units they are best cut.

    Units are handed out one after the other, so more of them cost ``unit_s`` each; fewer leave cores idle while the
    last ones finish, one unit's time on average half of them.
    """
    cores = nodes * CORES_PER_NODE
    best = (math.inf, 0)
    for per_core in (1, 2, 4, 8, 16, 32, 64):
        units = cores * per_core
        work = ROUNDS * costs.round_s
        spread = max(work / cores, units * costs.unit_s)
        best = min(best, (costs.start_s + spread + work / units, units))
    return best


def print_table(policy: str, costs: Costs, price: float) -> None:
    """One of the documentation's tables."""
    print(f"\n10^9 rounds of {policy}: {costs.round_s * 1e6:.2f} us of one core per round,")
    print(f"{costs.unit_s * 1e6:.0f} us per unit in the process that asks, {costs.start_s:.1f} s to start\n")
    print(f"| nodes | cores | units | wall time | core hours reserved | at ${price:g} per core hour |")
    print("|---:|---:|---:|---:|---:|---:|")
    for nodes in NODES:
        seconds, units = wall_seconds(costs, nodes)
        cores = nodes * CORES_PER_NODE
        hours = seconds * cores / 3600
        print(f"| {nodes} | {cores:,} | {units:,} | {_span(seconds)} | {hours:.2f} | ${hours * price:.2f} |")


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def measure_rounds(bench: Bench, *, quick: bool) -> dict[str, float]:
    """Cost per round of several policies beside a uniformly random choice."""
    seeds, repeats = (100, 2) if quick else (500, 3)
    base = round_seconds("random", seeds, repeats)
    found = {}
    for policy in ("bot", "ucb1", "linucb", "thompson-beta", "auto"):
        found[policy] = round_seconds(policy, min(seeds, 100) if policy == "auto" else seeds, repeats)
        bench.row(f"round of {policy} against random", found[policy] * 1e6, base * 1e6, higher_is_better=False)
    return found


def measure_units(bench: Bench, rates: Bench, *, quick: bool) -> tuple[float, float]:
    """Overhead of both engines and their rates; returns the asking process's time per unit, and that of a start."""
    count, seeds, units = (200, 100, 4) if quick else (2000, 500, 16)

    def on_ray(jobs: Sequence[Job]) -> None:
        list(run_ray(jobs, PROCESSES))

    def local(jobs: Sequence[Job]) -> None:
        list(run_local(jobs, PROCESSES))

    pools = per_unit(local, count)[0], per_unit(bare_pool, count)[0]
    bench.row("unit on the local engine against a bare pool", *(v * 1e6 for v in pools), higher_is_better=False)
    start = time.perf_counter()
    with ray_on_this_machine() as ray:
        on_ray(empty_jobs(1))
        start_s = time.perf_counter() - start
        remote = ray.remote(num_cpus=1)(answer)
        wall, asking = per_unit(on_ray, count)
        bare = per_unit(lambda jobs: ray.get([remote.remote(ask(job)) for job in jobs]), count)[0]
        bench.row("unit on ray against bare Ray", wall * 1e6, bare * 1e6, higher_is_better=False, need=0.5)
        there, here = throughput(on_ray, units, seeds), throughput(local, units, seeds)
        rates.row("simulation on ray against local", there, here, higher_is_better=True, need=0.7)
        with tempfile.TemporaryDirectory() as folder:
            for what, params in played(Path(folder), 64 if quick else 100).items():
                on = [lambda jobs: run_ray(jobs, PROCESSES), lambda jobs: run_local(jobs, PROCESSES)]
                turns = [[core_rate(run, params, 4) for run in on] for _ in range(1 if quick else 3)]
                best = [max(each) for each in zip(*turns, strict=True)]
                name = f"one core {what} with auto on ray against local"
                rates.row(name, *best, higher_is_better=True, need=0.8)
    return asking, start_s


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/scaling.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and units")
    parser.add_argument("--price", type=float, default=0.05, metavar="USD", help="of a core hour (default: 0.05)")
    arguments = parser.parse_args()
    bench, rates = Bench("us"), Bench("rounds/s")
    rounds = measure_rounds(bench, quick=arguments.quick)
    asking, start_s = measure_units(bench, rates, quick=arguments.quick)
    for each in (bench, rates):
        each.finish()
    for policy in ("bot", "thompson-beta", "auto"):
        print_table(policy, Costs(rounds[policy], asking, start_s), arguments.price)


if __name__ == "__main__":
    main()
