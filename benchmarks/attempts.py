"""A second attempt within the same deadline: gaps of `auto` with one agent per task, and with two.

    python benchmarks/attempts.py DATA/aslib_*.npz

One pass, ten shuffled orders, signal PAR10; gap = (PAR10 - oracle) / (best single - oracle), where the two are those of
one attempt, so that 0 is not a bound. *half*: the first agent gets half of the time; *learned*: what
`Orchestrator.patience` says. Differences are paired over orders. The time of features is counted unless
`--free-features` is given. Sets without features are left out. Prints Markdown.

    python benchmarks/attempts.py --weights .02 .08 .2 -- DATA/frugalml_*.npz

    python benchmarks/attempts.py --answers DATA/llm9_mmlu.npz DATA/frugalml_sa.npz ...

Sets with data about answers, each at its weight of a dollar and number of attempts (`SETS`): reward net of dollars of
one attempt by `auto` and of several, mean and standard error of the paired difference over orders, agents asked, what
the best single agent in hindsight earns, and the best chain that was fitted to all outcomes of the first half; second
half of the rounds. *step*: mean time of a decision of those rounds in units of a decision with one attempt, both made
in turn, without the slowest 5 %. With `--warm-start N`, N rows of every order are played by nobody, and *warm* begins
with their outcomes. Then, of rounds with a check that never errs: in how many another agent was asked after an answer
had passed.

With `--weights`, every `task_dataset` of a set alone: what two attempts by `auto` earn net of dollars, less
what the best single agent in hindsight earns on the same rows, by the weight of a dollar in units of its price; second
half of the rounds. The last columns are means over weights: of one attempt, and of the best chain of two steps that was
fitted to all outcomes of the first half.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bot_orch import Answer, Objective, Orchestrator, Outcome, Router, Task
from bot_orch.arrays import Floats, Ints
from bot_orch.core.completion.patience import PatienceRule
from bot_orch.lab.arena.answers import AnswerSide, RowAnswers, play_all, read_answers
from bot_orch.lab.arena.registry import discover_entrants
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.matrix.npz import read_npz
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.attempts import attempt_readers, play_attempts_of
from bot_orch.lab.harness.replay_metrics import chosen, score

_COLUMNS: dict[str, tuple[int, PatienceRule]] = {
    "one": (1, "half"),
    "two, half": (2, "half"),
    "two, learned": (2, "learned"),
    "three, half": (3, "half"),
    "three, learned": (3, "learned"),
}
#: By set: weight of a dollar, attempts, and whether the check says if the answer is right.
SETS = {
    "llm9_mmlu": (100.0, 2, False),
    "frugalml_sa": (200.0, 2, False),
    "llm9_triviaqa": (100.0, 2, False),
    "frugalml_s2t": (10.0, 2, False),
    "coderouter_id": (0.1, 3, True),
    "cifar10h_combine": (0.0, 2, False),
}
_TIMED = 400  # rounds


def gaps(matrix: Matrix, attempts: int, rule: PatienceRule, *, seeds: int) -> Floats:
    """Gaps by order."""
    replay = Replay(matrix, seeds=range(seeds), signal="par10")
    build = discover_entrants()["auto"].build
    trace = play_attempts_of(replay, build, attempts, rule=rule, settings={"signal": "par10"})
    found = score(replay, chosen(replay, trace.agent), own=attempt_readers(replay, trace))
    return np.array(found["metrics"]["gap"])


def alone(side: AnswerSide, rows: Ints) -> AnswerSide:
    """Some rows of a set, with the price of the agent of most reward there as the unit of money."""
    matrix = replace(side.matrix, reward=side.matrix.reward[rows])
    best = int(matrix.reward.mean(axis=0).argmax())
    cost = side.cost[rows] / side.cost[rows, best].mean()
    return AnswerSide(matrix, cost, side.signal[rows], side.answer[rows], side.check[rows], side.labels)


def print_gains(paths: Sequence[Path], weights: Sequence[float], *, seeds: int, rounds: int) -> None:
    """The table of sets with data about answers."""
    print("| gain |", " | ".join(f"{weight:g}" for weight in weights), "| one attempt | chain |")
    print("|---" * (len(weights) + 3) + "|")
    means: list[Floats] = []
    for path in paths:
        side = read_answers(path)
        with np.load(path, allow_pickle=False) as archive:
            datasets = np.asarray(archive["task_dataset"])
        for name in np.unique(datasets).tolist():
            part, found = alone(side, np.flatnonzero(datasets == name)), []
            for weight in weights:
                results = play_all(part, attempts=2, weight=weight, seeds=seeds, rounds=rounds)
                compared = ("auto, 2 attempts", "auto, 1 attempt", "chain (first half)")
                net = np.stack([results[each][:, 3] for each in compared])
                found.append((net - results["best single (hindsight)"][:, 3]).mean(axis=1))
            gains = np.array(found)
            means.append(np.append(gains[:, 0], gains[:, 1:].mean(axis=0)))
            print("|", " | ".join([f"`{name}`", *(f"{value:+.3f}" for value in means[-1])]), "|", flush=True)
    print("| **mean** |", " | ".join(f"**{value:+.3f}**" for value in np.mean(means, axis=0)), "|")


def print_answers(paths: Sequence[Path], *, seeds: int, rounds: int, evaluated: int) -> None:
    """The table of whole sets with data about answers, and what follows a passed check."""
    warm = ["warm"] if evaluated else []
    names = ["set (weight, attempts)", "one", "several", "gain", "asked", *warm, "best single", "chain", "step"]
    print("|", " | ".join(names), "|")
    print("|---" * len(names) + "|")
    gains = []
    for path in paths:
        weight, attempts, truthful = SETS[path.stem]
        side = read_answers(path, truthful=truthful)
        found = play_all(side, attempts=attempts, weight=weight, seeds=seeds, rounds=rounds, evaluated=evaluated)
        several, one = found[f"auto, {attempts} attempts"], found["auto, 1 attempt"][:, 3]
        others = [f"auto, {attempts}, warm start"] if evaluated else []
        rest = [found[each][:, 3].mean() for each in (*others, "best single (hindsight)", "chain (first half)")]
        cells = [f"{one.mean():.3f}", f"{several[:, 3].mean():.3f}", _difference(several[:, 3], one)]
        cells += [f"{several[:, 2].mean():.2f}", *(f"{each:.3f}" for each in rest)]
        cells.append(f"{_step_time(side, attempts=attempts, weight=weight):.2f}")
        print(f"| `{path.stem}` ({weight:g}, {attempts}) |", " | ".join(cells), "|", flush=True)
        gains.append(float((several[:, 3] - one).mean()))
    print(f"| **mean** | | | **{np.mean(gains):+.4f}** |" + " |" * (len(names) - 4))
    asked, passed = _after_a_passed_check()
    print(f"\nAfter a passed check another agent was asked in {asked} of {passed} rounds.")


def _step_time(side: AnswerSide, *, attempts: int, weight: float) -> float:
    """Mean time of a decision of rounds with several attempts, in units of one with one attempt."""
    rows = np.flatnonzero(np.isfinite(side.matrix.reward).all(axis=1))[:_TIMED]
    place = {name: index for index, name in enumerate(side.matrix.agents)}
    routers = {k: Orchestrator(side.matrix.agents, seed=0, objective=Objective(usd=weight)) for k in (1, attempts)}
    taken_s: dict[int, list[float]] = {k: [] for k in routers}
    for row in rows.tolist():
        features = () if side.matrix.features is None else tuple(side.matrix.features[row].tolist())
        for k, router in routers.items():
            shown, asks = RowAnswers(side, row), True
            seen: tuple[Answer, ...] = ()
            while asks:
                begun = time.perf_counter()
                decision = router.decide(Task(features=features), seen=seen, attempts=k)
                taken_s[k].append(time.perf_counter() - begun)
                asks = decision.action == "ask"
                seen = (*seen, shown.ask(place[decision.agent], decision.id)) if asks else seen
                asks = asks and k > 1
            router.observe(decision.id, Outcome.completed(shown.deliver(place[decision.agent])))
    half = {k: np.sort(each[len(each) // 2 :])[: -len(each) // 20].mean() for k, each in taken_s.items()}
    return float(half[attempts] / half[1])


def _after_a_passed_check() -> tuple[int, int]:
    """Rounds in which an agent was asked after an answer had passed, and rounds with an answer that passed."""
    right = np.random.default_rng(1).random((1000, 3)) < (0.9, 0.8, 0.7)
    functions = {name: lambda task, agent=agent: bool(right[int(task.id), agent]) for agent, name in enumerate("abc")}
    router = Router(list(functions), functions=functions, judge=lambda _, answer: float(answer), seed=1)
    asked = passed = 0
    for number in range(len(right)):
        call = router.call(Task(str(number)), attempts=2, check=lambda _, answer: answer)
        answers = [bool(right[number, "abc".index(each.agent)]) for each in call.decision.answers]
        passed += any(answers)
        asked += any(answers[:-1])
    return asked, passed


def _difference(a: Floats, b: Floats) -> str:
    gap = a - b
    return f"{gap.mean():+.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.npz")
    parser.add_argument("--seeds", type=int, default=10, help="number of orders (default: 10)")
    parser.add_argument("--free-features", action="store_true", help="features take no time")
    parser.add_argument("--answers", action="store_true", help="sets with data about answers, as a whole")
    parser.add_argument("--warm-start", type=int, default=0, help="rows evaluated before, with --answers")
    parser.add_argument("--weights", nargs="+", type=float, help="of dollars, for sets with data about answers")
    parser.add_argument("--rounds", type=int, default=4000, help="at most, with answers (default: 4000)")
    arguments = parser.parse_args()
    if arguments.answers:
        evaluated = arguments.warm_start
        print_answers(arguments.sets, seeds=arguments.seeds, rounds=arguments.rounds, evaluated=evaluated)
        return
    if arguments.weights:
        print_gains(arguments.sets, arguments.weights, seeds=arguments.seeds, rounds=arguments.rounds)
        return
    print("| gap |", " | ".join(_COLUMNS), "| two: learned - half | two learned - one |")
    print("|---" * (len(_COLUMNS) + 3) + "|")
    means: list[list[float]] = []
    for path in arguments.sets:
        matrix = read_npz(path)
        if matrix.features is None:
            continue
        if arguments.free_features:
            matrix = replace(matrix, feature_cost_s=None)
        found = {name: gaps(matrix, k, rule, seeds=arguments.seeds) for name, (k, rule) in _COLUMNS.items()}
        cells = [f"{values.mean():.3f}" for values in found.values()]
        learned = found["two, learned"]
        pairs = [_difference(learned, found["two, half"]), _difference(learned, found["one"])]
        print("|", " | ".join([f"`{path.stem}`", *cells, *pairs]), "|", flush=True)
        means.append([float(values.mean()) for values in found.values()])
    print("| **mean** |", " | ".join(f"**{value:.3f}**" for value in np.mean(means, axis=0)), "| | |")


if __name__ == "__main__":
    main()
