"""The five triage figures of the paper, for either protocol, with the paper's points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bot_orch.lab.harness.experiment import Results
from bot_orch.lab.harness.figures import band, new_figure, paper_points, style
from bot_orch.lab.harness.tables import published
from bot_orch.lab.paper.triage.play import CONDITIONS, LAMBDA, LAMBDAS, PAPER_METHODS, WINDOW

_PATIENTS = 114


def printed_point(condition: str, metric: str, lambda_: float, *, protocol: str = "paper") -> float:
    """The paper's value of a metric of BOT-Orch at one lambda; NaN if it prints none.

    Under ``deployable`` net utility and regret are scored with the common lambda, and so are the paper's here.
    """
    if metric == "alignment_cost":
        return _cost(condition, lambda_)
    if metric.startswith("escalation"):
        return _main(condition, metric, lambda_)
    if protocol == "deployable" and metric != "team_accuracy":
        net = _reward(condition, lambda_) - LAMBDA * _cost(condition, lambda_)
        best = _table(condition, "net_utility", LAMBDA) + _table(condition, "oracle_regret", LAMBDA)
        return net if metric == "net_utility" else best - net
    return _table(condition, metric, lambda_)


def _cost(condition: str, lambda_: float) -> float:
    if lambda_ == 0.0:
        return _main(condition, "alignment_cost", 0.0)
    return (_reward(condition, lambda_) - _table(condition, "net_utility", lambda_)) / lambda_


def _reward(condition: str, lambda_: float) -> float:
    return _PATIENTS * _table(condition, "team_accuracy", lambda_)


def _table(condition: str, metric: str, lambda_: float) -> float:
    return _value("triage-lambda", condition, "bot-orch", lambda_=lambda_, metric=metric)


def _main(condition: str, metric: str, lambda_: float) -> float:
    """The main tables: BOT-Orch at lambda = 3, and No-OT, which is lambda = 0."""
    name = "no-ot" if lambda_ == 0.0 else "bot-orch"
    return _value("triage", condition, name, lambda_=lambda_, metric=metric)


def _value(experiment: str, condition: str, method: str, *, lambda_: float, metric: str) -> float:
    found = published(experiment, f"triage-{condition}", method, lambda_=lambda_, metric=metric)
    return math.nan if found is None else found.mean


_NAMES = {"iid": "IID", "noniid": "Non-IID"}
_SHIFT_ROUND = 57.5


def draw_learning_curves(results: Results, protocol: str) -> Any:
    """Net utility (top), regret (bottom) and rolling escalation (right)."""
    figure, axes = new_figure(2, 3, 11, 4.5)
    for row, curve in enumerate(("net_utility", "oracle_regret")):
        for column, condition in enumerate(CONDITIONS):
            axis = axes[row, column]
            _lines(axis, results, protocol, condition=condition, curve=curve)
            axis.set_title(f"{_NAMES[condition]}: cumulative {curve.replace('_', ' ')}")
    for row, condition in enumerate(CONDITIONS):
        axis = axes[row, 2]
        _lines(axis, results, protocol, condition=condition, curve="escalation")
        axis.set(title=f"{_NAMES[condition]}: escalation, window {WINDOW}", ylim=(-0.03, 1.03))
    axes[0, 0].legend()
    return figure


def draw_escalation(results: Results, protocol: str) -> Any:
    """Escalation of in-distribution and shifted patients, per method."""
    figure, axes = new_figure(1, 2, 9, 3.6, sharey=True)
    groups = (("escalation_rate_in_distribution", "#90b4d9", ""), ("escalation_rate_shifted", "#c0504d", "///"))
    for axis, condition in zip(axes[0], CONDITIONS, strict=True):
        for offset, (metric, color, hatch) in enumerate(groups):
            values = [results[f"{protocol}/{condition}/{name}"]["metrics"][metric] for name in PAPER_METHODS]
            x = np.arange(len(PAPER_METHODS)) + 0.38 * (offset - 0.5)
            mean, spread = np.mean(values, axis=1), np.std(values, axis=1)
            label = metric.removeprefix("escalation_rate_").replace("_", " ")
            axis.bar(x, mean, 0.36, yerr=spread, color=color, hatch=hatch, edgecolor="black", label=label, capsize=2)
        axis.set_xticks(np.arange(len(PAPER_METHODS)), PAPER_METHODS)
        axis.set(title=_NAMES[condition], ylim=(0, 1.1))
    axes[0, 0].set_ylabel("share routed to the human")
    axes[0, 0].legend(loc="upper left")
    return figure


def draw_trajectories(results: Results, protocol: str) -> Any:
    """Rolling share routed to the human over the non-IID episode, one panel per method."""
    figure, axes = new_figure(2, 2, 9, 5, sharex=True, sharey=True)
    for axis, name in zip(axes.flat, ("bot-orch", "no-ot", "random", "ucb1"), strict=True):
        curve = results[f"{protocol}/noniid/{name}"]["curves"]["escalation"]
        mean, spread = np.array(curve["mean"]), np.array(curve["std"])
        band(axis, np.arange(1, len(mean) + 1), mean, spread=spread, method=name)
        axis.axvline(_SHIFT_ROUND, color="black", linestyle=":", linewidth=1)
        axis.set(title=name, ylim=(-0.03, 1.03))
    for axis in axes[1]:
        axis.set_xlabel("round (dotted: shift begins)")
    return figure


def draw_lambda_curves(results: Results, protocol: str) -> Any:
    """Net utility, regret and accuracy against lambda, with the baselines as horizontal lines."""
    figure, axes = new_figure(2, 3, 11, 4.5)
    x = np.arange(len(LAMBDAS))
    for row, condition in enumerate(CONDITIONS):
        for column, metric in enumerate(("net_utility", "oracle_regret", "team_accuracy")):
            axis = axes[row, column]
            values = np.array([_lambda(results, protocol, condition, value=value, metric=metric) for value in LAMBDAS])
            band(axis, x, values.mean(axis=1), spread=values.std(axis=1), method="bot-orch", every=len(x))
            _baselines(axis, results, protocol, condition=condition, metric=metric)
            paper_points(axis, x, [printed_point(condition, metric, value, protocol=protocol) for value in LAMBDAS])
            _lambda_axis(axis, x)
            axis.set_title(f"{_NAMES[condition]}: {metric.replace('_', ' ')}")
    axes[0, 1].legend(loc="center right")
    return figure


def draw_lambda_escalation(results: Results, protocol: str) -> Any:
    """Escalation of shifted patients (left axis) and alignment cost (right axis) against lambda."""
    figure, axes = new_figure(1, 2, 10, 3.8)
    x = np.arange(len(LAMBDAS))
    for axis, condition in zip(axes[0], CONDITIONS, strict=True):
        metric = "escalation_rate_shifted"
        escalation = [np.mean(_lambda(results, protocol, condition, value=value, metric=metric)) for value in LAMBDAS]
        cost = [
            np.mean(_lambda(results, protocol, condition, value=value, metric="alignment_cost")) for value in LAMBDAS
        ]
        line = axis.plot(x, escalation, color="#c62828", marker="s", label="escalation of shifted patients (left)")
        _baselines(axis, results, protocol, condition=condition, metric=metric)
        axis.set_ylim(0, 1)
        other = axis.twinx()
        line += other.plot(x, cost, color="#00796b", marker="o", linestyle="--", label="alignment cost (right)")
        marks = paper_points(axis, x, [printed_point(condition, metric, v) for v in LAMBDAS], color="#c62828")
        costs = [printed_point(condition, "alignment_cost", v) for v in LAMBDAS]
        marks += paper_points(other, x, costs, color="#00796b", label="paper, alignment cost")
        marks[0].set_label("paper, escalation")
        other.set_ylim(0, None)
        other.grid(visible=False)
        _lambda_axis(axis, x)
        axis.set_title(_NAMES[condition])
        handles = line + marks
        handles += [h for h in axis.get_lines() if h not in handles and not h.get_label().startswith("_")]
        axis.legend(handles=handles, loc="upper right", fontsize=7)
    return figure


def _lines(axis: Any, results: Results, protocol: str, *, condition: str, curve: str) -> None:
    for name in PAPER_METHODS:
        values = results[f"{protocol}/{condition}/{name}"]["curves"][curve]
        mean, spread = np.array(values["mean"]), np.array(values["std"])
        band(axis, np.arange(1, len(mean) + 1), mean, spread=spread, method=name)
    if condition == "noniid":
        axis.axvline(_SHIFT_ROUND, color="black", linestyle=":", linewidth=1)
    axis.set_xlabel("round")


def _lambda(results: Results, protocol: str, condition: str, *, value: float, metric: str) -> list[float]:
    values: list[float] = results[f"{protocol}/{condition}/bot-orch/{value:g}"]["metrics"][metric]
    return values


def _baselines(axis: Any, results: Results, protocol: str, *, condition: str, metric: str) -> None:
    for name in PAPER_METHODS[1:]:
        level = float(np.mean(results[f"{protocol}/{condition}/{name}"]["metrics"][metric]))
        look = style(name)
        axis.axhline(level, color=look["color"], linestyle=look["linestyle"], linewidth=1.3, label=name)


def _lambda_axis(axis: Any, x: Any) -> None:
    axis.set_xticks(x, [f"{value:g}" for value in LAMBDAS])
    axis.set_xlabel("lambda")
    axis.axvline(LAMBDAS.index(2.0), color="black", linestyle=":", linewidth=0.8)
