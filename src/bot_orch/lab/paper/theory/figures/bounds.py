"""Figures of item 2, the proposition, the concentration lemma, item 3 and its lemma."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.paper.theory.axes import log_axes, panels
from bot_orch.lab.paper.theory.margin import LAMBDAS, THRESHOLD, misordering, tail_bound
from bot_orch.lab.paper.theory.stability import LIPSCHITZ

__all__ = ["draw_concentration", "draw_lemma", "draw_margin", "draw_stability", "draw_structure"]

_MARKS = ("o", "s", "^", "D", "v", "P")
_COLORS = ("#1a4fa0", "#00796b", "#8e24aa", "#c62828", "#ef6c00", "#5d4037")


def draw_structure(results: Results) -> Any:
    """The utility gap against lambda times the alignment gap."""
    figure, axes = panels(2, 8.5, 3.0, sharey=True)
    titles = {"equal-rewards": "Equal rewards", "unequal-rewards": "Independent rewards"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        x, y = np.array(results[kind]["points"])
        wrong = (x > 0) & (y <= 0)
        axis.scatter(x[~wrong], y[~wrong], s=9, color="#1a4fa0", marker="o", label="order as stated")
        axis.scatter(x[wrong], y[wrong], s=22, color="#c62828", marker="x", label="better aligned, not ahead")
        axis.axhline(0.0, color="black", linewidth=0.7)
        axis.axvline(0.0, color="black", linewidth=0.7)
        axis.set_xlim(-6, 6)
        axis.set_ylim(-6, 6)
        axis.set_xlabel("lambda (w_j - w_i)")
        axis.set_title(title)
    axes[0].set_ylabel("utility of i - utility of j")
    axes[1].legend(loc="upper left")
    return figure


def draw_stability(results: Results) -> Any:
    """Ratios with Lipschitz costs, without, and for the root W_2."""
    figure, axes = panels(2, 9.5, 3.1)
    for index, (name, payload) in enumerate((k, v) for k, v in results.items() if k != "root W_2"):
        moved, ratio = np.array(payload["by_scale"]).T
        label = name if name in LIPSCHITZ else f"{name} (no L)"
        line = "-" if name in LIPSCHITZ else "--"
        axes[0].plot(moved, ratio, color=_COLORS[index], marker=_MARKS[index], linestyle=line, label=label)
    axes[0].set_xlabel("size of the move from nu to nu'")
    axes[0].set_ylabel("largest |W_c - W_c'| / (L W_1)")
    axes[0].set_title("Costs with and without (A1)")
    root = results["root W_2"]["root"]
    axes[1].plot(
        root["mass"], root["printed"], color="#c62828", linestyle="--", marker="s", label="|W_2 - W_2'| / (L W_1)"
    )
    axes[1].axhline(max(results["root W_2"]["ratio"]), color="#1a4fa0", label="largest |W_2 - W_2'| / W_2(nu, nu')")
    axes[1].set_xlabel("mass moved, e")
    axes[1].set_title("The root W_2 is not Lipschitz in W_1")
    for axis in axes:
        axis.axhline(1.0, color="black", linestyle=":", label="bound")
        log_axes(axis)
        axis.legend(fontsize=7)
    return figure


def draw_concentration(results: Results) -> Any:
    """Tails beside the bound: one reward, averages of independent ones, averages that share a frailty."""
    figure, axes = panels(3, 11.5, 3.1, sharey=True)
    titles = {
        "single": "One reward",
        "independent": "Average of 25, own frailties",
        "shared": "Average of 25, one frailty",
    }
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        for index, (name, payload) in enumerate(results.items()):
            e = np.array(payload["epsilon"])
            tail = np.array(payload["tails"][kind])
            shown = tail > 0
            axis.plot(e[shown], tail[shown], color=_COLORS[index], marker=_MARKS[index], markersize=3.5, label=name)
        axis.plot(e, 2.0 * np.exp(-2.0 * e**2), color="black", linestyle=":", label="2 exp(-2 e^2)")
        log_axes(axis, x=False)
        axis.set_ylim(1e-4, 3.0)
        axis.set_xlabel("deviation e" if kind == "single" else "sqrt(n) times deviation, e")
        axis.set_title(title)
    axes[0].set_ylabel("P(|R - E R| > e)")
    axes[0].legend(loc="lower left")
    return figure


def draw_margin(results: Results) -> Any:
    """Share misordered against the margin, and against how much less the better aligned agent earns."""
    figure, axes = panels(2, 9.5, 3.1, sharey=True)
    x = np.linspace(0.0, 3.0, 200)
    axes[0].plot(x, [misordering(v) for v in x], color="#1a4fa0", label="exact")
    axes[0].plot(x, [tail_bound(v) for v in x], color="#c62828", linestyle="--", label="the proof's tail bound")
    _dots(axes[0], results, "margin/", field="margin")
    axes[0].axvline(THRESHOLD, color="black", linestyle="-.", linewidth=0.9, label="threshold sqrt(2 ln 2)")
    axes[0].set_xlabel("(w_j - w_i) / sigma")
    axes[0].set_title("Equal rewards")
    d = np.linspace(-0.5, 2.0, 200)
    axes[1].plot(d, [misordering(THRESHOLD, v) for v in d], color="#1a4fa0", label="exact")
    _dots(axes[1], results, "deficit/", field="deficit")
    axes[1].set_xlabel("(r_j - r_i) / (lambda sigma)")
    axes[1].set_title("Unequal rewards, margin at the threshold")
    for axis in axes:
        axis.axhline(0.25, color="black", linestyle=":", label="1/4")
        axis.legend()
    axes[0].set_ylabel("share misordered")
    return figure


def draw_lemma(results: Results) -> Any:
    """Share misordered at the lemma's threshold and at the scaled one, by lambda."""
    figure, axes = panels(1, 6.0, 3.0)
    axis = axes[0]
    looks = {"printed": ("#c62828", "--", "s", "lambda (w_j - w_i) = sigma sqrt(2 ln 2), as printed")}
    looks["scaled"] = ("#1a4fa0", "-", "o", "w_j - w_i = sigma sqrt(2 ln 2), noise scaled too")
    for kind, (color, line, marker, label) in looks.items():
        values = [np.mean(results[f"{kind}/{v:g}"]["misordered"]) for v in LAMBDAS]
        axis.plot(LAMBDAS, values, color=color, linestyle=line, marker=marker, label=label)
    axis.axhline(0.25, color="black", linestyle=":", label="1/4, what the lemma promises")
    log_axes(axis, y=False)
    axis.set_xticks(LAMBDAS, [f"{v:g}" for v in LAMBDAS])
    axis.set_ylim(0.0, 0.55)
    axis.set_xlabel("lambda")
    axis.set_ylabel("share misordered")
    axis.legend(loc="lower right", fontsize=7)
    return figure


def _dots(axis: Any, results: Results, start: str, *, field: str) -> None:
    shown = [p for key, p in results.items() if key.startswith(start)]
    y = [float(np.mean(p["misordered"])) for p in shown]
    axis.plot(
        [p[field] for p in shown], y, color="black", linestyle="none", marker="o", markersize=4, label="simulated"
    )
