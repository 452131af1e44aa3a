"""`auto` beside each of its members alone, and with features or claims that are permuted over the tasks.

    python benchmarks/members.py DATA/*.npz

Prints Markdown: rewards normalised to 0 for a random and 1 for the best single agent, and the difference to `auto`,
paired over seeds. Nothing but the policy runs here: no alignment, no cost.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from bot_orch.arrays import Floats, allocate
from bot_orch.core.pipeline import apply, bandit_feedback, decide
from bot_orch.environments.matrix.model import Matrix
from bot_orch.environments.matrix.npz import read_npz
from bot_orch.environments.replay.bandit import ORDERS, Order, Replay
from bot_orch.policies.auto.policy import Auto
from bot_orch.policies.auto.state import MEMBERS
from bot_orch.policies.base import Situation

_NEVER = -1e9  # log evidence of a member that takes no part


def normalised(matrix: Matrix, order: Order, *, seeds: int, rounds: int, member: str = "", change: str = "") -> Floats:
    """(seeds,) normalised rewards of `auto`, of one member, or of `auto` with changed features or claims."""
    replay = Replay(matrix, order, min(rounds, len(matrix.playable)), seeds=range(seeds))
    m, policy = matrix.n_agents, Auto()
    width = 0 if replay.context is None or change == "no features" else replay.context.shape[-1]
    state = allocate(policy.schema(width), (seeds,), m)
    pinned = np.array([0.0 if name == member else _NEVER for name in MEMBERS]) if member else None
    other = np.random.default_rng(0).permutation(replay.rounds)
    earned = np.zeros(seeds)
    for t in range(replay.rounds):
        elsewhere, now = replay.before(int(other[t])), replay.before(t)
        context = (elsewhere if change == "permuted features" else now).context if width else None
        claims = None if change == "no claims" else (elsewhere if change == "permuted claims" else now).claims
        if pinned is not None:
            state["evidence"][:] = pinned
        given = Situation(t + 1, np.zeros((seeds, m)), now.eligible, context, claims=claims)
        drawn = decide(policy, state, given, u=replay.draws(t))
        apply(policy, state, bandit_feedback(drawn, replay.after(t, drawn.agent).reward))
        earned += matrix.reward[replay.rows[t], drawn.agent]
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
    if probe.context is None:
        names = [name for name in names if name not in ("lasting", "linear")]
    found = {"auto": play()}
    found |= {name: play(member=name) for name in names}
    changes = ["no features", "permuted features"] if probe.context is not None else []
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
