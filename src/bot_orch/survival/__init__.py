"""Survival models, frailty, Kaplan-Meier and the survival reward."""

from bot_orch.survival.causes import Cause, ObservedTimes, cause_of, observe
from bot_orch.survival.frailty import FrailtyProcess, GammaFrailty
from bot_orch.survival.kaplan_meier import (
    LifeTable,
    OnlineKaplanMeier,
    StepSurvival,
    completion_survival,
    kaplan_meier,
    life_table,
)
from bot_orch.survival.models import Exponential, LogNormal, SurvivalModel, Weibull
from bot_orch.survival.reward import (
    TailCheck,
    expected_reward,
    live_reward,
    reward_of,
    survival_reward,
    tail_check,
)

__all__ = [
    "Cause",
    "Exponential",
    "FrailtyProcess",
    "GammaFrailty",
    "LifeTable",
    "LogNormal",
    "ObservedTimes",
    "OnlineKaplanMeier",
    "StepSurvival",
    "SurvivalModel",
    "TailCheck",
    "Weibull",
    "cause_of",
    "completion_survival",
    "expected_reward",
    "kaplan_meier",
    "life_table",
    "live_reward",
    "observe",
    "reward_of",
    "survival_reward",
    "tail_check",
]
