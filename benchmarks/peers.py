"""How the settings of the peers, and of `linucb` and `lints`, were found: every configuration on sets kept apart.

    python benchmarks/peers.py livecodebench_gen.npz frugalml_sa.npz aslib_maxsat12_pms.npz bfcl_function_calling.npz

Prints Markdown: normalised reward per configuration and set, and the mean, best first within each policy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bot_orch.lab.arena.entrants.peer_mabwiser import MabWiser
from bot_orch.lab.arena.entrants.peer_vw import VowpalWabbit
from bot_orch.lab.arena.per_seed import Learner, PerSeedPlayer
from bot_orch.lab.environments.matrix.find import load_matrix
from bot_orch.lab.environments.replay.bandit import Replay, Setup
from bot_orch.lab.harness.players import Player, PolicyPlayer, play
from bot_orch.lab.harness.replay_metrics import chosen, score
from bot_orch.policies.registry import make_policy

VW = {
    "vw-squarecb": [f"--squarecb --gamma_scale {gamma}" for gamma in (100, 1000)],
    "vw-regcb": [f"--regcbopt --mellowness {c}" for c in (0.1, 0.01, 0.001)],
    "vw-softmax": [f"--softmax --lambda {beta}" for beta in (10, 30)],
}
SCALES = {"linucb": (0.3, 1.0), "lints": (0.2, 0.5)}


def configurations() -> dict[tuple[str, str], Callable[[Setup], Player]]:
    found: dict[tuple[str, str], Callable[[Setup], Player]] = {}
    for name, settings in VW.items():
        for options in (f"{crossed} {setting}" for crossed in ("-q sa", "-q ::") for setting in settings):
            found[name, options] = partial(_peer, partial(VowpalWabbit, options))
    for alpha in (0.3, 1.0):
        found["mabwiser-linucb", f"alpha {alpha:g}"] = partial(_peer, partial(MabWiser, "LinUCB", alpha))
    for name, scales in SCALES.items():
        for scale in scales:
            found[name, f"scale {scale:g}"] = partial(_ours, name, scale)
    return found


def _peer(build: Callable[[Setup, int], Learner], setup: Setup) -> Player:
    return PerSeedPlayer(setup, build)


def _ours(name: str, scale: float, setup: Setup) -> Player:
    return PolicyPlayer(make_policy(name, scale=scale), setup)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=500)
    arguments = parser.parse_args()
    matrices = [load_matrix(path) for path in arguments.paths]
    print("| policy | configuration | " + " | ".join(f"`{matrix.name}`" for matrix in matrices) + " | mean |")
    print("|" + "---|" * (len(matrices) + 3), flush=True)
    for (name, setting), build in configurations().items():
        values = []
        for matrix in matrices:
            replay = Replay(matrix, rounds=arguments.rounds, seeds=range(arguments.seeds))
            trace = play(build(replay.setup), replay)
            values.append(np.mean(score(replay, chosen(replay, trace.agent))["metrics"]["normalised"]))
        cells = " | ".join(f"{value:.2f}" for value in values)
        print(f"| `{name}` | `{setting}` | {cells} | {np.mean(values):.3f} |", flush=True)


if __name__ == "__main__":
    main()
