"""Time of one decide + observe, beside river, mabwiser and vowpal-wabbit-next, in one run.

Ours includes what the others leave out: validation, the full probability vector, the terms of every score, a random
key per decision, and outcomes that may come late. Processor time on one thread. ``auto`` is measured after 5000 rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _harness import Bench, least_seconds

from bot_orch import Cloud, Orchestrator, Outcome, Task
from bot_orch.kernels import kernel_kind


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


def ours_contextual(m: int, n: int, features: int = 10, rounds: int = 5000) -> Callable[[], None]:
    """The default policy with so many features, after so many rounds."""
    router = Orchestrator([f"agent-{i}" for i in range(m)], "auto", n_features=features)
    rng = np.random.default_rng(0)
    tasks = [Task("t", features=tuple(row)) for row in rng.normal(size=(256, features)).tolist()]

    def run() -> None:
        for number in range(n):
            decision = router.decide(tasks[number % len(tasks)])
            router.observe(decision.id, Outcome.completed(reward=number % 2))

    for _ in range(-(-rounds // n)):
        run()
    return run


def ours_aligned(m: int, n: int, dimension: int = 16, rounds: int = 1000) -> Callable[[], None]:
    """The default policy and lambda where tasks bring references and agents show outputs, both points in R^16."""
    router = Orchestrator([f"agent-{i}" for i in range(m)], "auto")
    rng = np.random.default_rng(0)
    points = [Cloud(rng.normal(size=(1, dimension))) for _ in range(256)]

    def run() -> None:
        for number in range(n):
            decision = router.decide(Task("t", reference=points[number % 256]))
            shown = points[(7 * number + 1) % 256]
            router.observe(decision.id, Outcome.completed(reward=number % 2, output=shown))

    for _ in range(-(-rounds // n)):
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


def context_free(bench: Bench, m: int, n: int) -> None:
    """``bot`` and ``ucb1`` beside the peers' policies without context."""
    peers = {"river UCB": river_ucb, "mabwiser UCB1": mabwiser_ucb, "vowpal-wabbit-next": vowpal}
    calls = {name: max(20, n // 20) for name in peers} | {"river UCB": n, "bot": n, "ucb1": n}
    runs = {name: peer(m, calls[name]) for name, peer in peers.items()}
    runs |= {policy: ours(policy, m, n) for policy in ("bot", "ucb1")}
    us = {name: 1e6 * seconds / calls[name] for name, seconds in least_seconds(runs).items()}
    for policy in ("bot", "ucb1"):
        for name in peers:
            need = (1 / 3 if m == 6 else 1.0) if name == "river UCB" else None
            bench.row(f"{policy} M={m} against {name}", us[policy], us[name], higher_is_better=False, need=need)


def default_policy(bench: Bench, n: int, rounds: int) -> None:
    """``auto`` beside VW SquareCB with the same features, and against its own bars in microseconds."""
    for m, features, need in ((6, 10, 0.5), (100, 10, 3.0), (6, 64, None)):
        runs = {"ours": ours_contextual(m, n, features, rounds), "theirs": vowpal_contextual(m, n, features)}
        us = {name: 1e6 * seconds / n for name, seconds in least_seconds(runs, 5).items()}
        name = f"auto M={m}, {features} features, against"
        row = f"{name} vowpal-wabbit-next SquareCB"
        bench.row(row, us["ours"], us["theirs"], higher_is_better=False, need=need)
        if features == 64:
            bench.row(f"{name} 250 us", us["ours"], 250.0, higher_is_better=False, need=1.0)
    allowed = 80.0 if kernel_kind() == "compiled" else 320.0
    runs = {"free": ours_contextual(6, n, 0, rounds), "aligned": ours_aligned(58, n), "river": river_ucb(6, n)}
    us = {name: 1e6 * seconds / n for name, seconds in least_seconds(runs, 5).items()}
    name = f"auto M=6, no features, against {allowed:g} us"
    bench.row("auto M=6, no features, against river UCB", us["free"], us["river"], higher_is_better=False)
    bench.row(name, us["free"], allowed, higher_is_better=False, need=1.0)
    name = "auto M=58, references in R^16, lambda auto, against 500 us"
    bench.row(name, us["aligned"], 500.0, higher_is_better=False, need=1.0)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/decide.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--context-free", action="store_true", help="only the policies without context")
    chosen = parser.parse_args()
    n, rounds = (100, 200) if chosen.quick else (500, 5000)
    bench = Bench("us")
    print(f"kernels: {kernel_kind()}")
    for m in (6, 100):
        context_free(bench, m, n)
    if not chosen.context_free:
        default_policy(bench, max(20, n // 5), rounds)
    bench.finish()


if __name__ == "__main__":
    main()
