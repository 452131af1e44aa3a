"""Figures of a router's recent rounds; matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.checks import check_count
from bot_orch.display import optional
from bot_orch.errors import InvalidInputError
from bot_orch.types import Decision, Outcome, RewardRange

Kind = Literal["shares", "rewards", "distances"]
Rounds = list[tuple[Decision, Outcome | None]]

_TITLES = {
    "shares": ("share of decisions", (0.0, 1.02)),
    "rewards": ("mean reward", (0.0, 1.02)),
    "distances": ("distance W to the reference", (0.0, None)),
}


def plot(rounds: Rounds, kind: Kind, *, window: int | None = None, rewards: RewardRange | None = None) -> Any:
    """A ``matplotlib`` figure: moving averages per agent over the rounds, of rewards over the agent's own.

    Parameters
    ----------
    rounds
        Decisions with their outcomes, oldest first.
    kind
        ``shares`` of the decisions, ``rewards`` observed, or ``distances`` to the reference.
    window
        Rounds per average; by default a tenth of the rounds, at least 10.
    rewards
        The range of the rewards, [0, 1] unless given.
    """
    if not isinstance(kind, str) or kind not in _TITLES:
        raise InvalidInputError("kind", f"is {kind!r}", f"choose one of {', '.join(_TITLES)}")
    if window is not None:
        check_count("window", window, "pass a number of rounds, 1 or more", low=1)
    width = window or max(10, len(rounds) // 10)
    figure = optional("matplotlib.figure", "a figure").Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    agents = list(dict.fromkeys(name for decision, _ in rounds for name in decision.agents))
    for name in agents:
        values = _values(rounds, name, kind)
        line = mean_of_last(values, width) if kind == "rewards" else moving_mean(values, width)
        axes.plot(np.arange(1, len(line) + 1), line, label=name, linewidth=1.5)
    title, limits = _TITLES[kind]
    if kind == "rewards" and rewards is not None:
        limits = rewards.low, rewards.natural(1.02)
    axes.set(xlabel="round", ylabel=title, ylim=limits, xlim=(1, max(2, len(rounds))))
    over = "rewards" if kind == "rewards" else "rounds"
    axes.set_title(f"{title}, moving average over {width} {over}", loc="left", fontsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if agents:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def moving_mean(values: Floats, width: int) -> Floats:
    """Mean of the values that are not NaN among the last ``width``, at every position; NaN without any.

    Examples
    --------
    >>> moving_mean(np.array([np.nan, 1.0, np.nan, 0.0, 0.0]), 2)
    array([nan, 1., 1., 0., 0.])
    """
    known = np.isfinite(values)
    total = _windowed(np.where(known, values, 0.0), width)
    count = _windowed(known.astype(float), width)
    return np.where(count > 0.0, total / np.maximum(count, 1.0), np.nan)


def mean_of_last(values: Floats, width: int) -> Floats:
    """Mean of the last ``width`` values that are not NaN, at every position; NaN before the first one.

    Examples
    --------
    >>> mean_of_last(np.array([np.nan, 1.0, np.nan, 0.0, 0.0]), 2)
    array([nan, 1. , 1. , 0.5, 0. ])
    """
    known = np.isfinite(values)
    means = np.concatenate([[np.nan], moving_mean(values[known], width)])
    return np.asarray(means[np.cumsum(known)])


def _windowed(values: Floats, width: int) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(values)])
    start = np.maximum(np.arange(1, len(total)) - width, 0)
    return np.asarray(total[1:] - total[start])


def _values(rounds: Rounds, agent: str, kind: Kind) -> Floats:
    return np.array([_value(decision, outcome, agent, kind=kind) for decision, outcome in rounds], dtype=float)


def _value(decision: Decision, outcome: Outcome | None, agent: str, *, kind: Kind) -> float:
    """The value of one round for one agent; NaN where missing."""
    if agent not in decision.agents:
        return np.nan
    if kind == "shares":
        return float(decision.agent == agent)
    if kind == "distances":
        return float(decision.terms.distance[decision.agents.index(agent)])
    if decision.agent != agent or outcome is None or outcome.reward is None:
        return np.nan
    return float(outcome.reward)
