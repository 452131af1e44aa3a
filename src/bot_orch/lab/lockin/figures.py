"""The figure of the lock-in experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.harness.figures import new_figure

__all__ = ["draw_lockin"]

#: One colour and hatch per kind of distance.
_COLORS = ("#00796b", "#c62828", "#1a4fa0")
_HATCHES = ("", "///", "...")
_BAR = {"edgecolor": "black", "linewidth": 0.6, "capsize": 2}


def draw_lockin(results: Results, lambdas: tuple[float, ...], kinds: tuple[str, ...]) -> Any:
    """Largest share among six identical agents, and the share of an agent that is truly worse."""
    figure, axes = new_figure(1, 2, 10, 3.8)
    parts = {"identical": "largest share, six identical agents", "worse": "share of the one agent that is worse"}
    for axis, (part, title) in zip(axes[0], parts.items(), strict=True):
        for k, kind in enumerate(kinds):
            values = np.array([results[f"{part}/{kind}/{v:g}"]["share"] for v in lambdas])
            mean, ends = values.mean(axis=1), np.quantile(values, [0.1, 0.9], axis=1)
            reach = np.maximum([mean - ends[0], ends[1] - mean], 0.0)
            x, look = np.arange(len(lambdas)) + 0.25 * (k - 1), {"color": _COLORS[k], "hatch": _HATCHES[k]}
            axis.bar(x, mean, 0.23, yerr=reach, label=kind.replace("_", "-"), **look, **_BAR)
        axis.axhline(1 / 6, color="black", linestyle=":", linewidth=1)
        axis.set_xticks(np.arange(len(lambdas)), [f"{v:g}" for v in lambdas])
        axis.set_xlabel("lambda")
        axis.set_title(title)
        axis.set_ylim(0, 1.05)
    axes[0, 0].set_ylabel("share of rounds (dotted: 1/6)")
    axes[0, 1].legend(title="distance", loc="upper left")
    return figure
