"""Results of an arena: rows of ``arena.csv``, the league table, and both as DataFrames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.display import data_frame
from bot_orch.errors import InvalidInputError
from bot_orch.files import path_of
from bot_orch.lab.harness.runner import read_log

COLUMNS = ("dataset", "order", "policy", "metric", "mean", "std", "seeds")

#: Payloads by (dataset, order, policy); under a condition the order is ``order+condition``.
Results = Mapping[tuple[str, str, str], dict[str, Any]]


def mean_std(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean and standard deviation over the seeds with a value, and their number.

    Examples
    --------
    >>> mean_std([1.0, 3.0, float("nan")])
    (2.0, 1.4142135623730951, 2)
    """
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    if not v.size:
        return float("nan"), float("nan"), 0
    mean, std = float(v.mean()), float(v.std(ddof=1)) if v.size > 1 else 0.0
    return mean, std if std > 1e-12 * max(1.0, abs(mean)) else 0.0, int(v.size)  # rounding is not spread


def stage_name(order: str, condition: str) -> str:
    """The order, and the condition behind it unless that is ``plain``."""
    return order if condition == "plain" else f"{order}+{condition}"


def stage_of(name: str) -> tuple[str, str]:
    """Order and condition; the inverse of :func:`stage_name`.

    Examples
    --------
    >>> stage_of("given+delayed"), stage_of("given")
    (('given', 'delayed'), ('given', 'plain'))
    """
    order, _, condition = name.partition("+")
    return order, condition or "plain"


def csv_text(results: Results, *, shares: bool) -> str:
    """``arena.csv``: the header and one line per number; a last column ``condition`` if there is one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    staged = any(stage_of(key[1])[1] != "plain" for key in results)
    writer.writerow((*COLUMNS, "condition") if staged else COLUMNS)
    for key, payload in results.items():
        metrics = dict(payload["metrics"])
        if shares:
            metrics |= {f"share:{agent}": values for agent, values in payload["shares"].items()}
        for metric, values in metrics.items():
            mean, std, seeds = mean_std(values)
            if seeds:
                order, condition = stage_of(key[1])
                row = [key[0], order, key[2], metric, f"{mean:.10g}", f"{std:.10g}", seeds]
                writer.writerow([*row, condition] if staged else row)
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy's rank: mean ``normalised`` over the sets, on how many it is best or draws, and its worst set."""

    policy: str
    mean: float
    error: float
    _: KW_ONLY
    best_or_draw: int
    sets: int
    worst: float


def league(results: Results, order: str) -> list[Standing]:
    """Policies by mean ``normalised``, best first; ``error`` is the standard error over seeds of that mean."""
    table = normalised_under(results, order)
    policies = list(dict.fromkeys(policy for values in table.values() for policy in values))
    standings = []
    for policy in policies:
        mine = {name: values[policy] for name, values in table.items() if policy in values}
        means = [float(np.mean(v)) for v in mine.values()]
        error = float(np.sqrt(sum(np.var(v, ddof=1) / len(v) for v in mine.values() if len(v) > 1))) / len(mine)
        drawn = sum(policy in draws_with_best(table[name]) for name in mine)
        standings.append(
            Standing(policy, float(np.mean(means)), error, best_or_draw=drawn, sets=len(mine), worst=min(means))
        )
    return sorted(standings, key=lambda s: -s.mean)


def draws_with_best(values: Mapping[str, Floats]) -> set[str]:
    """The best policy of a set, and those within one standard error of it, paired by seed.

    Examples
    --------
    >>> sorted(draws_with_best({"a": np.array([1.0, 0.0]), "b": np.array([0.9, 0.2]), "c": np.array([0.0, 0.1])}))
    ['a', 'b']
    """
    top = max(values, key=lambda name: float(np.mean(values[name])))
    found = set()
    for name, mine in values.items():
        gap = values[top] - mine
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        if gap.mean() <= error + 1e-12:
            found.add(name)
    return found


def without_conditions(results: Results) -> Results:
    """The results of the plain replay."""
    return {key: payload for key, payload in results.items() if stage_of(key[1])[1] == "plain"}


def normalised_under(results: Results, order: str, condition: str = "plain") -> dict[str, dict[str, Floats]]:
    """``normalised`` over seeds by data set and policy, baselines left out."""
    table: dict[str, dict[str, Floats]] = {}
    for (dataset, stage, policy), payload in results.items():
        values = payload["metrics"].get("normalised")
        if stage_of(stage) == (order, condition) and values is not None and payload["kind"] != "baseline":
            table.setdefault(dataset, {})[policy] = np.asarray(values, dtype=float)
    return table


def read_results(out: str | Path) -> Results:
    """Results in the folder of a run, by (data set, order, policy); also of a run that is not complete."""
    done = read_log(path_of(out))
    if not done:
        raise InvalidInputError("out", f"{out} holds no results", "pass the folder that bot-orch arena --out wrote")
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for (_, unit), payload in done.items():
        dataset, order, policy = unit.rsplit(" ", 2)
        found[dataset, order, policy] = payload
    return found


def results_frame(out: str | Path) -> Any:
    """One row per data set, order, policy, metric and seed: a ``pandas.DataFrame`` (extra ``notebook``).

    A run with conditions has a last column ``condition``.
    """
    results = read_results(out)
    staged = any(stage_of(key[1])[1] != "plain" for key in results)
    rows: list[dict[str, Any]] = []
    for (dataset, stage, policy), payload in results.items():
        order, condition = stage_of(stage)
        last = {"condition": condition} if staged else {}
        rows += [
            {"dataset": dataset, "order": order, "policy": policy, "metric": metric, "seed": s, "value": value, **last}
            for metric, values in payload["metrics"].items()
            for s, value in enumerate(values)
        ]
    return data_frame(rows)


def league_frame(out: str | Path, order: str = "shuffled") -> Any:
    """The league table, best policy first: a ``pandas.DataFrame`` (extra ``notebook``)."""
    standings = league(read_results(out), order)
    if not standings:
        raise InvalidInputError("order", f"has no results for {order!r}", "pass 'shuffled' or 'given', as it was run")
    return data_frame([asdict(each) for each in standings])
