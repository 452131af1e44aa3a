"""Figures of the synthetic experiments."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.harness.figures import band, new_figure, paper_points, style
from bot_orch.lab.harness.tables import published
from bot_orch.lab.paper.synthetic.data import EDGES, WINDOW
from bot_orch.lab.paper.synthetic.play import LAMBDAS

__all__ = ["draw_iid", "draw_lambda", "draw_long", "draw_noniid", "draw_references"]

#: One colour and marker per agent.
_AGENTS = ("#00796b", "#c62828", "#1a4fa0", "#8e24aa", "#ef6c00", "#5d4037")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_HATCHES = ("", "///", "...", "xx")
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))


def draw_iid(results: Results) -> Any:
    """Half-moons tasks, the agents' outputs around them, and the laws of the latent rewards."""
    figure, axes = new_figure(2, 2, 10, 4.8)
    moons, (near, far) = results["iid-m"], axes[0]
    tasks = np.transpose(moons["tasks"])
    near.scatter(*tasks, s=6, color="black")
    near.set_title("(a) iid-m: half-moons tasks")
    for i, outputs in enumerate(moons["outputs"]):
        far.scatter(*np.transpose(outputs), s=9, color=_AGENTS[i], marker=_MARKERS[i], alpha=0.55, linewidths=0)
        far.annotate(str(i + 1), moons["places"][i], color=_AGENTS[i], weight="bold", ha="center", va="center")
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
        axes[0, 0].plot(np.asarray(path) + i, color=_AGENTS[i], linewidth=0.8)
    for start in shifts["changepoints"]:
        axes[0, 0].axvline(start - 0.5, color="black", linestyle=":", linewidth=1)
    axes[0, 0].set_yticks(np.arange(6) + 0.5, [f"agent {i + 1}" for i in range(6)])
    axes[0, 0].set_title("(a) noniid-ps: latent rewards, variance changes at dotted lines")
    for k, density in enumerate(shifts["parts"]):
        axes[0, 1].stairs(
            density, EDGES, color=_AGENTS[k], linestyle=_DASHES[k], label=f"segment {k + 1}", linewidth=1.6
        )
    axes[0, 1].set_title("(b) noniid-ps: agent 1, segment by segment")
    axes[0, 1].set_xlabel("latent reward")
    axes[0, 1].legend()
    drift, bridges = results["noniid-sd"], results["noniid-bb"]
    start = np.arange(len(drift["rolling"][0])) + WINDOW / 2
    for i in range(6):
        look = {"color": _AGENTS[i], "linestyle": _DASHES[i]}
        axes[1, 0].plot(start, drift["rolling"][i], linewidth=1.4, **look)
        axes[1, 0].plot(drift["means"][i], linewidth=0.7, alpha=0.5, **look)
        axes[1, 1].plot(bridges["means"][i], linewidth=1.2, **look, label=f"agent {i + 1}")
    axes[1, 0].set_title(f"(c) noniid-sd: rolling mean over {WINDOW} rounds (thin: latent mean)")
    axes[1, 1].set_title("(d) noniid-bb: latent means, Brownian bridges from 0.5 to 0.5")
    axes[1, 1].legend(ncol=3, fontsize=7)
    for axis in (axes[0, 0], *axes[1]):
        axis.set_xlabel("round")
    return figure


def draw_lambda(results: Results) -> Any:
    """Net utility, regret and best-agent rate against lambda, one row per setting."""
    metrics = ("net_utility", "oracle_regret", "best_agent_rate")
    figure, axes = new_figure(2, 3, 11.4, 4.5)
    x = np.arange(len(LAMBDAS))
    for row, (environment, payload) in enumerate(results.items()):
        for column, metric in enumerate(metrics):
            axis = axes[row, column]
            values = np.array([payload["methods"][f"bot-orch@{v:g}"]["metrics"][metric] for v in LAMBDAS])
            half = 1.96 * values.std(axis=1) / np.sqrt(values.shape[1])
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
    axes[0, 2].legend(fontsize=7, loc="center right")
    return figure


def draw_references(results: Results, names: tuple[str, ...]) -> Any:
    """Regret relative to Random, by reference and environment."""
    environments = list(dict.fromkeys(key.split("/")[0] for key in results))
    figure, axes = new_figure(1, 1, 9, 3.8)
    axis = axes[0, 0]
    for k, name in enumerate(names):
        shares = []
        for environment in environments:
            methods = results[f"{environment}/{name}"]["methods"]
            regret = [np.mean(methods[m]["metrics"]["oracle_regret"]) for m in ("bot-orch", "random")]
            shares.append(regret[0] / regret[1])
        x = np.arange(len(environments)) + 0.2 * (k - 1.5)
        axis.bar(x, shares, 0.19, color=_AGENTS[k], hatch=_HATCHES[k], edgecolor="black", label=name, linewidth=0.6)
    axis.axhline(1.0, color="black", linestyle=":", linewidth=1)
    axis.set_xticks(np.arange(len(environments)), environments)
    axis.set_ylabel("regret of BOT-Orch / Random")
    axis.set_ylim(0, 1.25)
    axis.legend(ncol=4, title="reference", loc="upper left")
    return figure


def draw_long(results: Results, panels: dict[str, str]) -> Any:
    """Cumulative regret against rounds, one panel per question."""
    figure, axes = new_figure(1, len(panels), 12, 4.4)
    for axis, (panel, title) in zip(axes[0], panels.items(), strict=True):
        chosen = {key.split("/", 1)[1]: value for key, value in results.items() if key.split("/")[0] == panel}
        for k, (name, payload) in enumerate(chosen.items()):
            look = {"color": _AGENTS[k], "linestyle": _DASHES[k], "marker": _MARKERS[k]}
            axis.plot(payload["rounds"], payload["mean"], label=name, markersize=4, linewidth=1.5, **look)
        axis.set_xscale("log")
        axis.set_yscale("symlog", linthresh=10.0)
        axis.set(xlabel="rounds", ylabel="cumulative regret", title=title)
        axis.set_ylim(bottom=min(0.0, 2.0 * min(min(payload["mean"]) for payload in chosen.values())))
        axis.legend(fontsize=7, loc="upper left")
    return figure


def _laws(axis: Any, histograms: list[list[float]], title: str) -> None:
    for i, density in enumerate(histograms):
        look = {"color": _AGENTS[i], "linestyle": _DASHES[i]}
        axis.stairs(density, EDGES, label=f"agent {i + 1}", linewidth=1.5, **look)
    axis.axvline(0.5, color="black", linestyle=":", linewidth=1)
    axis.set_xlabel("latent reward")
    axis.set_title(title)
