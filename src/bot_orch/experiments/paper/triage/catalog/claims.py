"""Triage under the deployable protocol on forty splits: policies that see claims, beside a fixed threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bot_orch.environments.triage import Condition
from bot_orch.experiments.harness.claim_threshold import ClaimThreshold
from bot_orch.experiments.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.experiments.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.experiments.paper.triage.deferral import SPLITS, play_splits, threshold_rule
from bot_orch.experiments.paper.triage.play import CONDITIONS
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import make_policy

_METHODS = ("claim-threshold", "auto", "auto-no-claims", "thompson-beta")
_SEEDS = 30


def _units(scale: Scale) -> list[Unit]:
    splits, seeds = (SPLITS[:3] if scale.quick else SPLITS), scale.n_seeds(_SEEDS)
    return [
        Unit(f"{condition}/{name}/{split}", {"condition": condition, "method": name, "split": split, "seeds": seeds})
        for split in splits
        for condition in CONDITIONS
        for name in _METHODS
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    name, condition = params["method"], params["condition"]
    shown = not name.endswith("-no-claims")
    found = play_splits(_policy(name), [params["split"]], seeds=params["seeds"], condition=condition, claims=shown)
    accuracy, escalation = float(found.accuracy[0]), float(found.escalation[0])
    return {"team_accuracy": accuracy, "escalation_rate": escalation, "seeds": params["seeds"]}


def _policy(name: str) -> Policy:
    return ClaimThreshold() if name == "claim-threshold" else make_policy(name.removesuffix("-no-claims"))


def _rows(results: Results) -> list[ResultRow]:
    grouped: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for key, payload in results.items():
        condition, name, split = key.split("/")
        grouped.setdefault((condition, name), {})[int(split)] = payload
    rows = []
    for (condition, name), by_split in grouped.items():
        rows += rows_from_seeds(
            "triage-claims",
            f"triage-{condition}",
            "deployable",
            method=name,
            lambda_=0.0,
            metrics=_metrics("iid" if condition == "iid" else "noniid", by_split),
            compare=False,
        )
    return rows


def _metrics(condition: Condition, by_split: dict[int, dict[str, Any]]) -> dict[str, list[float]]:
    metric = {name: [each[name] for each in by_split.values()] for name in ("team_accuracy", "escalation_rate")}
    share, seeds = float(np.mean(metric["escalation_rate"])), next(iter(by_split.values()))["seeds"]
    rule = threshold_rule(list(by_split), seeds=seeds, condition=condition, escalation=share)
    return {**metric, "above_threshold": (np.array(metric["team_accuracy"]) - rule.accuracy).tolist()}


def _table(title: str, metric: str) -> TableView:
    return TableView(title, metric, "deployable", lines=(), digits=4)


EXPERIMENT = Experiment(
    id="triage-claims",
    title="Triage: claims beside a fixed threshold",
    about="The deployable protocol on forty splits, none of them chosen. The classifier states how sure it is of its "
    "label before the choice; the baseline escalates if that calibrated confidence is below 0.9. The last table is "
    "accuracy minus that of the threshold, the same on all splits, that escalates as many patients; differences are "
    "paired by split. Each value is the mean over seeds on one split; spread and count are over splits.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=lambda: [
        _table("Team accuracy", "team_accuracy"),
        _table("Escalation rate", "escalation_rate"),
        _table("Accuracy above a threshold at equal escalation", "above_threshold"),
    ],
    order=13,
)
