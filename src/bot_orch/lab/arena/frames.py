"""Results of an arena run as DataFrames."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from bot_orch.display import data_frame
from bot_orch.errors import InvalidInputError
from bot_orch.files import path_of
from bot_orch.lab.arena.league import Results, league, stage_of
from bot_orch.lab.harness.runner import read_log

__all__ = ["league_frame", "read_results", "results_frame"]


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
