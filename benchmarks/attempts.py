"""A second attempt within the same deadline: gaps of `auto` with one agent per task, and with two.

    python benchmarks/attempts.py DATA/aslib_*.npz

One pass, ten shuffled orders, signal PAR10; gap = (PAR10 - oracle) / (best single - oracle), where the two are those of
one attempt, so that 0 is not a bound. *half*: the first agent gets half of the time; *learned*: what
`Orchestrator.patience` says. Differences are paired over orders. The time of features is counted unless
`--free-features` is given. Sets without features are left out. Prints Markdown.

    python benchmarks/attempts.py --weights .02 .08 .2 -- DATA/frugalml_*.npz

Sets with data about answers, every `task_dataset` of a set alone: what two attempts by `auto` earn net of dollars, less
what the best single agent in hindsight earns on the same rows, by the weight of a dollar in units of its price; second
half of the rounds. The last columns are means over weights: of one attempt, and of the best chain of two steps that was
fitted to all outcomes of the first half.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.lab.arena.answers import AnswerSide, play_all, read_answers
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


def alone(side: AnswerSide, rows: Ints) -> AnswerSide:
    """Some rows of a set, with the price of the agent of most reward there as the unit of money."""
    matrix = replace(side.matrix, reward=side.matrix.reward[rows])
    best = int(matrix.reward.mean(axis=0).argmax())
    cost = side.cost[rows] / side.cost[rows, best].mean()
    return AnswerSide(matrix, cost, side.signal[rows], side.answer[rows], side.check[rows], side.labels)


def print_gains(paths: Sequence[Path], weights: Sequence[float], *, seeds: int, rounds: int) -> None:
    """The table of sets with data about answers."""
    print("| gain |", " | ".join(f"{weight:g}" for weight in weights), "| one attempt | chain |")
    print("|---" * (len(weights) + 3) + "|")
    means: list[Floats] = []
    for path in paths:
        side = read_answers(path)
        with np.load(path, allow_pickle=False) as archive:
            datasets = np.asarray(archive["task_dataset"])
        for name in np.unique(datasets).tolist():
            part, found = alone(side, np.flatnonzero(datasets == name)), []
            for weight in weights:
                results = play_all(part, attempts=2, weight=weight, seeds=seeds, rounds=rounds)
                compared = ("auto, 2 attempts", "auto, 1 attempt", "chain (first half)")
                net = np.stack([results[each][:, 3] for each in compared])
                found.append((net - results["best single (hindsight)"][:, 3]).mean(axis=1))
            gains = np.array(found)
            means.append(np.append(gains[:, 0], gains[:, 1:].mean(axis=0)))
            print("|", " | ".join([f"`{name}`", *(f"{value:+.3f}" for value in means[-1])]), "|", flush=True)
    print("| **mean** |", " | ".join(f"**{value:+.3f}**" for value in np.mean(means, axis=0)), "|")


def _difference(a: Floats, b: Floats) -> str:
    gap = a - b
    return f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders (default: 10)")
    parser.add_argument("--free-features", action="store_true", help="features take no time")
    parser.add_argument("--weights", nargs="+", type=float, help="of dollars, for sets with data about answers")
    parser.add_argument("--rounds", type=int, default=4000, help="at most, with --weights (default: 4000)")
    arguments = parser.parse_args()
    if arguments.weights:
        print_gains(arguments.sets, arguments.weights, seeds=arguments.seeds, rounds=arguments.rounds)
        return
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
