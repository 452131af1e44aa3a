"""Interpretation of the paper's plus-minus values, without a model of the environment."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from bot_orch.lab.paper.statements.evidence import Evidence, Judgement, judged


class RateTable(NamedTuple):
    """A rate of a table: its experiment, method and metric, over how many choices and how many seeds."""

    name: str
    experiment: str
    methods: tuple[str, ...]
    metric: str
    choices: int
    seeds: int


#: A rate over n independent choices has standard deviation sqrt(p (1 - p) / n) over seeds, whatever was chosen from.
RATES = (
    RateTable("triage", "triage", ("random",), "escalation_rate", 114, 30),
    RateTable("synthetic tables", "synthetic", ("random", "no-ot", "ucb1", "bot-orch"), "event_rate", 200, 5),
    RateTable("synthetic ablation", "synthetic-lambda", ("random",), "best_agent_rate", 114, 30),
)


def is_interval(ratio: float, seeds: int) -> bool:
    """Whether the ratio of a printed spread to the standard deviation is nearer to t_0.975 / sqrt(n) than to one.

    Examples
    --------
    >>> is_interval(0.98, 30), is_interval(0.35, 30)
    (False, True)
    """
    factor = float(stdtrit(seeds - 1, 0.975)) / math.sqrt(seeds)
    return abs(math.log(ratio / factor)) < abs(math.log(ratio))


def intervals(e: Evidence) -> Judgement:
    """Whether each group of tables prints 95 % intervals of the mean."""
    said, parts = [], []
    for rate in RATES:
        found = [
            cell
            for (experiment, _, method, _, metric), cell in e.cells.items()
            if (experiment, metric) == (rate.experiment, rate.metric) and method in rate.methods
        ]
        if not found:
            raise LookupError(rate.experiment)
        law = float(np.mean([math.sqrt(cell.mean * (1.0 - cell.mean) / rate.choices) for cell in found]))
        ratio = float(np.mean([cell.shown for cell in found])) / law
        parts.append(is_interval(ratio, rate.seeds))
        kind = "an interval" if parts[-1] else "a standard deviation"
        said.append(f"{rate.name} {ratio:.2f} of the binomial standard deviation, so {kind}")
    return Judgement(judged(parts), f"Spread of {rate_names()}: {'; '.join(said)}.")


def rate_names() -> str:
    """The metrics looked at."""
    return ", ".join(rate.metric.replace("_", " ") for rate in RATES)
