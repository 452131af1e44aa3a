"""Taught by evaluations, tested on other tasks without feedback: the protocol of offline routers such as RouterDC.

    python benchmarks/routerdc.py [SET] [--halves] [--train N] [--test N] [--seeds 3] [--aside] [--quick]

A router without a floor is taught the rewards of all agents on the training tasks (`learn_from`, with their texts),
then asked about every test task by `derive`, which changes nothing. Two scores: the reward expected under its
propensities, and that of the agent with the largest estimate. A score is the mean over the data sets of a group of
their mean rewards, as RouterDC (Chen et al. 2024) reports it. SET is the name of an archive in the data folders, with
texts of its own or in `NAME_tasks.csv.gz`; its groups are those of `split` or `task_split` except `train` and `val`.
`--halves` splits at random instead. Beside them: the best single agent by the same score, and the one that is best on
the training tasks; random; and the oracle.

Bars: no less than the best single agent, and than RouterDC where it published a score. `routerdc_7llm` is set aside
(`benchmarks/_aside.py`) and played only with `--aside`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from _aside import folders, set_aside
from _harness import Bench
from _spread import mean_error, spread

from bot_orch import Orchestrator, Task
from bot_orch.arrays import Floats, Ints

#: Scores in percent on the tasks of a group: best single agent and RouterDC. Theirs is the mean of five data sets.
_PUBLISHED = {("routerdc_7llm", "test"): (54.56, 58.54)}
_NOT_SCORED: dict[str, tuple[str, ...]] = {}  # data sets that are a group of their own
_SCORES = ("best single", "best on train", "propensities", "estimate", "random", "oracle")


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A set: rewards (T, M), texts, and the data set and the split that every task belongs to."""

    name: str
    agents: tuple[str, ...]
    reward: Floats
    text: tuple[str, ...]
    dataset: npt.NDArray[np.str_]
    split: npt.NDArray[np.str_]


def read(path: Path) -> Evaluated:
    """The set in an archive; tasks that are in `train` too are not tested on."""
    with np.load(path, allow_pickle=False) as arrays:
        files = {name: arrays[name] for name in arrays.files}
    reward = files["reward"].astype(float)
    t = len(reward)
    text = files["text"] if "text" in files else _questions(path, files["task_id"])
    dataset = next((files[key] for key in ("task_dataset", "task_benchmark", "task_source") if key in files), None)
    split = next((files[key] for key in ("split", "task_split") if key in files), np.full(t, "test"))
    split = np.where(files.get("in_train", np.zeros(t, dtype=bool)).astype(bool), "left out", split.astype(str))
    agents = tuple(map(str, files["agent"]))
    groups = np.full(t, path.stem) if dataset is None else dataset.astype(str)
    alone = np.isin(groups, _NOT_SCORED.get(path.stem, ())) & (split == "test")
    split = np.where(alone, np.char.add("test of ", groups), split)
    return Evaluated(path.stem, agents, reward, tuple(map(str, text)), groups, split)


def _questions(path: Path, task_id: npt.NDArray[np.str_]) -> list[str]:
    """Texts of the tasks, from the table beside the archive."""
    table = path.with_name(f"{path.stem}_tasks.csv.gz")
    if not table.is_file():
        raise SystemExit(f"{path.name}: has no texts, and there is no {table.name}")
    with gzip.open(table, "rt", encoding="utf-8", newline="") as file:
        known = {row["task_id"]: row["question"] for row in csv.DictReader(file)}
    return [known[str(each)] for each in task_id]


def halved(given: Evaluated, seed: int) -> Evaluated:
    """The same set, half of its tasks for training."""
    train = np.random.default_rng([seed, 3]).random(len(given.text)) < 0.5
    split = np.where(train, "train", "test")
    return Evaluated(given.name, given.agents, given.reward, given.text, given.dataset, split)


def taught(given: Evaluated, rows: Ints, seed: int) -> Orchestrator:
    """A router that knows the evaluations of these rows."""
    router = Orchestrator(given.agents, seed=seed, floor=0.0)
    router.learn_from(given.reward[rows], tasks=[Task(str(row), text=given.text[row]) for row in rows])
    return router


def asked(router: Orchestrator, given: Evaluated, rows: Ints) -> tuple[Floats, Floats]:
    """Weights of the agents for every row: propensities, and all on the largest estimate."""
    can = np.isfinite(given.reward[rows])
    propensities, best = np.zeros(can.shape), np.zeros(can.shape)
    for place, row in enumerate(rows):
        eligible = None if can[place].all() else [given.agents[i] for i in np.flatnonzero(can[place])]
        decision = router.derive(Task(str(row), text=given.text[row]), eligible)
        propensities[place] = decision.propensities
        best[place, np.argmax(np.where(can[place], decision.terms.estimate, -np.inf))] = 1.0
    return propensities, best


