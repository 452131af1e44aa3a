"""A second attempt within the same deadline: gaps of `auto` with one agent per task, and with two.

    python benchmarks/attempts.py DATA/aslib_*.npz

One pass, ten shuffled orders, signal PAR10; gap = (PAR10 - oracle) / (best single - oracle), where the two are those of
one attempt, so that 0 is not a bound. *half*: the first agent gets half of the time; *learned*: what
`Orchestrator.patience` says. Differences are paired over orders. The time of features is counted unless
`--free-features` is given. Sets without features are left out. Prints Markdown.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import read_npz
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.attempts import attempt_readers, play_attempts_of
from bot_orch.lab.harness.replay_metrics import chosen, score

_COLUMNS: dict[str, tuple[int, PatienceRule]] = {
    "one": (1, "half"),
    "two, half": (2, "half"),
    "two, learned": (2, "learned"),
    "three, half": (3, "half"),
    "three, learned": (3, "learned"),
}


def gaps(matrix: Matrix, attempts: int, rule: PatienceRule, *, seeds: int) -> Floats:
    """Gaps by order."""
    replay = Replay(matrix, seeds=range(seeds), signal="par10")
    build = discover_entrants()["auto"].build
    trace = play_attempts_of(replay, build, attempts, rule=rule, settings={"signal": "par10"})
    found = score(replay, chosen(replay, trace.agent), own=attempt_readers(replay, trace))
    return np.array(found["metrics"]["gap"])


def _difference(a: Floats, b: Floats) -> str:
    gap = a - b
    return f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders (default: 10)")
    parser.add_argument("--free-features", action="store_true", help="features take no time")
    arguments = parser.parse_args()
    print("| gap |", " | ".join(_COLUMNS), "| two: learned - half | two learned - one |")
    print("|---" * (len(_COLUMNS) + 3) + "|")
    means: list[list[float]] = []
    for path in arguments.sets:
        matrix = read_npz(path)
        if matrix.features is None:
            continue
        if arguments.free_features:
            matrix = replace(matrix, feature_cost_s=None)
        found = {name: gaps(matrix, k, rule, seeds=arguments.seeds) for name, (k, rule) in _COLUMNS.items()}
        cells = [f"{values.mean():.3f}" for values in found.values()]
        learned = found["two, learned"]
        pairs = [_difference(learned, found["two, half"]), _difference(learned, found["one"])]
        print("|", " | ".join([f"`{path.stem}`", *cells, *pairs]), "|", flush=True)
        means.append([float(values.mean()) for values in found.values()])
    print("| **mean** |", " | ".join(f"**{value:.3f}**" for value in np.mean(means, axis=0)), "| | |")


if __name__ == "__main__":
    main()
