"""Many agents, few rounds: how much of the loss of `auto` is exploration, and does less of it pay?

    python benchmarks/many_agents.py DATA/aslib_sat12_indu.npz DATA/bfcl_function_calling.npz ...

First table, sets of runtimes: gap (signal PAR10) by the scale of the exploration bonus (0.65 is that of `auto`), and
among the best few agents known in hindsight. Second table: `normalised` by that scale, in both orders, and the paired
difference of 0.25 to 0.65. At most 2000 rounds. Prints Markdown.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.environments.matrix.model import Matrix, RuntimeOutcomes
from bot_orch.environments.matrix.npz import read_npz
from bot_orch.environments.replay.bandit import ORDERS, Order, Replay
from bot_orch.experiments.harness.players import PolicyPlayer, play
from bot_orch.experiments.harness.replay_metrics import chosen, score
from bot_orch.policies.auto.policy import Auto

_SCALES = (0.65, 0.4, 0.25)
_FEW = (3, 6, 10, 16)


def among(matrix: Matrix, agents: Ints) -> Matrix:
    """The matrix of some of its agents; runtimes only."""
    r = matrix.runtime
    assert r is not None
    runtime = RuntimeOutcomes(r.time_s[:, agents], r.cause[:, agents], r.cutoff_s[:, agents])
    names = tuple(matrix.agents[i] for i in agents)
    return replace(matrix, agents=names, reward=matrix.reward[:, agents], runtime=runtime, elapsed_s=runtime.time_s)


def gap(matrix: Matrix, agents: Ints, scale: float, *, seeds: int) -> float:
    """Mean gap when only some agents are played, on the scale of all; features take no time."""
    assert matrix.runtime is not None
    par10, part = matrix.runtime.par10, among(matrix, agents)
    replay = Replay(part, seeds=range(seeds), signal="par10")
    trace = play(PolicyPlayer(Auto(scale=scale), replay.setup, "auto"), replay)
    single, oracle = np.nanmean(par10, axis=0).min(), np.nanmin(par10, axis=1).mean()
    return float((par10[:, agents][replay.rows, trace.agent].mean() - oracle) / (single - oracle))


def normalised(matrix: Matrix, order: Order, scale: float, *, seeds: int) -> Floats:
    """Normalised rewards of `auto` by seed, with another scale of the bonus."""
    replay = Replay(matrix, order, min(2000, len(matrix.playable)), seeds=range(seeds))
    trace = play(PolicyPlayer(Auto(scale=scale), replay.setup, "auto"), replay)
    return np.array(score(replay, chosen(replay, trace.agent))["metrics"]["normalised"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    matrices, seeds = {path.stem: read_npz(path) for path in arguments.sets}, arguments.seeds
    print("| gap |", " | ".join([*(f"scale {s:g}" for s in _SCALES), *(f"best {k}" for k in _FEW)]), "|")
    print("|---" * (len(_FEW) + len(_SCALES) + 1) + "|")
    for name, matrix in matrices.items():
        if matrix.runtime is not None:
            best = np.argsort(np.nanmean(matrix.runtime.par10, axis=0))
            values = [gap(matrix, best, scale, seeds=seeds) for scale in _SCALES]
            values += [gap(matrix, best[:k], _SCALES[0], seeds=seeds) for k in _FEW]
            print(f"| `{name}` |", " | ".join(f"{value:.2f}" for value in values), "|", flush=True)
    heads = [word for order in ORDERS for word in (*(f"{order}, {s:g}" for s in _SCALES), "difference")]
    print("\n| normalised (agents) |", " | ".join(heads), "|")
    print("|---" * (len(heads) + 1) + "|")
    for name, matrix in matrices.items():
        cells = []
        for order in ORDERS:
            found = [normalised(matrix, order, scale, seeds=seeds) for scale in _SCALES]
            less = found[-1] - found[0]
            cells += [f"{values.mean():.2f}" for values in found]
            cells.append(f"{less.mean():+.2f} ± {less.std(ddof=1) / np.sqrt(seeds):.2f}")
        print(f"| `{name}` ({matrix.n_agents}) |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
