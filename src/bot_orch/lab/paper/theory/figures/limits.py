"""Figures of item 4, item 5 and the constant temperature."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.paper.theory.axes import log_axes, panels
from bot_orch.lab.paper.theory.consistency import MEANS, ema_spread, history_factor
from bot_orch.lab.paper.theory.temperature import POLICIES

__all__ = ["draw_consistency", "draw_convergence", "draw_temperature"]

_LOOKS = [
    ("#c62828", "--", "s"),
    ("#5d4037", (0, (8, 2)), "X"),
    ("#00796b", "-", "o"),
    ("#8e24aa", (0, (5, 1)), "v"),
    ("#ef6c00", (0, (3, 1, 1, 1)), "P"),
    ("#00838f", (0, (2, 2)), "<"),
    ("#1a4fa0", "-.", "D"),
]


def draw_convergence(results: Results) -> Any:
    """Distance of every recursion to each of the three candidate limits."""
    figure, axes = panels(3, 11.5, 3.1, sharey=True)
    titles = {
        "realised": "Softmax of realised utilities",
        "conditional": "Softmax of means given the task",
        "running mean": "Softmax of running means",
    }
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        payload = results[kind]
        mean = np.array(payload["phi"]).mean(axis=1)
        for (name, limit), (color, line, marker) in zip(payload["limits"].items(), _LOOKS, strict=False):
            away = np.abs(mean - np.array(limit)).max(axis=1)
            axis.plot(payload["horizons"], away, color=color, linestyle=line, marker=marker, markersize=4, label=name)
        log_axes(axis)
        axis.set_xlabel("rounds")
        axis.set_title(title)
    axes[0].set_ylabel("largest distance of the mean phi to ...")
    axes[0].legend(loc="lower left")
    return figure


def draw_consistency(results: Results) -> Any:
    """Errors over time, one path of every estimate, and the bias under bandit feedback."""
    figure, axes = panels(3, 12.4, 3.2, gap_in=0.8)
    _errors(axes[0], results)
    _paths(axes[1], results)
    _bias(axes[2], results)
    return figure


def draw_temperature(results: Results) -> Any:
    """Regret against rounds, log-log."""
    figure, axes = panels(1, 7.0, 3.4)
    axis = axes[0]
    for name, (color, line, marker) in zip(POLICIES, _LOOKS, strict=True):
        p = results[name]
        mean = np.array([np.mean(v) for v in p["regret"]])
        axis.plot(p["horizons"], mean, color=color, linestyle=line, marker=marker, markersize=4, label=name)
    axis.axvline(200, color="black", linestyle=":", linewidth=0.9)
    log_axes(axis)
    axis.set_xlabel("rounds (dotted: the paper's 200)")
    axis.set_ylabel("regret")
    axis.legend()
    return figure


def _errors(axis: Any, results: Results) -> None:
    iid, history = results["iid"], results["history"]
    lines = [
        (iid, "ema_error", "moving average (Algorithm 1)"),
        (iid, "alg2_error", "with history term (Algorithm 2)"),
        (iid, "mean_error", "empirical mean"),
        (history, "tracking_error", "mean, history-dependent rewards"),
    ]
    for (payload, field, label), (color, line, marker) in zip(lines, _LOOKS, strict=False):
        y = [np.mean(v) for v in payload[field]]
        axis.plot(payload["horizons"], y, color=color, linestyle=line, marker=marker, markersize=4, label=label)
    t = np.array(iid["horizons"], dtype=float)
    axis.plot(t, 0.9 / np.sqrt(t), color="black", linestyle=":", label="t^-1/2")
    log_axes(axis)
    axis.set_xlabel("rounds")
    axis.set_ylabel("largest error over agents")
    axis.set_title("Full information")
    axis.legend(fontsize=7)


def _paths(axis: Any, results: Results) -> None:
    truth, spread = float(MEANS[-1]), ema_spread(float(MEANS[-1]))
    labels = ("empirical mean", "Algorithm 1", "Algorithm 2")
    looks = (("black", "-", 1.6), ("#1a4fa0", "-", 0.8), ("#c62828", "--", 0.9))
    for path, label, (color, line, width) in zip(results["iid"]["example"], labels, looks, strict=True):
        axis.plot(5 * np.arange(len(path)) + 1, path, color=color, linestyle=line, linewidth=width, label=label)
    axis.axhspan(truth - spread, truth + spread, color="#1a4fa0", alpha=0.15, linewidth=0)
    axis.axhline(truth * history_factor(), color="#c62828", linestyle=":", linewidth=1)
    axis.set_ylim(0.0, 1.4)
    axis.set_xlabel("rounds")
    axis.set_title(f"One agent, true mean {truth:g}")
    axis.legend(fontsize=7, loc="lower right")


def _bias(axis: Any, results: Results) -> None:
    looks = iter(_LOOKS)
    for kind in ("ucb1", "greedy"):
        payload = results[f"bandit/{kind}"]
        bias = np.array(payload["bias"])
        for i in (0, len(MEANS) - 1):
            color, line, marker = next(looks)
            label = f"{kind}, agent with mean {MEANS[i]:g}"
            axis.plot(
                payload["horizons"],
                bias[:, i, 0],
                color=color,
                linestyle=line,
                marker=marker,
                markersize=4,
                label=label,
            )
    axis.axhline(0.0, color="black", linewidth=0.8)
    log_axes(axis, y=False)
    axis.set_xlabel("rounds")
    axis.set_ylabel("mean of the chosen - true mean")
    axis.set_title("Bandit feedback: bias")
    axis.legend(fontsize=7)
