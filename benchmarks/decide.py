"""Time of one decide + observe, beside river, mabwiser and vowpal-wabbit-next, in one run.

Ours includes what the others leave out: validation, the full probability vector, the terms of every score, a random
key per decision, and outcomes that may come late.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _harness import Bench, median_seconds

from bot_orch import Orchestrator, Outcome, Task


def ours(policy: str, m: int, n: int) -> Callable[[], None]:
    """Our orchestrator."""
    router = Orchestrator([f"agent-{i}" for i in range(m)], policy)
    rewards = np.random.default_rng(0).random(m).tolist()
    index = {f"agent-{i}": i for i in range(m)}

    def run() -> None:
        for _ in range(n):
            decision = router.decide(Task("t"))
            router.observe(decision.id, Outcome.completed(reward=rewards[index[decision.agent]]))

    return run


def river_ucb(m: int, n: int) -> Callable[[], None]:
    """UCB in river."""
    from river import bandit

    policy, arms = bandit.UCB(delta=1.0, seed=1), list(range(m))
    rewards = np.random.default_rng(0).random(m).tolist()

    def run() -> None:
        for _ in range(n):
            arm = policy.pull(arms)
            policy.update(arm, rewards[arm])

    return run


def mabwiser_ucb(m: int, n: int) -> Callable[[], None]:
    """UCB1 in mabwiser."""
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(m)), LearningPolicy.UCB1(alpha=1.0))
    mab.fit(list(range(m)), [0.5] * m)
    rewards = np.random.default_rng(0).random(m).tolist()

    def run() -> None:
        for _ in range(n):
            arm = mab.predict()
            mab.partial_fit([arm], [rewards[arm]])

    return run


def vowpal(m: int, n: int) -> Callable[[], None]:
    """Epsilon-greedy contextual bandit with action features in vowpal-wabbit-next."""
    import vowpal_wabbit_next as vw

    workspace = vw.Workspace(["--cb_explore_adf", "--epsilon", "0.1", "--quiet"])
    parser = vw.TextFormatParser(workspace)
    rewards = np.random.default_rng(0).random(m).tolist()
    plain = [f"|a agent={i}" for i in range(m)]

    def run() -> None:
        for _ in range(n):
            prediction = workspace.predict_one([parser.parse_line(line) for line in plain])
            action, probability = prediction[0]
            lines = plain.copy()
            lines[action] = f"0:{-rewards[action]}:{probability} {plain[action]}"
            workspace.learn_one([parser.parse_line(line) for line in lines])

    return run


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/decide.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    n = 200 if parser.parse_args().quick else 2000
    bench = Bench("us")
    for m in (6, 100):
        peers = {"river UCB": river_ucb, "mabwiser UCB1": mabwiser_ucb, "vowpal-wabbit-next": vowpal}
        measured = {}
        for name, peer in peers.items():
            calls = n if name == "river UCB" else max(20, n // 20)
            measured[name] = 1e6 * median_seconds(peer(m, calls), 3) / calls
        for policy in ("bot", "ucb1"):
            mine = 1e6 * median_seconds(ours(policy, m, n), 5) / n
            for name, theirs in measured.items():
                need = 1.0 if m == 100 and name == "river UCB" else None
                bench.row(f"{policy} M={m} against {name}", mine, theirs, higher_is_better=False, need=need)
    bench.finish()


if __name__ == "__main__":
    main()
