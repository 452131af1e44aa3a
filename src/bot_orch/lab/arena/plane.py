"""The plane of cost and quality: every policy and agent, and the hull of fixed mixes of agents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bot_orch.lab.arena.league import Results, mean_std
from bot_orch.lab.harness.budget_figure import plot_hull
from bot_orch.lab.harness.figures import new_figure

__all__ = ["draw_plane", "has_plane", "plane_points"]

_COLORS = ("#00796b", "#c62828", "#1a4fa0", "#8e24aa", "#ef6c00", "#5d4037", "#f9a825", "#689f38")
_MARKERS = "osD^vP*X"
_HIDDEN = ("hull",)  # drawn as a line
_LABELLED = 16  # agents; more would hide each other


def has_plane(results: Results, dataset: str, order: str) -> bool:
    """Whether the costs of the set are known."""
    return "fixed" in results.get((dataset, order, "random"), {})


def plane_points(results: Results, dataset: str, order: str) -> dict[str, tuple[float, float]]:
    """(dollars, reward) per task of every policy and baseline."""
    found = {}
    for (name, turn, policy), payload in results.items():
        cost, reward = (mean_std(payload["metrics"].get(metric, []))[0] for metric in ("cost_usd", "reward"))
        if (name, turn) == (dataset, order) and math.isfinite(cost) and policy not in _HIDDEN:
            found[policy] = (cost, reward)
    return found


def draw_plane(results: Results, dataset: str, order: str) -> Any:
    """Reward against dollars; a policy above the line earns more than any fixed mix of agents at its cost."""
    fixed = results[dataset, order, "random"]["fixed"]
    agents: Mapping[str, tuple[float, float]] = dict(zip(fixed["names"], fixed["agents"], strict=True))
    points = plane_points(results, dataset, order)
    figure, axes = new_figure(1, 1, 9.0, 4.8)
    axis = axes[0, 0]
    plot_hull(axis, [(cost, reward) for cost, reward in fixed["hull"]])
    axis.plot(*zip(*agents.values(), strict=True), ".", color="#78909c", markersize=8, label="single agents")
    named = sorted(agents.items(), key=lambda each: each[1]) if len(agents) <= _LABELLED else []
    for index, (name, (cost, reward)) in enumerate(named):  # neighbours above and below their points
        place = (4, -9) if index % 2 else (4, 4)
        axis.annotate(
            name.rpartition("/")[2][:24],
            (cost, reward),
            place,
            textcoords="offset points",
            fontsize=7,
            color="#455a64",
            parse_math=False,
        )
    budget = results.get((dataset, order, "hull"), {}).get("budget_usd")
    if budget is not None:
        axis.axvline(budget, color="#9e9e9e", linestyle=":", label="budget")
    for index, (name, (cost, reward)) in enumerate(points.items()):
        baseline = results[dataset, order, name]["kind"] == "baseline"
        style: dict[str, Any] = {"color": _COLORS[index % len(_COLORS)], "marker": _MARKERS[index % len(_MARKERS)]}
        if baseline:
            style["color"] = "white"
        label = f"{name} ({results[dataset, order, name]['agent']})" if name == "now" else name
        axis.plot([cost], [reward], linestyle="", label=label, markeredgecolor="black", markersize=7, **style)
    costs = [cost for cost, _ in [*agents.values(), *points.values()]]
    if min(costs) > 0.0 and max(costs) > 10.0 * min(costs):
        axis.set_xscale("log")
    axis.set_xlabel("dollars per task")
    axis.set_ylabel("mean reward")
    for text in figure.legend(loc="outside right center", fontsize=7).get_texts():
        text.set_parse_math(False)
    return figure
