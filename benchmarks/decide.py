"""Time of one decide + observe, beside river and vowpal-wabbit-next, in one run.

Ours includes what the others leave out: validation, the full probability vector, the terms of every score, a random
key per decision, and outcomes that may come late. Processor time on one thread. ``auto`` is measured after 5000 rounds,
with texts after 200 and after 2000 different ones; then its first decision in a fresh process, and rounds of a batch as
the arena plays them. A peer that is not installed (extra ``peers``) has no row.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from _harness import Bench, least_seconds

from bot_orch import Cloud, Orchestrator, Outcome, Task
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay, Setup
from bot_orch.lab.harness.players import Player, play

#: Imports, builds a router and makes and ends one decision; prints milliseconds.
_FIRST = """
import time
started = time.perf_counter()
from bot_orch import Orchestrator, Outcome, Task
router = Orchestrator(["a", "b", "c", "d", "e", "f"])
imported = time.perf_counter()
decision = router.decide(Task("t", text="{text}") if "{text}" else Task("t"))
router.observe(decision.id, Outcome.completed(reward=0.5))
print(1e3 * (imported - started), 1e3 * (time.perf_counter() - imported))
"""
_NUMPY = "import time; started = time.perf_counter(); import numpy; print(1e3 * (time.perf_counter() - started), 0.0)"


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


def prompts(count: int = 4096) -> list[str]:
    """Different prompts of about 400 bytes, from 2000 words of which some are much more frequent than others."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghiklmnoprstuv"), size=size)) for size in rng.integers(3, 10, 2000)]
    share = 1.0 / np.arange(1, len(words) + 1)
    return [" ".join(rng.choice(words, size=60, p=share / share.sum()))[:400] for _ in range(count)]


def ours_text(m: int, n: int, rounds: int) -> Callable[[], None]:
    """The default policy with a prompt per task, after so many rounds."""
    router, texts, number = Orchestrator([f"agent-{i}" for i in range(m)]), prompts(), 0

    def run(calls: int = n) -> None:
        nonlocal number
        for _ in range(calls):
            number += 1
            decision = router.decide(Task("t", text=texts[number % len(texts)]))
            router.observe(decision.id, Outcome.completed(reward=number % 2))

    run(rounds)
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


def vowpal_text(m: int, n: int) -> Callable[[], None]:
    """SquareCB on the words of the same prompts, crossed with the agents."""
    import vowpal_wabbit_next as vw

    workspace = vw.Workspace(["--cb_explore_adf", "-q", "ca", "--squarecb", "--gamma_scale", "1000", "--quiet"])
    parse, texts = vw.TextFormatParser(workspace).parse_line, prompts()
    plain, number = [f"|a {i}" for i in range(m)], 0

    def run() -> None:
        nonlocal number
        for _ in range(n):
            number += 1
            context = f"shared |c {texts[number % len(texts)]}"
            action, probability = workspace.predict_one([parse(context), *map(parse, plain)])[0]
            lines = plain.copy()
            lines[action] = f"0:{number % 2}:{probability} {plain[action]}"
            workspace.learn_one([parse(context), *map(parse, lines)])

    return run


def installed(module: str) -> bool:
    """Whether a peer can be measured."""
    return find_spec(module) is not None


