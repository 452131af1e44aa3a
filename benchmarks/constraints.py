"""Do limits hold over 5000 rounds while rewards and prices drift? Usage over limit, per policy and constraint.

    python benchmarks/constraints.py [rounds]

Rewards move by 0.15 along a sine, prices by 80 %, and one price triples after 60 % of the rounds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from bot_orch import Budget, Capacity, Deadline
from bot_orch.core.constraints import Constraint

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit" / "constraints"))
from limited_worlds import World, play  # type: ignore[import-not-found]

_USD, _SHARE, _LATE = 0.0015, 0.1, 0.12
LIMITS: dict[str, list[Constraint]] = {
    "budget": [Budget(_USD)],
    "capacity": [Capacity("3", _SHARE)],
    "deadline": [Deadline(8.0, _LATE)],
    "all three": [Budget(_USD), Capacity("3", _SHARE), Deadline(8.0, _LATE)],
}


def main(
    rounds: int = 5000, policies: tuple[str, ...] = ("ucb1", "thompson-gaussian", "bot", "epsilon-greedy")
) -> None:
    """Print the largest usage over limit among four seeds."""
    head = ("policy", "limits", "late by", "budget", "capacity", "deadline", "reward", "ms/round")
    print("  ".join(f"{name:>17}" for name in head))
    for policy in policies:
        for name, limits in LIMITS.items():
            for late in (0, 50):
                started = time.process_time()
                found = play(World(drift=True), policy, limits, rounds=rounds, seeds=4, floor=0.02, late=late)
                spent = time.process_time() - started
                usage = {
                    "budget": found.usd.mean(axis=0) / _USD,
                    "capacity": (found.agent == 3).mean(axis=0) / _SHARE,
                    "deadline": (found.seconds > 8.0).mean(axis=0) / _LATE,
                }
                kinds = [each.kind for each in limits]
                cells = [f"{np.max(usage[kind]):.3f}" if kind in kinds else "" for kind in usage]
                row = (policy, name, str(late), *cells, f"{found.reward.mean():.3f}", f"{1e3 * spent / rounds:.2f}")
                print("  ".join(f"{cell:>17}" for cell in row), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