def scored(given: Evaluated, rows: Ints, weights: Floats) -> float:
    """Mean over the data sets of their mean rewards, in percent."""
    each = (weights * np.nan_to_num(given.reward[rows])).sum(axis=1)
    return 100.0 * float(np.mean([each[given.dataset[rows] == name].mean() for name in np.unique(given.dataset[rows])]))


def singles(given: Evaluated, rows: Ints) -> Floats:
    """The score of every agent on its own; a random one takes the tasks it cannot take."""
    even = _even(given, rows)
    alone = np.eye(len(given.agents))
    can = np.isfinite(given.reward[rows])
    return np.array([scored(given, rows, np.where(can[:, [i]], alone[i], even)) for i in range(len(alone))])


def _even(given: Evaluated, rows: Ints) -> Floats:
    can = np.isfinite(given.reward[rows])
    return np.asarray(can / can.sum(axis=1, keepdims=True))


def one_seed(seed: int, *, path: Path, halves: bool, most: tuple[int | None, int | None]) -> dict[str, list[float]]:
    """Scores by group of one split and one seed of the router, in the order of the columns."""
    given = read(path)
    given = halved(given, seed) if halves or "train" not in given.split else given
    drawn = np.random.default_rng([seed, 4])
    train = drawn.permutation(np.flatnonzero(np.isin(given.split, ("train", "val"))))[: most[0]]
    router, found = taught(given, train, seed), {}
    for group in np.unique(given.split[~np.isin(given.split, ("train", "val", "left out"))]):
        rows = np.sort(drawn.permutation(np.flatnonzero(given.split == group))[: most[1]])
        alone, (propensities, best) = singles(given, rows), asked(router, given, rows)
        filled = np.where(np.isfinite(given.reward[rows]), given.reward[rows], -1.0)
        oracle = np.eye(len(given.agents))[filled.argmax(axis=1)]
        found[str(group)] = [
            float(alone.max()),
            float(alone[singles(given, train).argmax()]),
            *(scored(given, rows, weights) for weights in (propensities, best, _even(given, rows), oracle)),
        ]
    return found


def find(name: str, *, aside: bool) -> Path:
    """The archive of that name; one that is set aside only where it is wanted."""
    for folder in folders():
        names = [path.stem for path in folder.glob("*.npz")]
        if name in names:
            if name in set_aside(names) and not aside:
                print(f"{name} is set aside: pass --aside to look at it, or the name of another set")
                raise SystemExit(0)
            return folder / f"{name}.npz"
    print(f"no {name}.npz in {' or '.join(map(str, folders()))}: nothing to measure")
    raise SystemExit(0)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", default="routerdc_7llm", metavar="SET", help="default: routerdc_7llm")
    parser.add_argument("--halves", action="store_true", help="a random half for training instead of the set's split")
    parser.add_argument("--train", type=int, metavar="N", help="training tasks at most (default: all)")
    parser.add_argument("--test", type=int, metavar="N", help="tasks of a group at most (default: all)")
    parser.add_argument("--seeds", type=int, metavar="N", help="routers, and splits with --halves (default: 3)")
    parser.add_argument("--aside", action="store_true", help="allow a set that is set aside")
    parser.add_argument("--quick", action="store_true", help="2 seeds, 500 tasks for training and 500 for tests")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    chosen = parser.parse_args()
    path, quick = find(chosen.set, aside=chosen.aside), 500 if chosen.quick else None
    run = partial(one_seed, path=path, halves=chosen.halves, most=(chosen.train or quick, chosen.test or quick))
    seeds = chosen.seeds or (2 if chosen.quick else 3)
    results = [result for _, result in spread(run, list(range(seeds)), chosen.jobs)]
    bench = Bench("%", digits=4)
    for group in results[0]:
        by = np.array([result[group] for result in results])
        print(f"{path.stem} {group}: {seeds} seeds, percent, mean over data sets")
        for column, label in enumerate(_SCORES):
            value, error = mean_error(by[:, column])
            print(f"  {label:14s} {value:6.2f} +- {error:.2f}")
        gain, error = mean_error(by[:, 3] - by[:, 0])
        print(f"  estimate - best single {gain:+.2f} +- {error:.2f}")
        mean = by.mean(axis=0)
        bench.bar(f"{group} propensities over best single", float(mean[2] / mean[0]))
        bench.bar(f"{group} estimate over best single", float(mean[3] / mean[0]))
        if not chosen.halves and (path.stem, group) in _PUBLISHED:
            single, published = _PUBLISHED[path.stem, group]
            print(f"  published: best single {single:.2f}, RouterDC {published:.2f}")
            bench.bar(f"{group} estimate over RouterDC", float(mean[3] / published))
    bench.finish()


if __name__ == "__main__":
    main()
