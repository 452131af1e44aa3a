"""Synthetic environments: the two data-generation figures, and the moments behind them."""

from __future__ import annotations

from functools import partial

from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds
from bot_orch.lab.paper.synthetic import figures as draw
from bot_orch.lab.paper.synthetic.data import run_data

_SHOW = {"iid-m": "moons", "iid-g": "moons", "noniid-ps": "shifts"}


def _units(scale: Scale) -> list[Unit]:
    seeds = scale.n_seeds(100, quick=20)
    return [
        Unit(name, {"environment": name, "seeds": seeds, "show": _SHOW.get(name, "means")}) for name in ENVIRONMENTS
    ]


def _rows(results: Results) -> list[ResultRow]:
    rows = []
    for environment, payload in results.items():
        rows += rows_from_seeds(
            "synthetic-data", environment, "paper", method="environment", lambda_=0.0, metrics=payload["metrics"]
        )
    return rows


def _tables() -> list[TableView]:
    titles = {
        "latent_reward_mean": "Mean latent reward, over seeds",
        "latent_reward_sd": "Standard deviation of latent rewards within a seed",
        "frailty_mean": "Mean frailty, over seeds",
    }
    return [
        TableView(title, metric, "paper", down="environment", across="method", digits=3)
        for metric, title in titles.items()
    ]


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "synthetic-iid-data",
            "IID data. Top: half-moons tasks, alone and among the output clouds of the six agents (numbers: their "
            "places). Bottom: latent rewards of the six agents in iid-m and iid-g; dotted: 0.5.",
            partial(draw.draw_iid, results),
        ),
        FigureView(
            "synthetic-noniid-data",
            "Non-IID data. (a) Latent rewards of six agents, one above the other; variances change, means do not. "
            "(b) One agent's rewards in each segment. (c) Means that swing. (d) Means on Brownian bridges.",
            partial(draw.draw_noniid, results),
        ),
    ]


EXPERIMENT = Experiment(
    id="synthetic-data",
    title="Synthetic: how the data are generated",
    about="Latent rewards have mean 0.5 and differ beyond the mean. A deadline turns some of them into zeros, so the "
    "rewards a policy sees average less.",
    units=_units,
    run=run_data,
    rows=_rows,
    tables=_tables,
    figures=_figures,
    source="Figures 2 and 3",
    order=22,
)
