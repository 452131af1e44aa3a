"""Synthetic environments: the lambda ablation with best-agent rates."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bot_orch.lab.environments.synthetic.settings import ABLATION, COMMON
from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.figures import band, new_figure, paper_points, style
from bot_orch.lab.harness.tables import ResultRow, TableView, published
from bot_orch.lab.paper.synthetic.play import LAMBDAS, PAPER_METHODS, run_synthetic
from bot_orch.lab.paper.synthetic.tables import rows_of

_BASELINES = PAPER_METHODS[1:]
_ROUNDS = 114
_METHODS = (*_BASELINES, *(f"bot-orch@{value:g}" for value in LAMBDAS))  # last: its lambda = 0 is the one tables show
_METRICS = {
    "net_utility": ("Net utility", 2),
    "oracle_regret": ("Oracle regret", 2),
    "best_agent_rate": ("Best-agent rate", 3),
}


def _units(scale: Scale) -> list[Unit]:
    seeds = scale.n_seeds()
    return [Unit(name, {"environment": name, "seeds": seeds, "methods": _METHODS}) for name in ABLATION]


def _rows(results: Results) -> list[ResultRow]:
    return rows_of("synthetic-lambda", results, _METRICS)


def _tables() -> list[TableView]:
    views = []
    for metric, (title, digits) in _METRICS.items():
        name = f"{title} of BOT-Orch against lambda"
        views.append(TableView(name, metric, "paper", down="lambda", across="environment", digits=digits))
        name = f"{title} of the baselines"
        views.append(
            TableView(name, metric, "paper", down="method", across="environment", lines=_BASELINES, digits=digits)
        )
    return views


def _notes(results: Results) -> list[str]:
    rate = {name: results[name]["methods"]["random"]["metrics"]["best_agent_rate"] for name in results}
    found = ", ".join(f"{np.std(values, ddof=1):.3f}" for values in rate.values())
    printed = [published("synthetic-lambda", name, "random", lambda_=0.0, metric="best_agent_rate") for name in results]
    told = " and ".join(f"{p.spread:.3f}" for p in printed if p is not None)
    chance = ", ".join(f"{np.sqrt(p.mean * (1.0 - p.mean) / _ROUNDS):.3f}" for p in printed if p is not None)
    return [
        "The paper's plus-minus in this table cannot be a standard deviation over seeds: one seed is "
        f"{_ROUNDS} choices, so the best-agent rate p of Random has a standard deviation of "
        f"sqrt(p (1 - p) / {_ROUNDS}), at the paper's p {chance} (here {found}), and the paper prints {told}. "
        "It is a confidence interval of the mean over 30 seeds. Green cells are therefore hard to get here.",
        f"Noise ({COMMON.noise:g}) and eta ({COMMON.eta:g}) were fitted to BOT-Orch's regret in the i.i.d. panel, so "
        f"its "
        "curve there is no prediction; the geometry was fitted to Random as everywhere. The bridge is not reached by "
        "one noise for all (<code>benchmarks/calibrate.py --noise</code>): its geometry is open.",
    ]


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "synthetic-lambda",
            "Sensitivity to lambda. Bands: 95 % interval of a mean over 30 seeds; horizontal lines: baselines; "
            "crosses: "
            "published values of BOT-Orch.",
            partial(draw_lambda, results),
        )
    ]


def draw_lambda(results: Results) -> Any:
    """Net utility, regret and best-agent rate against lambda, one row per setting."""
    metrics = ("net_utility", "oracle_regret", "best_agent_rate")
    figure, axes = new_figure(2, 3, 11.4, 4.5)
    x = np.arange(len(LAMBDAS))
    for row, (environment, payload) in enumerate(results.items()):
        for column, metric in enumerate(metrics):
            axis = axes[row, column]
            values = np.array([payload["methods"][f"bot-orch@{v:g}"]["metrics"][metric] for v in LAMBDAS])
            half = 1.96 * values.std(axis=1) / np.sqrt(30)
            band(axis, x, values.mean(axis=1), spread=half, method="bot-orch", every=len(x))
            printed = [
                published("synthetic-lambda", environment, "bot-orch", lambda_=v, metric=metric) for v in LAMBDAS
            ]
            paper_points(axis, x, [np.nan if p is None else p.mean for p in printed])
            for name in ("no-ot", "random", "ucb1"):
                level = float(np.mean(payload["methods"][name]["metrics"][metric]))
                look = style(name)
                axis.axhline(level, color=look["color"], linestyle=look["linestyle"], linewidth=1.3, label=name)
            axis.set_xticks(x, [f"{v:g}" for v in LAMBDAS], fontsize=7)
            axis.set_xlabel("lambda")
            axis.set_title(f"{environment}: {metric.replace('_', ' ')}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncol=5)
    return figure


EXPERIMENT = Experiment(
    id="synthetic-lambda",
    title="Synthetic: sensitivity to lambda",
    about="BOT-Orch over fifteen values of lambda, 114 rounds, 600 seeds (the paper: 30), scored with lambda = 1; an "
    "i.i.d. setting and "
    "a harsher Brownian bridge.",
    units=_units,
    run=run_synthetic,
    rows=_rows,
    tables=_tables,
    figures=_figures,
    notes=_notes,
    why="The same, against intervals of the mean instead of spreads.",
    source="Table 5",
    order=21,
)
