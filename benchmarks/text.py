"""What a text is worth to a router, and what it costs where it says nothing: `Task(text=...)` beside no text.

    python benchmarks/text.py [--sets NAME ...] [--orders 20] [--rounds 3000] [--permuted] [--aside] [--quick]

Per set and order the same tasks are routed by `Orchestrator(names, seed=order)` without and with their texts, and by
Vowpal Wabbit (SquareCB on the words), everything at its defaults. Printed are mean rewards over all rounds and over the
second half, and the paired difference with its standard error over orders. `--permuted` adds a router that is given the
text of another task. Sets that are set aside (`benchmarks/_aside.py`) are played only with `--aside`.

Bars: a text costs at most .005 of reward and nothing in the second half; on `topics` .842, and no less than Vowpal
Wabbit; on `llmrouter_9llm` the second half is no less than its best single agent.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
from _harness import Bench
from _prompts import Prompts, prompts, sets_with_prompts
from _spread import mean_error, spread

from bot_orch import Orchestrator, Outcome, Task
from bot_orch.arrays import Floats

_ALLOWED = 0.005
_TOPICS = 0.842
_VW = "--cb_explore_adf --squarecb --gamma_scale 1000 -q ca --quiet"
_PLAIN = str.maketrans("|:", "  ")  # they mean something in its format

Job = tuple[str, int]
#: Mean worth over all rounds and over the second half, by what was routed.
Found = dict[str, tuple[float, float]]


def halves(worth: Floats) -> tuple[float, float]:
    """Mean over all rounds and over the second half."""
    return float(worth.mean()), float(worth[len(worth) // 2 :].mean())


def routed(given: Prompts, order: int, texts: Sequence[str] | None) -> Floats:
    """Worth of every choice of an orchestrator, which is shown the texts, or none."""
    router = Orchestrator(given.agents, seed=order)
    index = {name: i for i, name in enumerate(given.agents)}
    can, found = np.isfinite(given.reward), np.empty(len(given.reward))
    for t, reward in enumerate(given.reward):
        task = Task(str(t)) if texts is None else Task(str(t), text=texts[t])
        eligible = None if can[t].all() else [given.agents[i] for i in np.flatnonzero(can[t])]
        decision = router.decide(task, eligible)
        agent = index[decision.agent]
        router.observe(decision.id, Outcome.completed(float(reward[agent])))
        found[t] = given.worth[t, agent]
    return found


def vowpal(given: Prompts, order: int) -> Floats:
    """Worth of every choice of Vowpal Wabbit, which is shown the words."""
    import vowpal_wabbit_next as vw

    workspace = vw.Workspace([*_VW.split(), "--random_seed", str(order)])
    parse, drawn = vw.TextFormatParser(workspace).parse_line, np.random.default_rng(order)
    found = np.empty(len(given.reward))
    for t, reward in enumerate(given.reward):
        can = np.flatnonzero(np.isfinite(reward))
        shared = "shared |c " + " ".join(given.text[t].translate(_PLAIN).split())
        p = np.zeros(len(can))
        for place, probability in workspace.predict_one([parse(shared), *(parse(f"|a {i}") for i in can)]):
            p[place] = probability
        place = int(drawn.choice(len(can), p=p / p.sum()))
        label = f"0:{1.0 - reward[can[place]]:.6g}:{p[place] / p.sum():.6g} "
        lines = [f"{label if other == place else ''}|a {i}" for other, i in enumerate(can)]
        workspace.learn_one([parse(shared), *map(parse, lines)])
        found[t] = given.worth[t, can[place]]
    return found


def one_order(job: Job, *, rounds: int, permuted: bool, peer: bool) -> Found:
    """Everything that is compared on one order of a set."""
    name, order = job
    given = prompts(name, order, rounds)
    second = slice(len(given.reward) // 2, None)
    found = {
        "best single": (given.best_single(), given.best_single(second)),
        "without": halves(routed(given, order, None)),
        "text": halves(routed(given, order, given.text)),
    }
    if permuted:
        cycle, other = np.random.default_rng([order, 1]).permutation(len(given.text)), np.arange(len(given.text))
        other[cycle] = np.roll(cycle, 1)  # nobody keeps its own
        found["permuted"] = halves(routed(given, order, [given.text[i] for i in other]))
    if peer:
        found["vw"] = halves(vowpal(given, order))
    return found


def report(bench: Bench, name: str, found: Sequence[Found]) -> None:
    """Print the rows of a set and note its bars."""
    by = {key: np.array([each[key] for each in found]) for key in found[0]}
    mean = {key: values.mean(axis=0) for key, values in by.items()}
    print(f"{name}: {len(found)} orders")
    for key, (whole, half) in mean.items():
        print(f"  {key:12s} {whole:.4f}, second half {half:.4f}")
    for key in ("text", "permuted"):
        if key in by:
            (all_, error), (late, late_error) = (mean_error(by[key][:, i] - by["without"][:, i]) for i in (0, 1))
            print(f"  {key} - without {all_:+.4f} +- {error:.4f}, second half {late:+.4f} +- {late_error:.4f}")
            bench.bar(f"{key}-cost {name}", mean[key][0] / (mean["without"][0] - _ALLOWED))
    bench.bar(f"text-second-half {name}", mean["text"][1] / mean["without"][1])
    if "vw" in by:
        late, error = mean_error(by["text"][:, 0] - by["vw"][:, 0])
        print(f"  text - vw {late:+.4f} +- {error:.4f}")
    if name == "topics":
        bench.bar(f"{name} over {_TOPICS}", mean["text"][0] / _TOPICS)
        if "vw" in mean:
            bench.bar(f"{name} over vw", mean["text"][0] / mean["vw"][0])
    if name == "llmrouter_9llm":
        bench.bar(f"{name} second half over best single", mean["text"][1] / mean["best single"][1])


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="names of sets (default: all that may be played)")
    parser.add_argument("--orders", type=int, metavar="N", help="orders of every set (default: 20)")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds at most (default: 3000)")
    parser.add_argument("--permuted", action="store_true", help="also a router with the texts of other tasks")
    parser.add_argument("--aside", action="store_true", help="also the sets that are set aside")
    parser.add_argument("--quick", action="store_true", help="2 orders of 600 rounds")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    chosen = parser.parse_args()
    known = sets_with_prompts(aside=chosen.aside)
    names = chosen.sets or known
    if unknown := [name for name in names if name not in known]:
        parser.error(f"--sets: {', '.join(unknown)}: not among {', '.join(known)} (--aside adds those set aside)")
    orders = chosen.orders or (2 if chosen.quick else 20)
    peer = find_spec("vowpal_wabbit_next") is not None
    if not peer:
        print("without Vowpal Wabbit: install the extra peers to see it")
    rounds = chosen.rounds or (600 if chosen.quick else 3000)
    run = partial(one_order, rounds=rounds, permuted=chosen.permuted, peer=peer)
    bench, found = Bench("reward", digits=4), dict[str, list[Found]]()
    for (name, order), result in spread(run, [(n, o) for n in names for o in range(orders)], chosen.jobs):
        found.setdefault(name, []).append(result)
        if order == orders - 1:
            report(bench, name, found[name])
    bench.finish()


if __name__ == "__main__":
    main()
