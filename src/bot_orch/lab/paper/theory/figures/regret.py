"""The figure of item 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.paper.theory.axes import log_axes, panels
from bot_orch.lab.paper.theory.regret.cases import CASES
from bot_orch.lab.paper.theory.regret.claims import slope_of
from bot_orch.lab.paper.theory.regret.curves import bandit_bound, bound, curve

__all__ = ["draw_regret"]

_LOOKS = {
    "constant": ("#1a4fa0", "-", "o"),
    "printed": ("#c62828", "--", "s"),
    "lazy": ("#00838f", "-.", "D"),
    "importance-weighted": ("#8e24aa", "-.", "v"),
    "unweighted": ("#c62828", "--", "s"),
    "bot-orch": ("#00796b", (0, (5, 1)), "P"),
}


def draw_regret(results: Results) -> Any:
    """Static regret under full information, the per-round comparator, and the bandit versions."""
    figure, axes = panels(3, 12, 3.4)
    _static(axes[0], results)
    _per_round(axes[1], results)
    _bandits(axes[2], results)
    for axis in axes:
        log_axes(axis)
        axis.set_xlabel("rounds T")
        axis.set_ylim(top=axis.get_ylim()[1] * 40.0)  # room for the legend
        axis.legend(fontsize=7, loc="upper left")
    axes[0].set_ylabel("regret")
    return figure


def _static(axis: Any, results: Results) -> None:
    _line(axis, results, "coins", method="constant", label="coins, constant eta", metric="static")
    _line(axis, results, "coins", method="lazy", label="coins, eta_t, summed utilities", metric="static")
    _line(axis, results, "switch", method="printed", label="one switch, eta_t as printed", metric="static")
    _ceiling(axis, results, "coins", ceiling=bound, label="bound (b-a) sqrt(T ln M / 2)")
    axis.set_title("To the best fixed agent, full information")


def _per_round(axis: Any, results: Results) -> None:
    _line(axis, results, "alternating", method="printed", label="to the best of every round")
    _line(axis, results, "alternating", method="constant", label="to the best fixed agent", metric="static")
    _line(axis, results, "alternating", method="bot-orch", label="Algorithm 1, best of every round")
    _ceiling(axis, results, "alternating", ceiling=bound, label="bound (b-a) sqrt(T ln M / 2)")
    axis.set_title("The task decides who fits")


def _bandits(axis: Any, results: Results) -> None:
    _line(axis, results, "gaps", method="constant", label="full information")
    _line(axis, results, "gaps", method="importance-weighted", label="bandit, importance weights")
    _line(axis, results, "gaps", method="unweighted", label="bandit, no weights")
    _line(axis, results, "gaps", method="bot-orch", label="Algorithm 1")
    _ceiling(axis, results, "gaps", ceiling=bandit_bound, label="bound (b-a) sqrt(2 T M ln M)")
    axis.set_title("One agent is better: bandit feedback")


def _line(axis: Any, results: Results, case: str, *, method: str, label: str, metric: str = "per_round") -> None:
    horizons, values = curve(results, case, method, metric=metric)
    mean = np.array([np.mean(v) for v in values])
    error = np.array([np.std(v) / np.sqrt(len(v)) for v in values])
    color, line, marker = _LOOKS[method]
    axis.errorbar(
        horizons,
        mean,
        yerr=2.0 * error,
        color=color,
        linestyle=line,
        marker=marker,
        markersize=4,
        capsize=2,
        label=f"{label}: slope {slope_of(results, case, method, metric=metric)}",
    )


def _ceiling(axis: Any, results: Results, case: str, *, ceiling: Any, label: str) -> None:
    horizons, c = curve(results, case, "constant")[0], CASES[case]
    axis.plot(horizons, [ceiling(h, c.agents, c.width) for h in horizons], color="black", linestyle=":", label=label)
