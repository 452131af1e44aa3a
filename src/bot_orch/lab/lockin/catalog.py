"""Lock-in: plug-in distances starve agents that are just as good; a lower confidence distance does not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.lockin.figures import draw_lockin
from bot_orch.lab.lockin.shares import lockin_shares
from bot_orch.rng import derive_keys

_LAMBDAS = (20.0, 50.0, 100.0)
_KINDS = ("plug_in", "debiased", "lower")
_GAPS = {"identical": 0.0, "worse": 0.1}


def _units(scale: Scale) -> list[Unit]:
    rounds, seeds = (250, scale.n_seeds(40, quick=20)) if scale.quick else (1_500, scale.n_seeds(40))
    return [
        Unit(
            f"{part}/{kind}/{value:g}", {"part": part, "kind": kind, "lambda": value, "rounds": rounds, "seeds": seeds}
        )
        for part in _GAPS
        for kind in _KINDS
        for value in _LAMBDAS
    ]


def _run(params: Mapping[str, Any]) -> dict[str, Any]:
    keys = derive_keys(["lockin", params["part"]], range(params["seeds"]))
    gap = _GAPS[params["part"]]
    shares = lockin_shares(params["lambda"], params["rounds"], keys, params["kind"], gap=gap)
    share = shares.max(axis=1) if params["part"] == "identical" else shares[:, 0]
    return {"share": share.tolist()}


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for key, payload in results.items():
        part, kind, value = key.split("/")
        metric = "largest_share" if part == "identical" else "share_of_worse"
        metrics = {metric: payload["share"]}
        rows += rows_from_seeds(
            "lockin", part, "deployable", method=kind, lambda_=float(value), metrics=metrics, compare=False
        )
    return rows


def _notes(results: Results) -> list[str]:
    plain, lower = (float(np.mean(results[f"identical/{kind}/100"]["share"])) for kind in ("plug_in", "lower"))
    price = [float(np.mean(results[f"worse/{kind}/100"]["share"])) for kind in ("plug_in", "lower")]
    locked = float(np.mean(np.array(results["worse/plug_in/100"]["share"]) > 0.5))
    top = max(results["worse/lower/100"]["share"])
    return [
        f"At lambda = 100 one of six identical agents gets {plain:.0%} of the rounds under plug-in distances, "
        f"{lower:.0%} under the lower confidence distance (even: 16.7 %). An agent that is truly worse, by 0.1, gets "
        f"{price[0]:.0%} on average under plug-in distances, as {locked:.0%} of the runs lock in on it, and "
        f"{price[1]:.0%} under the lower confidence distance, never more than {top:.0%}.",
    ]


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "lockin",
            "Left: the largest share among six identical agents, by the distance the softmax sees. Right: the share "
            "of one agent whose distance is truly 0.1 larger. Error bars: 10 % to 90 % quantile over seeds.",
            partial(draw_lockin, results, _LAMBDAS, _KINDS),
        )
    ]


EXPERIMENT = Experiment(
    id="lockin",
    title="Transport lock-in and its cure",
    about="An empirical distance is biased upwards, the more so the fewer outcomes were seen. A softmax over plug-in "
    "distances therefore favours whoever it has chosen before. Subtracting the bias and a margin of uncertainty "
    "(the lower confidence distance) gives every agent the benefit of the doubt.",
    units=_units,
    run=_run,
    rows=_rows,
    tables=lambda: [
        TableView(
            "Largest share, six identical agents",
            "largest_share",
            "deployable",
            across="lambda",
            down="method",
            digits=3,
        ),
        TableView("Share of the worse agent", "share_of_worse", "deployable", across="lambda", down="method", digits=3),
    ],
    figures=_figures,
    notes=_notes,
    order=25,
)
