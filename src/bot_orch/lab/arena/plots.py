"""Figures of the arena: league, learning curves, shares of agents, and the plane of cost and quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bot_orch.lab.arena.league import Results, Standing, mean_std
from bot_orch.lab.harness.figures import new_figure, plot_hull

_COLORS = (
    *("#00796b", "#c62828", "#1a4fa0", "#8e24aa", "#ef6c00", "#5d4037", "#f9a825", "#689f38"),
    *("#ad1457", "#283593", "#9e9d24", "#4e342e", "#0277bd", "#d84315", "#6a1b9a", "#00838f"),
)
_LINES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)))
_YARD = {"best-single": "#000000", "random": "#9e9e9e", "oracle": "#000000"}
_LEADERS = 8
_TITLE = 40  # characters over a panel


def look(policy: str, policies: Sequence[str]) -> dict[str, Any]:
    """Colour and line style of a policy; both change between neighbours, so either distinguishes them."""
    if policy in _YARD:
        return {"color": _YARD[policy], "linestyle": ":", "linewidth": 1.2}
    index = list(policies).index(policy)
    return {"color": _COLORS[index % len(_COLORS)], "linestyle": _LINES[index % len(_LINES)], "linewidth": 1.5}


def draw_league(standings: Sequence[Standing], kinds: dict[str, str], order: str) -> Any:
    """Mean ``normalised`` per policy; peers are hatched."""
    figure, axes = new_figure(1, 1, 8, 0.6 + 0.28 * len(standings))
    axis = axes[0, 0]
    y = np.arange(len(standings))[::-1]
    peer = [kinds[s.policy] == "peer" for s in standings]
    paint = {"color": ["#cfd8dc" if p else "#00796b" for p in peer], "edgecolor": "black", "linewidth": 0.6}
    errors = [s.error for s in standings]
    bars = axis.barh(y, [s.mean for s in standings], 0.7, xerr=errors, capsize=2, **paint)
    for bar, is_peer in zip(bars, peer, strict=True):
        bar.set_hatch("///" if is_peer else "")
    axis.set_yticks(y, [s.policy for s in standings])
    axis.axvline(1.0, color="black", linestyle=":", linewidth=1.2)
    axis.set_xlabel(f"normalised reward, mean over data sets, {order} order (0 random, 1 best single agent)")
    axis.grid(visible=False, axis="y")
    return figure


def draw_curves(results: Results, standings: Sequence[Standing], order: str) -> Any:
    """Cumulative normalised reward of the league's leaders against rounds, one panel per data set."""
    datasets = list(dict.fromkeys(key[0] for key in results if key[1] == order))
    leaders = [s.policy for s in standings[:_LEADERS]]
    names = sorted({key[2] for key in results})  # the same look in either order of tasks
    columns = min(3, len(datasets))
    rows = math.ceil(len(datasets) / columns)
    figure, axes = new_figure(rows, columns, 3.7 * columns, 2.5 * rows + 0.7)
    for axis in axes.flat[len(datasets) :]:
        axis.set_visible(False)
    for axis, dataset in zip(axes.flat, datasets, strict=False):
        for policy in leaders:
            if (dataset, order, policy) in results:
                curve = results[dataset, order, policy]["curve"]
                axis.plot(curve["round"], np.array(curve["mean"], float), label=policy, **look(policy, names))
        _yard_lines(axis, results, dataset, order=order)
        axis.set_title(dataset if len(dataset) <= _TITLE else f"{dataset[: _TITLE - 3]}...", parse_math=False)
        axis.set_xlabel("round")
    for row in axes:
        row[0].set_ylabel("normalised so far")
    shown = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=max(1, min(5, 2 * columns, len(shown)))
    )
    return figure


def _yard_lines(axis: Any, results: Results, dataset: str, *, order: str) -> None:
    for name in ("best-single", "random"):
        level = mean_std(results[dataset, order, name]["metrics"].get("normalised", [math.nan]))[0]
        if math.isfinite(level):
            axis.axhline(level, label=name, **look(name, []))
        elif name == "random":
            axis.text(0.5, 0.5, "best single = random", transform=axis.transAxes, ha="center")
    settled = np.concatenate([np.asarray(line.get_ydata(), float)[-50:] for line in axis.get_lines()])
    settled = settled[np.isfinite(settled)]  # the first rounds are noise and may leave the frame
    if settled.size:
        ends = np.array([line.get_ydata()[-1] for line in axis.get_lines()], dtype=float)  # these may not
        low, high = min(-1.0, np.nanmin(ends) - 0.05), max(4.0, np.nanmax(ends) + 0.05)
        axis.set_ylim(max(low, min(-0.1, settled.min() - 0.05)), min(high, max(1.1, settled.max() + 0.05)))


