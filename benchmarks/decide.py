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


def ours_contextual(m: int, n: int, features: int = 10) -> Callable[[], None]:
    """The default policy with features; what it remembers is full after 2048 outcomes."""
    router = Orchestrator([f"agent-{i}" for i in range(m)], "auto", n_features=features)
    rng = np.random.default_rng(0)
    tasks = [Task("t", features=tuple(row)) for row in rng.normal(size=(256, features)).tolist()]

    def run() -> None:
        for number in range(n):
            decision = router.decide(tasks[number % len(tasks)])
            router.observe(decision.id, Outcome.completed(reward=number % 2))

    for _ in range(-(-2048 // n)):
        run()
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


def vowpal_contextual(m: int, n: int, features: int = 10) -> Callable[[], None]:
    """SquareCB with as many features, crossed with the agents."""
    import vowpal_wabbit_next as vw

    workspace = vw.Workspace(["--cb_explore_adf", "-q", "sa", "--squarecb", "--gamma_scale", "1000", "--quiet"])
    parse = vw.TextFormatParser(workspace).parse_line
    rows = np.random.default_rng(0).normal(size=(256, features))
    shared = ["shared |s " + " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row)) for row in rows]
    plain = [f"|a {i}" for i in range(m)]

    def run() -> None:
        for number in range(n):
            context = shared[number % len(shared)]
            action, probability = workspace.predict_one([parse(context), *map(parse, plain)])[0]
            lines = plain.copy()
            lines[action] = f"0:{number % 2}:{probability} {plain[action]}"
            workspace.learn_one([parse(context), *map(parse, lines)])

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
        calls = max(20, n // 20)
        mine = 1e6 * median_seconds(ours_contextual(m, calls), 3) / calls
        theirs = 1e6 * median_seconds(vowpal_contextual(m, calls), 3) / calls
        name = f"auto M={m}, ten features, against vowpal-wabbit-next SquareCB"
        bench.row(name, mine, theirs, higher_is_better=False)
    bench.finish()


if __name__ == "__main__":
    main()
