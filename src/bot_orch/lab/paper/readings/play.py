"""Run a reading against a published table: z scores of BOT-Orch and No-OT, the cells that a reading can move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bot_orch.lab.environments.stream import GivenAlignment
from bot_orch.lab.environments.synthetic.episodes import episodes as synthetic_episodes
from bot_orch.lab.environments.synthetic.noise import with_noise
from bot_orch.lab.environments.synthetic.settings import ABLATION, ENVIRONMENTS, SETTINGS
from bot_orch.lab.environments.triage import PAPER_SPLIT, TriageCondition, episodes, load_triage, paper_alignment
from bot_orch.lab.harness.paper_metrics import scores, triage_scores
from bot_orch.lab.harness.simulate import simulate
from bot_orch.lab.harness.tables import rows_from_seeds
from bot_orch.lab.paper.readings.changes import READINGS, Reading, policy
from bot_orch.rng import derive_keys

__all__ = ["run_reading"]

_CONDITIONS: tuple[TriageCondition, ...] = ("iid", "noniid")
_TRIAGE_LAMBDA = 3.0
_TRIAGE_LAMBDAS = (0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0)
_ABLATION_LAMBDAS = (0.0, 0.5, 1.0, 2.0, 5.0, 13.0)
Played = tuple[str, str, float, dict[str, list[float]]]  # environment, method, lambda, values over seeds by metric


def run_reading(params: Mapping[str, Any]) -> dict[str, Any]:
    """One reading against one table: z scores, and the net utility of BOT-Orch as the main tables print it."""
    reading, table = READINGS[params["reading"]], params["table"]
    play = _triage if table.startswith("triage") else _synthetic
    z: list[float] = []
    cells: list[str] = []
    net: dict[str, list[float]] = {}
    for environment, method, lambda_, metrics in play(reading, table, params["seeds"]):
        found = rows_from_seeds(table, environment, "paper", method=method, lambda_=lambda_, metrics=metrics)
        for row in found:
            if row.z is not None:
                z.append(row.z)
                cells.append(f"{row.metric} of {method} in {environment}")
        if method == "bot-orch" and table in ("triage", "synthetic"):
            net[environment] = metrics["net_utility"]
    return {"z": z, "cells": cells, "net": net}


def _triage(reading: Reading, table: str, seeds: int) -> Iterator[Played]:
    data = load_triage(PAPER_SPLIT)
    for condition in _CONDITIONS:
        cases, keys = episodes(data, condition, np.arange(seeds)), derive_keys(["triage-draw", condition], range(seeds))
        runs = [("bot-orch", _TRIAGE_LAMBDA), ("no-ot", 0.0)]
        if table == "triage-lambda":
            runs = [("bot-orch", value) for value in _TRIAGE_LAMBDAS]
        for method, lambda_ in runs:
            chosen = policy(reading, table, iid=condition == "iid", aligned=method == "bot-orch")
            source = paper_alignment(cases)
            trace = simulate(chosen, cases.stream, keys, lambda_=lambda_, source=source, feedback=reading.order)
            yield f"triage-{condition}", method, lambda_, triage_scores(cases, trace, lambda_)


def _synthetic(reading: Reading, table: str, seeds: int) -> Iterator[Played]:
    for name in ENVIRONMENTS if table == "synthetic" else ABLATION:
        setting = SETTINGS[name]
        runs = synthetic_episodes(setting, range(seeds))
        seen = with_noise(runs.stream.alignment, runs.drawn.noise, reading.level, form=reading.noise)
        keys = derive_keys(["synthetic-draw", name], range(seeds))
        wanted = [("bot-orch", value) for value in _ABLATION_LAMBDAS]
        if table == "synthetic":
            wanted = [("bot-orch", reading.lambda_), ("no-ot", 0.0)]
        for method, lambda_ in wanted:
            chosen = policy(reading, table, iid=setting.iid, aligned=method == "bot-orch")
            trace = simulate(
                chosen, runs.stream, keys, lambda_=lambda_, source=GivenAlignment(seen), feedback=reading.order
            )
            printed = READINGS["as shipped"].lambda_ if table == "synthetic" and method == "bot-orch" else lambda_
            yield name, method, printed, scores(runs, trace)
