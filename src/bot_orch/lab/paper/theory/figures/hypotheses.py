"""Figures of the hypotheses and of preference by policies."""

from __future__ import annotations

from typing import Any

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.paper.theory.axes import log_axes, panels
from bot_orch.lab.paper.theory.hypotheses import EXPONENTS, RATES
from bot_orch.lab.paper.theory.preference import GAPS, POLICIES

__all__ = ["draw_hypotheses", "draw_preference"]

_COLORS = ("#00796b", "#c62828", "#1a4fa0", "#ef6c00")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.")


def draw_hypotheses(results: Results) -> Any:
    """Distance from the uniform policy in triage; sums of squared steps."""
    figure, axes = panels(2, 9.0, 3.0)
    for name, color, line in zip(RATES, _COLORS, _LINES, strict=False):
        axes[0].plot(results["rate/iid"]["paths"][name], color=color, linestyle=line, label=name)
    axes[0].set_xlabel("round (triage, i.i.d.)")
    axes[0].set_ylabel("mean |propensity - 1/2|")
    axes[0].legend()
    steps = results["steps"]
    for a, color, line in zip(EXPONENTS, _COLORS, _LINES, strict=True):
        axes[1].plot(
            steps["horizons"], steps["exponents"][f"{a:g}"]["squares"], color=color, linestyle=line, label=f"t^-{a:g}"
        )
    log_axes(axes[1], y=False)
    axes[1].set_xlabel("rounds")
    axes[1].set_ylabel("sum of squared steps")
    axes[1].legend()
    return figure


def draw_preference(results: Results) -> Any:
    """Mean probability of the better aligned agent over time."""
    figure, axes = panels(len(GAPS), 9.0, 3.0, sharey=True)
    for axis, gap in zip(axes, GAPS, strict=True):
        for name, color, line in zip(POLICIES, _COLORS, _LINES, strict=True):
            axis.plot(results[f"{name}/{gap:g}"]["path"], color=color, linestyle=line, linewidth=1.2, label=name)
        axis.axhline(0.5, color="black", linewidth=0.8)
        axis.set_xlabel("round")
        axis.set_title(f"better aligned by {gap:g}")
    axes[0].set_ylabel("mean probability of the better aligned agent")
    axes[0].legend()
    return figure
