"""Which reading of the paper reproduces which of its tables."""

from __future__ import annotations

import numpy as np

from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.readings.changes import READINGS, SHIPPED, TABLES, tables_of
from bot_orch.lab.paper.readings.play import run_reading

_SEEDS = {"triage": 30, "triage-lambda": 30, "synthetic": 20, "synthetic-lambda": 20}
#: A reading is level with the best of a table if its rms is at most this many times as large.
_LEVEL = 1.1


def _units(scale: Scale) -> list[Unit]:
    return [
        Unit(f"{name}/{table}", {"reading": name, "table": table, "seeds": scale.n_seeds(_SEEDS[table])})
        for name in READINGS
        for table in tables_of(name)
    ]


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        name, table = key.rsplit("/", 1)
        z = np.array(payload["z"])
        found = {
            "rms_z": [_rms(payload["z"])],
            "beyond_two": [float((np.abs(z) > 2.0).sum())],
            "cells": [float(z.size)],
        }
        rows += _row(table, name, found)
        for environment, values in payload["net"].items():
            rows += _row(environment, name, {"net_utility": values})
    return rows


def _row(environment: str, name: str, metrics: dict[str, list[float]]) -> list[ResultRow]:
    return rows_from_seeds("readings", environment, "paper", method=name, lambda_=0.0, metrics=metrics, compare=False)


def _notes(results: Results) -> list[str]:
    rms = {tuple(key.rsplit("/", 1)): _rms(payload["z"]) for key, payload in results.items()}
    said = []
    for table in TABLES:
        here = {name: value for (name, at), value in rms.items() if at == table}
        best = min(here, key=lambda name: here[name])
        level = sorted((n for n in here if here[n] <= _LEVEL * here[best]), key=lambda name: here[name])
        said.append(f"<b>{table}</b>: {', '.join(f'{n} ({here[n]:.2f})' for n in level)}; shipped {here[SHIPPED]:.2f}")
    return [
        f"Readings nearest to each table, rms of z in brackets (all within {_LEVEL - 1:.0%} of the best): "
        + "; ".join(said)
        + ".",
        f"Largest z of the shipped reading: {_largest(results)}.",
        f"{len(READINGS)} readings were run, {len(results)} pairs of a reading and a table. Each changes the shipped "
        "one in what it names; an empty cell means that the table does not depend on it. What is open in the synthetic "
        "tables was decided on the ablation alone, by a rule (<code>benchmarks/calibrate.py --refit</code>).",
    ]


def _largest(results: Results) -> str:
    told = []
    for table in TABLES:
        payload = results[f"{SHIPPED}/{table}"]
        at = int(np.argmax(np.abs(payload["z"])))
        told.append(f"{table} {payload['z'][at]:+.1f} ({payload['cells'][at]})")
    return "; ".join(told)


def _rms(z: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(z))))


def _tables() -> list[TableView]:
    views = [
        TableView(title, metric, "paper", down="method", across="environment", columns=TABLES, digits=digits)
        for title, metric, digits in (
            ("Rms of z by reading and table", "rms_z", 2),
            ("Cells with |z| > 2", "beyond_two", 0),
            ("Cells compared: those of BOT-Orch and No-OT", "cells", 0),
        )
    ]
    net = TableView(
        "Net utility of BOT-Orch in triage",
        "net_utility",
        "paper",
        down="method",
        across="environment",
        columns=("triage-iid", "triage-noniid"),
        note="The paper prints 108.84 and 110.61.",
    )
    return [*views, net]


EXPERIMENT = Experiment(
    id="readings",
    title="Which reading reproduces which table",
    about="What the paper leaves open, or states in two ways: the order of learning and choosing, the history term f "
    "and its weight, eta, lambda, the noise on alignment. Each reading is run with the same engine against every "
    "published table that depends on it. z is the difference to the published mean over its standard error, with both "
    "errors; a perfect reproduction has an rms of about 1.",
    units=_units,
    run=run_reading,
    rows=_rows,
    tables=_tables,
    notes=_notes,
    why="The readings that were not shipped, and how far each is from the published numbers.",
    order=26,
)
