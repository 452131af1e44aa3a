"""Triage on twenty other splits, under both protocols: do the results hold beyond the selected split?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bot_orch.lab.environments.triage import PAPER_SPLIT, qualifies
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, published, rows_from_seeds
from bot_orch.lab.paper.triage.play import CONDITIONS, PAPER_METHODS, run_triage
from bot_orch.lab.paper.triage.tables import METRICS

_METHODS = {
    "paper": PAPER_METHODS,
    "deployable": ("bot-orch", "no-ot", "random", "ucb1", "thompson-beta", "thompson-beta+ot"),
}
_SPLITS = [seed for seed in range(21) if seed != PAPER_SPLIT][:20]
_SCANNED = "scanned"


def _units(scale: Scale) -> list[Unit]:
    splits = _SPLITS[:3] if scale.quick else _SPLITS
    return [Unit(_SCANNED, {"scan": 30 if scale.quick else 100})] + [
        Unit(
            f"{protocol}/{condition}/{name}/{split}",
            {"protocol": protocol, "condition": condition, "method": name, "seeds": scale.n_seeds(30)}
            | {"split": split},
        )
        for split in splits
        for protocol, names in _METHODS.items()
        for condition in CONDITIONS
        for name in names
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    if "scan" in params:
        return {"scanned": params["scan"], "found": [seed for seed in range(params["scan"]) if qualifies(seed)]}
    return run_triage(params)


def _rows(results: Results) -> list[ResultRow]:
    grouped: dict[tuple[str, str, str, float], dict[str, list[float]]] = {}
    for key, payload in results.items():
        if key == _SCANNED:
            continue
        protocol, condition, name, _ = key.split("/")
        metrics = grouped.setdefault((protocol, condition, name, payload["lambda"]), {})
        for metric, values in payload["metrics"].items():
            metrics.setdefault(metric, []).append(float(np.mean(values)))
    rows = []
    for (protocol, condition, name, lambda_), metrics in grouped.items():
        environment = f"triage-{condition}"
        found = rows_from_seeds(
            "triage-splits", environment, protocol, method=name, lambda_=lambda_, metrics=metrics, compare=False
        )
        rows += [_beside(row, metrics[row.metric]) if protocol == "paper" else row for row in found]
    return rows


def _beside(row: ResultRow, values: list[float]) -> ResultRow:
    """The row with its range over splits and the published number of the chosen split, which is not counted."""
    paper = published("triage", row.environment, row.method, lambda_=row.lambda_, metric=row.metric)
    return replace(row, paper=paper, basis="elsewhere", range=(min(values), max(values)))


def _notes(results: Results) -> list[str]:
    scan, rows = results[_SCANNED], _rows(results)
    compared = [row for row in rows if row.paper is not None and row.range is not None]
    covered = sum(row.range[0] <= row.paper.mean <= row.range[1] for row in compared if row.paper and row.range)
    first = "none" if not scan["found"] else ", ".join(map(str, scan["found"]))
    return [
        "<b>The split of the triage tables was chosen.</b> The paper does not publish its split. Ours is the first "
        "whose classifier is right on 56 and 46 of 57 patients, the paper's accuracies: "
        f"{len(scan['found'])} of {scan['scanned']} seeds qualify ({first}). The paper's protocol on splits that were "
        "not chosen is below: mean and range over splits, the published value beside. "
        f"{covered} of {len(compared)} published values lie in the range.",
    ]


_TABLES = [
    *(
        TableView(f"{title}, mean and range over splits", metric, "paper", columns=PAPER_METHODS, digits=digits)
        for metric, (title, digits) in {**METRICS, "net_utility": ("Net utility", 2)}.items()
    ),
    TableView("Team accuracy", "team_accuracy", "deployable", digits=3),
    TableView("Escalation rate", "escalation_rate", "deployable", digits=3),
    TableView("Net utility", "net_utility", "deployable"),
]

EXPERIMENT = Experiment(
    id="triage-splits",
    title="Triage: twenty other splits",
    about="Both protocols on splits of the data that the classifier's accuracy played no part in choosing. "
    "Each value is the mean over seeds on one split; spread and count are over splits.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=_TABLES,
    notes=_notes,
    order=12,
)
