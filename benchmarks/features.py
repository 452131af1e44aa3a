"""Do features that say nothing cost anything? The arena's sets with their features, those of other tasks, and none.

    python benchmarks/features.py [--sets NAME ...] [--seeds 20] [--rounds 2000] [--aside] [--quick]

`auto` plays every set four times in the same orders, as `bot-orch arena` plays it: with the raw inputs of the tasks,
features and text (`given`), with those of another task (`permuted`), with the same for every task (`constant`), and
with none. Printed are mean rewards on the arena's signal and paired differences to `none` with their standard errors
over seeds. Sets that are set aside (`benchmarks/_aside.py`) are played only with `--aside`.

Bars: permuted and constant features cost at most .005 of reward.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from _aside import folders, set_aside
from _harness import Bench
from _spread import mean_error, spread

from bot_orch.arrays import Floats
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.context import Inputs
from bot_orch.lab.environments.matrix.find import load_matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import play
from bot_orch.lab.harness.replay_metrics import chosen, score

_KINDS = ("none", "given", "permuted", "constant")
_ALLOWED = 0.005
_GROUP = 4  # seeds of a job: they share one permutation

Job = tuple[str, str, int]


def one_group(job: Job, *, rounds: int, seeds: int, policy: str) -> Floats:
    """Mean reward by seed for one kind of features."""
    name, kind, first = job
    matrix = load_matrix(folders()[0] / f"{name}.npz")
    replay = Replay(matrix, rounds=min(rounds, len(matrix.playable)), seeds=range(first, min(first + _GROUP, seeds)))
    replay.inputs = _changed(replay.inputs, kind, first)
    trace = play(discover_entrants()[policy].build(replay.setup), replay)
    return np.array(score(replay, chosen(replay, trace.agent))["metrics"]["reward"])


def _changed(inputs: Inputs | None, kind: str, seed: int) -> Inputs | None:
    if inputs is None or kind == "given":
        return inputs
    raw = inputs.values
    if kind == "permuted":
        cycle, other = np.random.default_rng([seed, 2]).permutation(len(raw)), np.empty_like(raw)
        other[cycle] = raw[np.roll(cycle, 1)]  # nobody keeps its own
        return replace(inputs, values=other)
    return replace(inputs, values=np.broadcast_to(raw[0], raw.shape)) if kind == "constant" else None


def report(bench: Bench, name: str, found: dict[str, Floats]) -> None:
    """Print the row of a set and note its bars."""
    none, cells = found["none"], [f"none {found['none'].mean():.4f}"]
    for kind in _KINDS[1:]:
        gain, error = mean_error(found[kind] - none)
        cells.append(f"{kind} {gain:+.4f} +- {error:.4f}")
        if kind != "given":
            bench.bar(f"{kind} {name}", float(found[kind].mean() / (none.mean() - _ALLOWED)))
    print(f"{name}: {', '.join(cells)}", flush=True)


def sets_with_features(*, aside: bool) -> list[str]:
    """Names of the sets that have features or texts, without those set aside unless they are wanted."""
    paths = sorted(folders()[0].glob("*.npz"))
    kept = [path for path in paths if aside or path.stem not in set_aside(each.stem for each in paths)]
    return [path.stem for path in kept if _has_features(path)]


def _has_features(path: Path) -> bool:
    with np.load(path, allow_pickle=False) as arrays:
        return "text" in arrays.files or ("features" in arrays.files and bool(arrays["features"].shape[1]))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="names of sets (default: all that may be played)")
    parser.add_argument("--seeds", type=int, metavar="N", help="orders of every set (default: 20)")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds at most (default: 2000)")
    parser.add_argument("--policy", default="auto", metavar="NAME", help="one of our entrants (default: auto)")
    parser.add_argument("--aside", action="store_true", help="also the sets that are set aside")
    parser.add_argument("--quick", action="store_true", help="4 orders of 300 rounds")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    asked = parser.parse_args()
    known = sets_with_features(aside=asked.aside)
    names = asked.sets or known
    if unknown := [name for name in names if name not in known]:
        parser.error(f"--sets: {', '.join(unknown)}: not among {', '.join(known)} (--aside adds those set aside)")
    seeds, rounds = asked.seeds or (4 if asked.quick else 20), asked.rounds or (300 if asked.quick else 2000)
    run = partial(one_group, rounds=rounds, seeds=seeds, policy=asked.policy)
    jobs = [(name, kind, first) for name in names for kind in _KINDS for first in range(0, seeds, _GROUP)]
    bench, parts = Bench("reward", digits=4), dict[tuple[str, str], list[Floats]]()
    for job, result in spread(run, jobs, asked.jobs):
        parts.setdefault(job[:2], []).append(result)
        if job[1] == _KINDS[-1] and job[2] + _GROUP >= seeds:
            report(bench, job[0], {kind: np.concatenate(parts[job[0], kind]) for kind in _KINDS})
    bench.finish()


if __name__ == "__main__":
    main()
