"""`auto` beside each of its members alone, and with inputs or claims that are permuted over the tasks.

    python benchmarks/members.py DATA/*.npz

Prints Markdown: rewards normalised to 0 for a random and 1 for the best single agent, and the difference to `auto`,
paired over seeds. A member plays alone by having all prior weight. No alignment, no cost.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import read_npz
from bot_orch.lab.environments.replay.bandit import ORDERS, Order, Replay, RoundContext
from bot_orch.lab.harness.players import PolicyPlayer, play
from bot_orch.policies import auto
from bot_orch.policies.auto import MEMBERS, Auto

_NEVER = -1e9  # log weight of a member that takes no part


@contextmanager
def only(member: str) -> Iterator[None]:
    """All prior weight to one member; without a name nothing changes."""
    before = auto.PRIOR
    if member:
        auto.PRIOR = np.array([0.0 if name == member else _NEVER for name in MEMBERS])
    try:
        yield
    finally:
        auto.PRIOR = before


class Permuted(Replay):
    """Tells claims of other tasks."""

    def before(self, t: int) -> RoundContext:
        found = super().before(t)
        if self.matrix.claims is None:
            return found
        other = np.random.default_rng(0).permutation(self.rounds)
        return replace(found, claims=self.matrix.claims[self.rows[int(other[t])]])


def normalised(matrix: Matrix, order: Order, *, seeds: int, rounds: int, member: str = "", change: str = "") -> Floats:
    """(seeds,) normalised rewards of `auto`, of one member, or of `auto` with changed features or claims."""
    kind = Permuted if change == "permuted claims" else Replay
    replay = kind(matrix, order, min(rounds, len(matrix.playable)), seeds=range(seeds))
    if change == "permuted features" and replay.inputs is not None:
        raw = replay.inputs.values
        replay.inputs = replace(replay.inputs, values=raw[np.random.default_rng(0).permutation(len(raw))])
    shown = {"context": change != "no features", "claims": change != "no claims"}
    with only(member):
        agent = play(PolicyPlayer(Auto(), replay.setup, **shown), replay).agent
    earned = matrix.reward[replay.rows, agent].sum(axis=0)
    known = np.where(matrix.eligible, matrix.reward, 0.0)
    usual = known.sum(axis=1) / np.maximum(matrix.eligible.sum(axis=1), 1)
    filled = np.where(matrix.eligible, matrix.reward, usual[:, None])
    least, most = usual[replay.rows].mean(axis=0), filled[replay.rows].mean(axis=0).max(axis=-1)
    return np.asarray((earned / replay.rounds - least) / (most - least).mean())


def row(matrix: Matrix, order: Order, seeds: int, rounds: int) -> dict[str, Floats]:
    """Rewards by column; a column that does not apply is left out."""
    probe = Replay(matrix, order, 1, seeds=range(1)).before(0)
    play = partial(normalised, matrix, order, seeds=seeds, rounds=rounds)
    names = [name for name in MEMBERS if not (name == "claims" and probe.claims is None)]
    if probe.inputs is None:
        names = [name for name in names if name not in ("kinds", "linear", "near")]
    found = {"auto": play()}
    found |= {name: play(member=name) for name in names}
    changes = ["no features", "permuted features"] if probe.inputs is not None else []
    changes += ["no claims", "permuted claims"] if probe.claims is not None else []
    return found | {change: play(change=change) for change in changes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2000)
    arguments = parser.parse_args()
    print("| data set | order | auto | best member | shortfall | features: none, permuted | claims: none, permuted |")
    print("|---|---|---|---|---|---|---|")
    shortfalls: list[float] = []
    for path in arguments.sets:
        matrix = read_npz(path)
        for order in ORDERS:
            found = row(matrix, order, arguments.seeds, arguments.rounds)
            best = max((name for name in MEMBERS if name in found), key=lambda name: float(found[name].mean()))
            gap = found[best] - found["auto"]
            shortfalls.append(max(0.0, float(gap.mean())))
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            pairs = [
                f"{found[f'no {what}'].mean():.2f}, {found[f'permuted {what}'].mean():.2f}"
                if f"no {what}" in found
                else ""
                for what in ("features", "claims")
            ]
            cells = [
                f"{found['auto'].mean():.3f}",
                f"`{best}` {found[best].mean():.3f}",
                f"{gap.mean():+.3f} ± {error:.3f}",
            ]
            print("|", " | ".join([f"`{path.stem}`", order, *cells, *pairs]), "|", flush=True)
    print(f"\nMean shortfall {np.mean(shortfalls):.3f}, largest {max(shortfalls):.3f}.")


if __name__ == "__main__":
    main()
