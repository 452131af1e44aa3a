"""Value of other stopping rules, estimated from rounds of several steps.

A round is a trajectory of decisions; its weight is the product of target over logged propensity, step by step. Each
step conditions on the answers so far, so the target may stop or ask as it likes, but it can only be evaluated where the
logged steps go its way: few rounds with large weights are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.types import Decision

__all__ = ["LEAST_SAMPLE", "TrajectoryValue", "trajectory_value"]

LEAST_SAMPLE = 50.0  # effective rounds below which no estimate is given


@dataclass(frozen=True, slots=True)
class TrajectoryValue:
    """A self-normalised estimate, half the width of its 95 % interval, and the effective number of rounds."""

    value: float
    margin: float
    effective: float


def trajectory_value(
    rounds: Sequence[tuple[Sequence[Decision], float]], target: Callable[[Decision], Floats]
) -> TrajectoryValue:
    """The mean earning of a target that draws each step from ``target(decision)``, probabilities over agents.

    ``rounds`` holds the decisions of each round, in order, with what the round earned. An effective sample,
    (sum w)^2 / sum w^2, below :data:`LEAST_SAMPLE` is refused.
    """
    weight = np.array([math.prod(_ratio(step, target(step)) for step in steps) for steps, _ in rounds])
    earned = np.array([value for _, value in rounds])
    total = float(weight.sum())
    effective = total * total / float((weight * weight).sum()) if total > 0.0 else 0.0
    if effective < LEAST_SAMPLE:
        problem = f"go the target's way in {effective:.0f} effective rounds, {LEAST_SAMPLE:.0f} are needed"
        raise InvalidInputError("rounds", problem, "log more rounds, or with a larger floor")
    value = float((weight * earned).sum() / total)
    variance = float((weight * weight * (earned - value) ** 2).sum()) / (total * total)
    return TrajectoryValue(value, 1.96 * math.sqrt(variance), effective)


def _ratio(step: Decision, p: Floats) -> float:
    at = step.agents.index(step.agent)
    return float(p[at] / step.propensities[at])
