"""Triage: the lambda ablation, its table and two figures."""

from __future__ import annotations

from functools import partial

from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.triage import figures as draw
from bot_orch.lab.paper.triage.play import CONDITIONS, LAMBDAS, PAPER_METHODS, PROTOCOLS, run_triage
from bot_orch.lab.paper.triage.tables import basis

#: Under the deployable protocol one lambda scores everything, the paper's values too.
_RESCORED = {"paper": "", "deployable": ", the label known, scored with lambda = 3 like ours"}


def _units(scale: Scale) -> list[Unit]:
    units = []
    for protocol in PROTOCOLS:
        for condition in CONDITIONS:
            base = {"protocol": protocol, "condition": condition, "seeds": scale.n_seeds()}
            start = f"{protocol}/{condition}"
            units += [
                Unit(f"{start}/bot-orch/{value:g}", {**base, "method": "bot-orch", "lambda": value})
                for value in LAMBDAS
            ]
            units += [Unit(f"{start}/{name}", {**base, "method": name}) for name in PAPER_METHODS[1:]]
    return units


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        protocol, condition, name, *_ = key.split("/")
        if name == "bot-orch":
            environment, compare = f"triage-{condition}", protocol == "paper"
            rows += rows_from_seeds(
                "triage-lambda",
                environment,
                protocol,
                method=name,
                lambda_=payload["lambda"],
                metrics=payload["metrics"],
                compare=compare,
                basis=basis(condition, name, payload["metrics"]),
            )
    return rows


def _tables() -> list[TableView]:
    metrics = {"net_utility": "Net utility", "oracle_regret": "Oracle regret", "team_accuracy": "Team accuracy"}
    return [
        TableView(
            f"{title} of BOT-Orch against lambda",
            metric,
            protocol,
            down="lambda",
            across="environment",
            digits=3 if metric == "team_accuracy" else 2,
        )
        for protocol in PROTOCOLS
        for metric, title in metrics.items()
    ]


def _figures(results: Results) -> list[FigureView]:
    shown = []
    for protocol in PROTOCOLS:
        shown += [
            FigureView(
                f"triage-lambda-{protocol}",
                f"Sensitivity to lambda, {protocol} protocol. Bands: one standard deviation; horizontal lines: "
                f"baselines; dotted: lambda = 2; crosses: the paper's values{_RESCORED[protocol]}.",
                partial(draw.draw_lambda_curves, results, protocol),
            ),
            FigureView(
                f"triage-lambda-escalation-{protocol}",
                f"Escalation of shifted patients and alignment cost against lambda, {protocol} protocol. Crosses: the "
                "paper's values, the label known; its costs follow from its net utility and accuracy.",
                partial(draw.draw_lambda_escalation, results, protocol),
            ),
        ]
    return shown


EXPERIMENT = Experiment(
    id="triage-lambda",
    title="Triage: sensitivity to lambda",
    about="BOT-Orch over the paper's grid of lambda. In the paper protocol net utility is scored with the lambda on "
    "the left, in the deployable protocol with 3 throughout. The dip of the non-IID curve below lambda = 1.5 is in "
    "the paper too: it comes from the history term, which keeps rewarding whoever was chosen.",
    units=_units,
    run=run_triage,
    rows=_rows,
    tables=_tables,
    figures=_figures,
    why="The history term f is not printed; 0.05 times the mean past reward was chosen here.",
    source="Table 7, Figures 6 and 7",
    order=11,
)
