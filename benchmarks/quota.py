"""Does a `Quota` keep its requests for the tasks that need them? Windows that reset, kinds learned from outcomes.

    python benchmarks/quota.py [--seeds 20] [--windows 20]

Tasks come at random times, about 180 in a window of five hours, and 45 of them may go to ``claude``. A fifth of the
tasks need it (mean reward .90 against .30 elsewhere), the others hardly do (.90 against .82); a feature shows the kind.
Counted from the third window on: the share of the tasks in need that got it, over all windows of a run (mean and least
of the runs), the share of the quota that was used, and tasks that went to it beyond the quota.
"""

from __future__ import annotations

import argparse

import numpy as np

from bot_orch import Orchestrator, Outcome, Quota, Task

REQUESTS, TASKS, HOURS, NEED = 45, 180, 5.0, 0.2
MEANS = {True: {"claude": 0.9, "other": 0.3}, False: {"claude": 0.9, "other": 0.82}}


def lived(seed: int, windows: int) -> tuple[float, float, int]:
    """Share of the tasks in need that were met, share of the quota that was used, and tasks beyond the quota."""
    rng = np.random.default_rng([seed, 3])
    router = Orchestrator(["claude", "other"], seed=seed, ids="derived", constraints=[Quota("claude", REQUESTS, "5h")])
    time_s, length, first = 0.0, HOURS * 3600.0, None
    needed, met, used = np.zeros(windows), np.zeros(windows), np.zeros(windows)
    while True:
        time_s += rng.exponential(length / TASKS)
        first = time_s if first is None else first
        window = int((time_s - first) // length)
        if window >= windows:
            break
        need = bool(rng.random() < NEED)
        decision = router.decide(Task(features=(float(need),), time_s=time_s))
        served = decision.agent == "claude"
        needed[window] += need
        met[window] += need and served
        used[window] += served
        router.observe(decision.id, Outcome.completed(float(rng.random() < MEANS[need][decision.agent])))
    late = slice(2, None)
    beyond = int(np.maximum(used - REQUESTS, 0).sum())
    return met[late].sum() / needed[late].sum(), used[late].mean() / REQUESTS, beyond


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--windows", type=int, default=20)
    asked = parser.parse_args()
    runs = np.array([lived(seed, asked.windows) for seed in range(asked.seeds)])
    met, used, beyond = runs.T
    print("| tasks in need that got it, mean | of the worst run but one | quota used | beyond it | gates |")
    print("|---|---|---|---|---|")
    low = float(np.sort(met)[min(1, len(met) - 1)])
    holds = met.mean() >= 0.9 and low >= 0.85 and used.mean() >= 0.9 and not beyond.sum()
    cells = (f"{met.mean():.3f}", f"{low:.3f}", f"{used.mean():.3f}", f"{int(beyond.sum())}")
    print("| " + " | ".join((*cells, "hold" if holds else "MISSED")) + " |")


if __name__ == "__main__":
    main()
