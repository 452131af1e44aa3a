"""Online algorithm selection under censored feedback: `auto` beside published selectors, by their protocol.

    python benchmarks/online_as.py DATA/aslib_*.npz

One pass over every task, ten shuffled orders, the scenario's cutoff, feature time counted (Tornede et al., AAAI 2022).
gap = (PAR10 - oracle) / (best single - oracle): 0 is the oracle, 1 the best single solver; relative PAR10 is
PAR10 / oracle. `auto` learns from PAR10, on the features as they are. The published selectors run twice: on the context
of the arena's peers (ten principal components, prepared in hindsight), and on the raw features, as in the paper. Prints
Markdown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import read_npz
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.players import play
from bot_orch.lab.harness.replay_metrics import baseline, baseline_readers, chosen, score

_OURS = ("auto", "auto-no-context")
_PUBLISHED = ("tornede-thompson", "tornede-thompson-bj", "degroote-linear")
_RAW = " (raw)"


def raw_features(matrix: Matrix, name: str) -> Floats | None:
    """Features as the file has them, a missing one is the mean; scaled to [0, 1] for Degroote's models."""
    if matrix.features is None:
        return None
    known = np.isfinite(matrix.features)
    mean = np.where(known, matrix.features, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    found = np.where(known, matrix.features, mean)
    if name.startswith("degroote"):
        low, high = found.min(axis=0), found.max(axis=0)
        return np.asarray((found - low) / np.where(high > low, high - low, 1.0))
    return found


def play_one(matrix: Matrix, name: str, seeds: int) -> dict[str, list[float]]:
    """Metrics of one entrant over the orders."""
    replay = Replay(matrix, seeds=range(seeds), signal="par10")
    if name in ("best-single", "oracle"):
        found = score(replay, baseline(replay, name), own=baseline_readers(replay, name))
    else:
        if name.endswith(_RAW):
            replay.context = raw_features(matrix, name)
        player = discover_entrants()[name.removesuffix(_RAW)].build(replay.setup)
        found = score(replay, chosen(replay, play(player, replay).agent), feature_time=player.uses_features)
    metrics: dict[str, list[float]] = found["metrics"]
    return metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders (default: 10)")
    arguments = parser.parse_args()
    names = [*_OURS, *_PUBLISHED, *(name + _RAW for name in _PUBLISHED)]
    print("| gap (± standard error) |", " | ".join(f"`{name}`" for name in names), "| best single, oracle: PAR10 |")
    print("|---" * (len(names) + 2) + "|")
    gaps: list[list[float]] = []
    relative: list[list[float]] = []
    for path in arguments.sets:
        matrix = read_npz(path)
        single, oracle = (
            np.mean(play_one(matrix, name, arguments.seeds)["par10"]) for name in ("best-single", "oracle")
        )
        played = [play_one(matrix, name, arguments.seeds) for name in names]
        cells = [f"{np.mean(p['gap']):.2f} ± {np.std(p['gap'], ddof=1) / np.sqrt(arguments.seeds):.2f}" for p in played]
        print(f"| `{path.stem}` |", " | ".join(cells), f"| {single:.0f}, {oracle:.0f} |", flush=True)
        gaps.append([float(np.mean(p["gap"])) for p in played])
        relative.append([float(np.mean(p["par10"]) / oracle) for p in played])
    print("| **mean gap** |", " | ".join(f"{value:.2f}" for value in np.mean(gaps, axis=0)), "| |")
    print("| mean relative PAR10 |", " | ".join(f"{value:.2f}" for value in np.mean(relative, axis=0)), "| |")


if __name__ == "__main__":
    main()