def draw_set(results: Results, dataset: str, order: str) -> Any:
    """One data set: normalised reward per policy and seed, and the shares of its three most chosen agents."""
    policies = [key[2] for key in results if key[:2] == (dataset, order)]
    shown = sorted(policies, key=lambda p: -_level(results, dataset, order, policy=p))
    figure, axes = new_figure(1, 2, 10, 0.9 + 0.24 * len(shown), width_ratios=[1.3, 1.0])
    y = np.arange(len(shown))[::-1]
    left, right = axes[0]
    for position, policy in zip(y, shown, strict=True):
        payload = results[dataset, order, policy]
        values = np.array(payload["metrics"].get("normalised", [math.nan]), dtype=float)
        left.plot(values, np.full(len(values), position), ".", color="#90a4ae", markersize=4)
        marker = "D" if payload["kind"] == "baseline" else "s" if payload["kind"] == "peer" else "o"
        left.plot(values.mean(), position, marker, color="#00796b", markersize=6, markeredgecolor="black")
        _share_bar(right, payload, position)
    left.axvline(1.0, color="black", linestyle=":", linewidth=1.2)
    left.axvline(0.0, color="#9e9e9e", linestyle=":", linewidth=1.2)
    left.set_yticks(y, shown)
    left.set_xlabel("normalised reward (dots: seeds; o ours, square peer, diamond baseline)")
    right.set_yticks(y, [""] * len(shown))
    right.set(xlim=(0, 1), xlabel="share of tasks: favourite, second, third agent")
    for axis in (left, right):
        axis.grid(visible=False, axis="y")
        axis.set_ylim(-0.7, len(shown) - 0.3)
    return figure


def _share_bar(axis: Any, payload: dict[str, Any], position: float) -> None:
    share = {agent: float(np.mean(values)) for agent, values in payload["shares"].items()}
    left = 0.0
    for index, (agent, value) in enumerate(sorted(share.items(), key=lambda item: -item[1])[:3]):
        color = ("#00796b", "#80cbc4", "#e0f2f1")[index]
        axis.barh(position, value, 0.72, left=left, color=color, edgecolor="black", linewidth=0.5)
        if value > 0.04 + 0.017 * len(agent[:18]):
            ink = "white" if index == 0 else "black"
            axis.text(left + 0.01, position, agent[:18], va="center", fontsize=6.5, color=ink, parse_math=False)
        left += value


def _level(results: Results, dataset: str, order: str, *, policy: str) -> float:
    mean = mean_std(results[dataset, order, policy]["metrics"].get("normalised", [math.nan]))[0]
    return mean if math.isfinite(mean) else -math.inf


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
        ink = {"fontsize": 7, "color": "#455a64", "parse_math": False}
        axis.annotate(name.rpartition("/")[2][:24], (cost, reward), place, textcoords="offset points", **ink)
    budget = results.get((dataset, order, "hull"), {}).get("budget_usd")
    if budget is not None:
        axis.axvline(budget, color="#9e9e9e", linestyle=":", label="budget")
    for index, (name, (cost, reward)) in enumerate(points.items()):
        baseline = results[dataset, order, name]["kind"] == "baseline"
        color = "white" if baseline else _COLORS[index % len(_COLORS)]
        style = {"color": color, "marker": _MARKERS[index % len(_MARKERS)], "markersize": 7}
        label = f"{name} ({results[dataset, order, name]['agent']})" if name == "now" else name
        axis.plot([cost], [reward], linestyle="", label=label, markeredgecolor="black", **style)
    costs = [cost for cost, _ in [*agents.values(), *points.values()]]
    if min(costs) > 0.0 and max(costs) > 10.0 * min(costs):
        axis.set_xscale("log")
    axis.set(xlabel="dollars per task", ylabel="mean reward")
    for text in figure.legend(loc="outside right center", fontsize=7).get_texts():
        text.set_parse_math(False)
    return figure