def context_free(bench: Bench, m: int, n: int) -> None:
    """``bot`` and ``ucb1`` beside the peers' policies without context."""
    peers = {"river UCB": river_ucb, "vowpal-wabbit-next": vowpal}
    modules = {"river UCB": "river", "vowpal-wabbit-next": "vowpal_wabbit_next"}
    peers = {name: peer for name, peer in peers.items() if installed(modules[name])}
    calls = {name: max(20, n // 20) for name in peers} | {"river UCB": n, "bot": n, "ucb1": n}
    runs = {name: peer(m, calls[name]) for name, peer in peers.items()}
    runs |= {policy: ours(policy, m, n) for policy in ("bot", "ucb1")}
    us = {name: 1e6 * seconds / calls[name] for name, seconds in least_seconds(runs).items()}
    for policy in ("bot", "ucb1"):
        if not peers:
            print(f"{policy} M={m}, {us[policy]:.4g} us")
        for name in peers:
            need = (1 / 5 if m == 6 else 1.0) if name == "river UCB" else None
            bench.row(f"{policy} M={m} against {name}", us[policy], us[name], higher_is_better=False, need=need)


def default_policy(bench: Bench, n: int, rounds: int) -> None:
    """``auto`` beside VW SquareCB with the same features, and against its own bars in microseconds."""
    for m, features, need, allowed in ((6, 10, 0.5, None), (100, 10, 3.0, None), (6, 64, None, 250.0)):
        runs = {"ours": ours_contextual(m, n, features, rounds)}
        runs |= {"theirs": vowpal_contextual(m, n, features)} if installed("vowpal_wabbit_next") else {}
        us = {name: 1e6 * seconds / n for name, seconds in least_seconds(runs, 5).items()}
        name = f"auto M={m}, {features} features, against"
        if "theirs" in us:
            row = f"{name} vowpal-wabbit-next SquareCB"
            bench.row(row, us["ours"], us["theirs"], higher_is_better=False, need=need)
        if allowed is not None:
            bench.row(f"{name} {allowed:g} us", us["ours"], allowed, higher_is_better=False, need=1.0)
        elif "theirs" not in us:
            print(f"{name.removesuffix(', against')}, {us['ours']:.4g} us")
    runs = {"free": ours_contextual(6, n, 0, rounds), "aligned": ours_aligned(58, n)}
    runs |= {"river": river_ucb(6, n)} if installed("river") else {}
    us = {name: 1e6 * seconds / n for name, seconds in least_seconds(runs, 5).items()}
    if "river" in us:
        bench.row("auto M=6, no features, against river UCB", us["free"], us["river"], higher_is_better=False)
    bench.row("auto M=6, no features, against 150 us", us["free"], 150.0, higher_is_better=False, need=1.0)
    name = "auto M=58, references in R^16, lambda auto, against 500 us"
    bench.row(name, us["aligned"], 500.0, higher_is_better=False, need=1.0)


def texts(bench: Bench, n: int) -> None:
    """``auto`` with a prompt of 400 bytes per task, early and late, beside VW SquareCB on the words."""
    runs = {f"after {rounds} rounds": ours_text(6, n, rounds) for rounds in (200, 2000)}
    runs |= {"theirs": vowpal_text(6, n)} if installed("vowpal_wabbit_next") else {}
    us = {name: 1e6 * seconds / n for name, seconds in least_seconds(runs, 5).items()}
    for name in [name for name in us if name != "theirs"]:
        row = f"auto M=6, prompt of 400 bytes, {name}"
        if "theirs" in us:
            bench.row(f"{row}, against vowpal-wabbit-next SquareCB", us[name], us["theirs"], higher_is_better=False)
        else:
            print(f"{row}, {us[name]:.4g} us")


def first(bench: Bench, repeats: int) -> None:
    """Import, router and first decision in a fresh process, beside the import of numpy in another one."""
    codes = {"numpy": _NUMPY, "plain": _FIRST.format(text=""), "text": _FIRST.format(text=prompts(1)[0])}
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in codes}
    for _ in range(repeats):
        for name, code in codes.items():
            done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
            before, decision = map(float, done.stdout.split())
            spent[name].append((before, decision))
    ms = {name: [statistics.median(each) for each in zip(*found, strict=True)] for name, found in spent.items()}
    for name in ("plain", "text"):
        row = f"fresh process, import and first decision{', with text' if name == 'text' else ''}"
        bench.row(f"{row}, against the import of numpy", sum(ms[name]), ms["numpy"][0], higher_is_better=False)
        print(f"  of these the decision: {ms[name][1]:.4g} ms")


def batch(bench: Bench, rounds: int, seeds: int = 32) -> None:
    """Rounds of `auto` per second of a core, all seeds in one replay, beside the same with ``ucb1``."""
    rng, entrants = np.random.default_rng(0), discover_entrants()
    reward = (rng.random((rounds, 6)) < np.linspace(0.3, 0.8, 6)).astype(float)
    for features in (0, 10):
        x = rng.normal(size=(rounds, features)) / math.sqrt(max(features, 1)) if features else None
        matrix = Matrix("batch", tuple("abcdef"), reward, features=x)
        runs = {name: _replayed(matrix, entrants[name].build, seeds) for name in ("auto", "ucb1")}
        rate = {name: rounds * seeds / seconds for name, seconds in least_seconds(runs, 2).items()}
        row = f"batch of {seeds} seeds, M=6, {features or 'no'} features, auto against ucb1"
        bench.row(row, rate["auto"], rate["ucb1"], higher_is_better=True)


def _replayed(matrix: Matrix, build: Callable[[Setup], Player], seeds: int) -> Callable[[], None]:
    def run() -> None:
        replay = Replay(matrix, seeds=range(seeds))
        play(build(replay.setup), replay)

    return run


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: python benchmarks/decide.py --quick")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    parser.add_argument("--context-free", action="store_true", help="only the policies without context")
    chosen = parser.parse_args()
    n, rounds = (100, 200) if chosen.quick else (500, 5000)
    benches = bench, start, rate = Bench("us"), Bench("ms"), Bench("rounds/s")
    for m in (6, 100):
        context_free(bench, m, n)
    if not chosen.context_free:
        default_policy(bench, max(20, n // 5), rounds)
        texts(bench, max(20, n // 5))
        first(start, 2 if chosen.quick else 5)
        batch(rate, 100 if chosen.quick else 1000)
    for each in benches:
        each.finish()


if __name__ == "__main__":
    main()
