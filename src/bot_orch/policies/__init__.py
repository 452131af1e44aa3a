"""Bandit policies, one module each. A new one subclasses :class:`Policy` or :class:`EstimatorPolicy`."""

from bot_orch.numerics.choice import argmax_ties, best_probabilities, draw, softmax
from bot_orch.numerics.estimators import EMA, Estimator, Mean
from bot_orch.numerics.schedules import Constant, LogGrowth, Power, Schedule
from bot_orch.policies.base import Choice, EstimatorPolicy, Feedback, Policy, Situation

__all__ = [
    "EMA",
    "Choice",
    "Constant",
    "Estimator",
    "EstimatorPolicy",
    "Feedback",
    "LogGrowth",
    "Mean",
    "Policy",
    "Power",
    "Schedule",
    "Situation",
    "argmax_ties",
    "best_probabilities",
    "draw",
    "softmax",
]
