"""Is a warm start worth 2000 rounds, and does a wrong one do lasting harm? Expected rewards on sets of real outcomes.

    BOT_ORCH_DATA=folder python benchmarks/warm.py [seeds]

Per set, policy and seed: 500 tasks are evaluated in advance, 2000 others are routed. ``warm`` was taught the
evaluations, ``wrong`` the same ones with agents in the opposite order of their means. All columns but the last two
concern the same 250 tasks: as the first ones of a router (``first``), or as its last ones after 1750 others (``last``).
``all`` is the mean over 2000 rounds. ``+-`` is the standard error over seeds of the difference before it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from bot_orch import Orchestrator, Outcome, Task

SETS = ("routerdc_7llm", "routerbench_subset", "frugalml_sa")
POLICIES = ("auto", "linucb", "ucb1")
_EVALUATED, _ROUTED, _BLOCK = 500, 2000, 250


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rewards (n, M) and standardised features (n, d) of a set."""
    folders = [Path(word) for word in os.environ.get("BOT_ORCH_DATA", "").split(os.pathsep) if word]
    file = next((folder / f"{name}.npz" for folder in folders if (folder / f"{name}.npz").is_file()), None)
    if file is None:
        sys.exit(f"BOT_ORCH_DATA: holds no {name}.npz; set it to the folders of the data sets")
    with np.load(file, allow_pickle=False) as data:
        rewards = data["reward"].astype(float)
        features = data["features"].astype(float) if "features" in data else np.zeros((len(rewards), 0))
    known = np.isfinite(rewards).all(axis=1)
    rewards, features = rewards[known], np.nan_to_num(features[known])
    spread = features.std(axis=0)
    return rewards, (features[:, spread > 0] - features[:, spread > 0].mean(axis=0)) / spread[spread > 0]


def routed(router: Orchestrator, rewards: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Expected reward of every decision; the router learns the reward of the agent that was drawn."""
    found = np.empty(len(rewards))
    for t, row in enumerate(rewards):
        made = router.decide(Task(features=tuple(features[t])))
        found[t] = made.propensities @ row
        router.observe(made.id, Outcome.completed(float(row[int(made.agent)])))
    return found


def one_seed(rewards: np.ndarray, features: np.ndarray, policy: str, *, seed: int) -> list[float]:
    """The numbers of one row."""
    order = np.random.default_rng(seed).permutation(len(rewards))
    before, traffic = order[:_EVALUATED], order[_EVALUATED : _EVALUATED + _ROUTED]
    block = traffic[-_BLOCK:]
    ranks = np.argsort(rewards[before].mean(axis=0))
    swapped = rewards[before].copy()
    swapped[:, ranks] = rewards[before][:, ranks[::-1]]

    def router(evaluations: np.ndarray | None) -> Orchestrator:
        made = Orchestrator(
            [str(each) for each in range(rewards.shape[1])], policy, seed=seed, n_features=features.shape[1]
        )
        if evaluations is not None:
            made.learn_from(evaluations, features=features[before] if features.shape[1] else None)
        return made

    first = routed(router(None), rewards[block], features[block])
    cold = routed(router(None), rewards[traffic], features[traffic])
    warm = routed(router(rewards[before]), rewards[block], features[block])
    wrong = routed(router(swapped), rewards[traffic], features[traffic])
    last = slice(-_BLOCK, None)
    return [*(part.mean() for part in (first, cold[last], warm, wrong[last])), cold.mean(), wrong.mean()]


def main(seeds: int = 6) -> None:
    """Print the table."""
    head = ["set", "policy", "cold first", "cold last", "warm first", "warm - cold last", "+-"]
    head += ["wrong last", "wrong - cold last", "+-", "cold all", "wrong all"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in SETS:
        rewards, features = read(name)
        for policy in POLICIES:
            found = np.array([one_seed(rewards, features, policy, seed=seed) for seed in range(seeds)])
            first, last, warm, wrong, cold_all, wrong_all = found.mean(axis=0)
            gain, harm = found[:, 2] - found[:, 1], found[:, 3] - found[:, 1]
            error = [each.std(ddof=1) / np.sqrt(seeds) for each in (gain, harm)]
            cells = [f"{each:.3f}" for each in (first, last, warm)] + [f"{gain.mean():+.3f}", f"{error[0]:.3f}"]
            cells += [f"{wrong:.3f}", f"{harm.mean():+.3f}", f"{error[1]:.3f}", f"{cold_all:.3f}", f"{wrong_all:.3f}"]
            print("| " + " | ".join([name, policy, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
