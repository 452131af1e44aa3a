"""Synthetic environments: the two data-generation figures, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.lab.environments.synthetic.alignment import agent_cloud, places
from bot_orch.lab.environments.synthetic.episodes import SyntheticEpisodes, episodes
from bot_orch.lab.environments.synthetic.settings import ENVIRONMENTS
from bot_orch.lab.environments.synthetic.tasks import segments
from bot_orch.lab.harness.experiment import Experiment, FigureView, Results, Scale, Unit
from bot_orch.lab.harness.figures import COLORS, new_figure, series
from bot_orch.lab.harness.tables import ResultRow, TableView, rows_from_seeds

EDGES = np.linspace(0.0, 1.0, 41)
WINDOW = 25
_TASKS = 400


def run_data(params: Mapping[str, Any]) -> dict[str, Any]:
    """Samples and moments of one environment."""
    setting = ENVIRONMENTS[params["environment"]]
    runs = episodes(setting, range(params["seeds"]))
    latent = runs.drawn.latent
    payload: dict[str, Any] = {
        "histograms": [_histogram(latent[..., i]) for i in range(latent.shape[-1])],
        "metrics": {
            "latent_reward_mean": latent.mean(axis=(0, 2)).tolist(),
            "latent_reward_sd": latent.std(axis=0).mean(axis=-1).tolist(),
            "frailty_mean": runs.drawn.theta.mean(axis=0).tolist(),
        },
    }
    payload |= {"moons": _plane, "shifts": _shifts, "means": _means}[params["show"]](runs)
    return payload


def _plane(runs: SyntheticEpisodes) -> dict[str, Any]:
    setting = runs.setting
    clouds = [agent_cloud(law, i).points * setting.output_spread for i, law in enumerate(setting.laws)]
    spots = places(setting.radius)[:, None] + np.stack(clouds)
    tasks = np.moveaxis(runs.task, 1, 0).reshape(-1, 2)[:_TASKS]
    return {"tasks": tasks.tolist(), "places": places(setting.radius).tolist(), "outputs": spots.tolist()}


def _shifts(runs: SyntheticEpisodes) -> dict[str, Any]:
    segment = segments(runs.setting, len(runs.task))
    latent = runs.drawn.latent
    parts = [_histogram(latent[segment == k, :, 0]) for k in range(int(segment[-1]) + 1)]
    starts = np.flatnonzero(np.diff(segment)) + 1
    return {"trajectories": latent[:, 0].T.tolist(), "parts": parts, "changepoints": starts.tolist()}


def _means(runs: SyntheticEpisodes) -> dict[str, Any]:
    latent, mean = runs.drawn.latent[:, 0], runs.drawn.mean[:, 0]
    sums = np.cumsum(np.vstack([np.zeros((1, latent.shape[1])), latent]), axis=0)
    rolling = (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW
    return {"means": mean.T.tolist(), "rolling": rolling.T.tolist()}


def _histogram(values: Floats) -> list[float]:
    density: list[float] = np.histogram(values, EDGES, density=True)[0].tolist()
    return density


_SHOW = {"iid-m": "moons", "iid-g": "moons", "noniid-ps": "shifts"}


def _units(scale: Scale) -> list[Unit]:
    seeds = scale.n_seeds(100, quick=20)
    return [
        Unit(name, {"environment": name, "seeds": seeds, "show": _SHOW.get(name, "means")}) for name in ENVIRONMENTS
    ]


def _rows(results: Results) -> list[ResultRow]:
    return [
        row
        for name, payload in results.items()
        for row in rows_from_seeds("synthetic-data", name, "paper", method="all agents", metrics=payload["metrics"])
    ]


_TITLES = {
    "latent_reward_mean": "Mean latent reward, over seeds",
    "latent_reward_sd": "Standard deviation of latent rewards within a seed",
    "frailty_mean": "Mean frailty, over seeds",
}
_TABLES = [
    TableView(title, metric, "paper", down="environment", across="method", digits=3)
    for metric, title in _TITLES.items()
]


def _figures(results: Results) -> list[FigureView]:
    return [
        FigureView(
            "synthetic-iid-data",
            "IID data. Top: half-moons tasks, alone and among the output clouds of the six agents (numbers: their "
            "places). Bottom: latent rewards of the six agents in iid-m and iid-g; dotted: 0.5. The spikes at the ends "
            "are draws beyond [0.01, 0.99], which are set to these ends.",
            partial(draw_iid, results),
        ),
        FigureView(
            "synthetic-noniid-data",
            "Non-IID data. (a) Latent rewards of six agents, one above the other; variances change, means do not. "
            "(b) One agent's rewards in each segment. (c) Means that swing. (d) Means on Brownian bridges.",
            partial(draw_noniid, results),
        ),
    ]


def _agent(index: int) -> dict[str, Any]:
    look = series(index)
    return {key: look[key] for key in ("color", "linestyle")}


def draw_iid(results: Results) -> Any:
    """Half-moons tasks, the agents' outputs around them, and the laws of the latent rewards."""
    figure, axes = new_figure(2, 2, 10, 4.8)
    moons, (near, far) = results["iid-m"], axes[0]
    tasks = np.transpose(moons["tasks"])
    near.scatter(*tasks, s=6, color="black")
    near.set_title("(a) iid-m: half-moons tasks")
    for i, outputs in enumerate(moons["outputs"]):
        far.scatter(*np.transpose(outputs), s=9, color=COLORS[i], marker=series(i)["marker"], alpha=0.55, linewidths=0)
        far.annotate(str(i + 1), moons["places"][i], color=COLORS[i], weight="bold", ha="center", va="center")
    far.scatter(*tasks, s=2, color="black")
    far.set_title("the same tasks among the outputs of six agents")
    for axis in (near, far):
        axis.set_aspect("equal", adjustable="datalim")
    _laws(axes[1, 0], moons["histograms"], "(b) iid-m: latent rewards of the agents")
    _laws(axes[1, 1], results["iid-g"]["histograms"], "iid-g: latent rewards of the agents")
    axes[1, 0].legend(ncol=2)
    return figure


