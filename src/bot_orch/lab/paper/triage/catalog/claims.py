"""Triage under the deployable protocol: learners beside rules that need no learning, on three sets of splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.lab.environments.triage import PAPER_SPLIT, TriageCondition
from bot_orch.lab.harness.experiment import Experiment, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.triage.deferral import SPLITS, threshold_rule
from bot_orch.lab.paper.triage.play import CONDITIONS
from bot_orch.lab.paper.triage.rules import RULES, play_rule
from bot_orch.lab.paper.triage.worth import plainly, worth_notes

_LEARNERS = ("bot-orch", "bot-orch-lambda-0", "thompson-beta", "auto", "auto-no-claims")
_METHODS = (*RULES, *_LEARNERS)
_SEEDS, _OTHERS = 30, 20


def _units(scale: Scale) -> list[Unit]:
    splits, seeds = ((0, 1, PAPER_SPLIT) if scale.quick else SPLITS), scale.n_seeds(_SEEDS)
    return [
        Unit(f"{condition}/{name}/{split}", {"condition": condition, "method": name, "split": split, "seeds": seeds})
        for split in splits
        for condition in CONDITIONS
        for name in _METHODS
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    accuracy, escalation = play_rule(
        params["method"], params["split"], seeds=params["seeds"], condition=params["condition"]
    )
    return {"team_accuracy": accuracy.tolist(), "escalation_rate": escalation.tolist(), "seeds": params["seeds"]}


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for condition in CONDITIONS:
        for name in _METHODS:
            by_split = _by_split(results, condition, name)
            others = {split: payload for split, payload in by_split.items() if split != PAPER_SPLIT and split < _OTHERS}
            sets = {
                f"triage-{condition}": _over_splits(condition, by_split),
                f"triage-{condition}, twenty": _over_splits(condition, others),
                f"triage-{condition}, the paper's": _on_one_split(condition, by_split),
            }
            for environment, metrics in sets.items():
                rows += rows_from_seeds(
                    "triage-claims",
                    environment,
                    "deployable",
                    method=name,
                    lambda_=0.0,
                    metrics=metrics,
                    compare=False,
                )
    return rows


def _by_split(results: Results, condition: str, name: str) -> dict[int, dict[str, Any]]:
    start = f"{condition}/{name}/"
    return {int(key.removeprefix(start)): payload for key, payload in results.items() if key.startswith(start)}


def _over_splits(condition: TriageCondition, by_split: Mapping[int, Mapping[str, Any]]) -> dict[str, list[float]]:
    """One value per split, each a mean over seeds."""
    names = ("team_accuracy", "escalation_rate")
    metric = {name: [float(np.mean(each[name])) for each in by_split.values()] for name in names}
    return {**metric, "above_threshold": _above(condition, metric, by_split).tolist()}


def _on_one_split(condition: TriageCondition, by_split: Mapping[int, Mapping[str, Any]]) -> dict[str, list[float]]:
    """One value per seed on the paper's split."""
    one = {PAPER_SPLIT: by_split[PAPER_SPLIT]}
    metric = {name: list(one[PAPER_SPLIT][name]) for name in ("team_accuracy", "escalation_rate")}
    return {**metric, "above_threshold": _above(condition, metric, one).tolist()}


def _above(
    condition: TriageCondition, metric: Mapping[str, list[float]], by_split: Mapping[int, Mapping[str, Any]]
) -> Any:
    share, seeds = float(np.mean(metric["escalation_rate"])), next(iter(by_split.values()))["seeds"]
    rule = threshold_rule(list(by_split), seeds=seeds, condition=condition, escalation=share)
    return np.array(metric["team_accuracy"]) - rule.accuracy


def _notes(results: Results) -> list[str]:
    found: dict[str, dict[str, dict[str, list[float]]]] = {
        condition: {name: _over_splits(condition, _by_split(results, condition, name)) for name in _METHODS}
        for condition in reversed(CONDITIONS)
    }
    return [plainly(found), *(note for condition in found for note in worth_notes(condition, found[condition]))]


def _table(title: str, metric: str, condition: str) -> TableView:
    columns = (f"triage-{condition}, the paper's", f"triage-{condition}, twenty", f"triage-{condition}")
    return TableView(
        title, metric, "deployable", down="method", across="environment", columns=columns, lines=_METHODS, digits=4
    )


def _tables() -> list[TableView]:
    titles: Sequence[tuple[str, str]] = (
        ("Team accuracy", "team_accuracy"),
        ("Escalation rate", "escalation_rate"),
        ("Accuracy above a threshold at equal escalation", "above_threshold"),
    )
    return [
        _table(f"{title}, {condition}", metric, condition)
        for condition in reversed(CONDITIONS)
        for title, metric in titles
    ]


EXPERIMENT = Experiment(
    id="triage-claims",
    title="Triage without the label: beside rules that need no learning",
    about="The deployable protocol on the paper's split, on twenty others, and on splits 0 to 39, the paper's among "
    "them. The classifier states how sure it is of its label before the choice. Rules: escalate if that calibrated "
    "confidence is below 0.9 (claim-threshold), the same with a threshold learned online, always the AI, always the "
    "person, and the person on shifted patients (told-of-shift; no router is told). The last table of each condition "
    "is accuracy minus that of the threshold, the same on all splits, that escalates as many patients. On the paper's "
    "split spread and count are over seeds, elsewhere over splits.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=_tables,
    notes=_notes,
    order=13,
)
