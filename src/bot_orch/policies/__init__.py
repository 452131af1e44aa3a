"""Bandit policies, one module each. A new one subclasses :class:`Policy` or :class:`EstimatorPolicy`."""

from bot_orch.policies.base import Choice, EstimatorPolicy, Feedback, Policy, Situation
from bot_orch.policies.choice import argmax_ties, best_probabilities, draw, softmax
from bot_orch.policies.estimators import EMA, Discounted, Estimator, Mean, Windowed
from bot_orch.policies.schedules import Constant, LogGrowth, Power, Schedule

__all__ = [
    "EMA",
    "Choice",
    "Constant",
    "Discounted",
    "Estimator",
    "EstimatorPolicy",
    "Feedback",
    "LogGrowth",
    "Mean",
    "Policy",
    "Power",
    "Schedule",
    "Situation",
    "Windowed",
    "argmax_ties",
    "best_probabilities",
    "draw",
    "softmax",
]