def draw_noniid(results: Results) -> Any:
    """The four panels: trajectories and histograms of the changepoints, swinging means, bridges."""
    figure, axes = new_figure(2, 2, 11, 5.4)
    shifts = results["noniid-ps"]
    for i, path in enumerate(shifts["trajectories"]):
        axes[0, 0].plot(np.asarray(path) + i, color=COLORS[i], linewidth=0.8)
    for start in shifts["changepoints"]:
        axes[0, 0].axvline(start - 0.5, color="black", linestyle=":", linewidth=1)
    axes[0, 0].set_yticks(np.arange(6) + 0.5, [f"agent {i + 1}" for i in range(6)])
    axes[0, 0].set_title("(a) noniid-ps: latent rewards, variance changes at dotted lines")
    for k, density in enumerate(shifts["parts"]):
        axes[0, 1].stairs(density, EDGES, label=f"segment {k + 1}", linewidth=1.6, **_agent(k))
    axes[0, 1].set(title="(b) noniid-ps: agent 1, segment by segment", xlabel="latent reward")
    axes[0, 1].legend()
    drift, bridges = results["noniid-sd"], results["noniid-bb"]
    start = np.arange(len(drift["rolling"][0])) + WINDOW / 2
    for i in range(6):
        look = _agent(i)
        axes[1, 0].plot(start, drift["rolling"][i], linewidth=1.4, **look)
        axes[1, 0].plot(drift["means"][i], linewidth=0.7, alpha=0.5, **look)
        axes[1, 1].plot(bridges["means"][i], linewidth=1.2, **look, label=f"agent {i + 1}")
    axes[1, 0].set_title(f"(c) noniid-sd: rolling mean over {WINDOW} rounds (thin: latent mean)")
    axes[1, 1].set_title("(d) noniid-bb: latent means, Brownian bridges from 0.5 to 0.5")
    axes[1, 1].legend(ncol=3, fontsize=7)
    for axis in (axes[0, 0], *axes[1]):
        axis.set_xlabel("round")
    return figure


def _laws(axis: Any, histograms: list[list[float]], title: str) -> None:
    for i, density in enumerate(histograms):
        look = _agent(i)
        axis.stairs(density, EDGES, label=f"agent {i + 1}", linewidth=1.5, **look)
    axis.axvline(0.5, color="black", linestyle=":", linewidth=1)
    axis.set(xlabel="latent reward", title=title)


EXPERIMENT = Experiment(
    id="synthetic-data",
    title="Synthetic: how the data are generated",
    about="Latent rewards have mean 0.5 and differ beyond the mean. A deadline turns some of them into zeros, so the "
    "rewards a policy sees average less.",
    units=_units,
    run=run_data,
    rows=_rows,
    tables=_TABLES,
    figures=_figures,
    source="Figures 2 and 3",
    order=22,
)
