"""Objectives other than reward: weights of dollars and seconds, and constraints enforced by dual variables."""

from bot_orch.core.constraints.limits import (
    Budget,
    Capacity,
    Constraint,
    Deadline,
    FirstToken,
    Objective,
    Quality,
    Quota,
    as_constraints,
    constraint_from_spec,
    constraint_to_spec,
)
from bot_orch.core.constraints.pacing import Pacing, PacingPlan

__all__ = [
    "Budget",
    "Capacity",
    "Constraint",
    "Deadline",
    "FirstToken",
    "Objective",
    "Pacing",
    "PacingPlan",
    "Quality",
    "Quota",
    "as_constraints",
    "constraint_from_spec",
    "constraint_to_spec",
]
