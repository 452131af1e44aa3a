"""Synthetic environments: the regret of not knowing the task's own reference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bot_orch.lab.environments.synthetic.alignment import REFERENCES
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.figures import COLORS, new_figure
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.synthetic.play import run_synthetic

_METHODS = ("bot-orch", "random")


def _units(scale: Scale) -> list[Unit]:
    seeds = scale.n_seeds(50, quick=20)
    return [
        Unit(
            f"{environment}/{reference}",
            {"environment": environment, "reference": reference, "seeds": seeds, "methods": _METHODS},
        )
        for environment in ENVIRONMENTS
        for reference in REFERENCES
    ]


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        environment, reference = key.split("/")
        for name, entry in payload["methods"].items():
            if name == "bot-orch" or reference == "task":
                label = reference if name == "bot-orch" else name
                protocol = "paper" if label in ("task", "random") else "deployable"
                found = {"method": label, "lambda_": entry["lambda"], "metrics": entry["metrics"]}
                rows += rows_from_seeds("synthetic-references", environment, protocol, **found, compare=False)
    return rows


_TITLES = {"oracle_regret": "Oracle regret", "alignment_cost": "Cumulative alignment cost"}
_TABLES = [
    TableView(f"{title} of BOT-Orch by reference", metric, protocol)
    for metric, title in _TITLES.items()
    for protocol in ("paper", "deployable")
]


def _notes(results: Results) -> list[str]:
    """The share of the gain over Random that remains, by environment and reference."""
    told = []
    for environment in dict.fromkeys(key.split("/")[0] for key in results):
        gain = {name: 1.0 - _relative(results[f"{environment}/{name}"]) for name in REFERENCES}
        kept = ", ".join(f"{name} {gain[name] / gain['task']:.0%}" for name in REFERENCES if name != "task")
        told.append(f"{environment}: {kept}")
    return [
        "Of the regret that BOT-Orch saves against Random with the task's own reference, is saved without it: "
        + "; ".join(told)
        + "."
    ]


def _relative(payload: Mapping[str, Any]) -> float:
    regret = [float(np.mean(payload["methods"][name]["metrics"]["oracle_regret"])) for name in _METHODS]
    return regret[0] / regret[1]


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "synthetic-references",
            "Regret of BOT-Orch relative to Random when alignment is measured to the task's own reference, or to a "
            "barycenter of the references of earlier tasks: all, the last 20, or fading with a half-life of 10 rounds.",
            partial(draw_references, results, REFERENCES),
        )
    ]


_HATCHES = ("", "///", "...", "xx")


def draw_references(results: Results, names: tuple[str, ...]) -> Any:
    """Regret relative to Random, by reference and environment."""
    environments = list(dict.fromkeys(key.split("/")[0] for key in results))
    figure, axes = new_figure(1, 1, 9, 3.8)
    axis = axes[0, 0]
    for k, name in enumerate(names):
        shares = [_relative(results[f"{environment}/{name}"]) for environment in environments]
        x = np.arange(len(environments)) + 0.2 * (k - 1.5)
        axis.bar(x, shares, 0.19, color=COLORS[k], hatch=_HATCHES[k], edgecolor="black", label=name, linewidth=0.6)
    axis.axhline(1.0, color="black", linestyle=":", linewidth=1)
    axis.set_xticks(np.arange(len(environments)), environments)
    axis.set(ylabel="regret of BOT-Orch / Random", ylim=(0, 1.25))
    axis.legend(ncol=4, title="reference", loc="upper left")
    return figure


EXPERIMENT = Experiment(
    id="synthetic-references",
    title="Synthetic: references learned from earlier tasks",
    about="A barycenter of earlier tasks needs no reference for the current one. It knows which agents scatter too "
    "much, and where tasks have been lately; it cannot know where this task lies. Scored with the task's own reference "
    "throughout.",
    units=_units,
    run=run_synthetic,
    rows=_rows,
    tables=_TABLES,
    figures=_figures,
    notes=_notes,
    order=23,
)
