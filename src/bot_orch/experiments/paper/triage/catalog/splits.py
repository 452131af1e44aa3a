"""Triage under the deployable protocol on twenty other splits: does it hold beyond the paper's split?"""

from __future__ import annotations

import numpy as np

from bot_orch.environments.triage import PAPER_SPLIT
from bot_orch.experiments.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.experiments.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.experiments.paper.triage.play import CONDITIONS, run_triage

_METHODS = ("bot-orch", "no-ot", "random", "ucb1", "thompson-beta", "thompson-beta+ot")
_SPLITS = [seed for seed in range(21) if seed != PAPER_SPLIT][:20]


def _units(scale: Scale) -> list[Unit]:
    splits = _SPLITS[:3] if scale.quick else _SPLITS
    return [
        Unit(
            f"{condition}/{name}/{split}",
            {"protocol": "deployable", "condition": condition, "method": name, "seeds": scale.n_seeds(30)}
            | {"split": split},
        )
        for split in splits
        for condition in CONDITIONS
        for name in _METHODS
    ]


def _rows(results: Results) -> list[ResultRow]:
    grouped: dict[tuple[str, str, float], dict[str, list[float]]] = {}
    for key, payload in results.items():
        condition, name, _ = key.split("/")
        metrics = grouped.setdefault((condition, name, payload["lambda"]), {})
        for metric, values in payload["metrics"].items():
            metrics.setdefault(metric, []).append(float(np.mean(values)))
    return [
        row
        for (condition, name, lambda_), metrics in grouped.items()
        for row in rows_from_seeds(
            "triage-splits",
            f"triage-{condition}",
            "deployable",
            method=name,
            lambda_=lambda_,
            metrics=metrics,
            compare=False,
        )
    ]


EXPERIMENT = Experiment(
    id="triage-splits",
    title="Triage: twenty other splits",
    about="The deployable protocol on splits of the data that the classifier's accuracy played no part in choosing. "
    "Each value is the mean over seeds on one split; spread and count are over splits.",
    units=_units,
    run=run_triage,
    rows=_rows,
    tables=lambda: [
        TableView("Team accuracy", "team_accuracy", "deployable", digits=3),
        TableView("Escalation rate", "escalation_rate", "deployable", digits=3),
        TableView("Net utility", "net_utility", "deployable"),
    ],
    order=12,
)
