"""Survival models, frailty and the survival reward."""

from bot_orch.survival.base import Fit, SurvivalModel
from bot_orch.survival.causes import Cause, Observed, cause_codes, cause_of, is_failure, observe
from bot_orch.survival.competing import CompetingRisks
from bot_orch.survival.covariates import AcceleratedTime, ProportionalHazards, fit_accelerated, fit_proportional
from bot_orch.survival.frailty import (
    Baseline,
    Frailty,
    GammaFrailty,
    LogNormalFrailty,
    conditional_survival,
    marginal_survival,
)
from bot_orch.survival.frailty_process import FrailtyFilter, FrailtyProcess
from bot_orch.survival.models.exponential import Exponential, OnlineExponential, fit_exponential
from bot_orch.survival.models.kaplan_meier import (
    LifeTable,
    StepSurvival,
    completion_survival,
    cumulative_incidence,
    kaplan_meier,
    life_table,
    nelson_aalen,
)
from bot_orch.survival.models.log_logistic import LogLogistic, fit_log_logistic
from bot_orch.survival.models.log_normal import LogNormal, fit_log_normal
from bot_orch.survival.models.piecewise import OnlinePiecewise, PiecewiseConstant, fit_piecewise
from bot_orch.survival.models.weibull import Weibull, fit_weibull
from bot_orch.survival.online.base import OnlineFit, Prior
from bot_orch.survival.online.kaplan_meier import OnlineKaplanMeier
from bot_orch.survival.online.log_time import OnlineLogTime
from bot_orch.survival.online.regression import AcceleratedLikelihood, OnlineRegression, ProportionalLikelihood
from bot_orch.survival.reward import (
    TailCheck,
    expected_reward,
    live_reward,
    reward_of,
    survival_reward,
    tail_check,
)

__all__ = [
    "AcceleratedLikelihood",
    "AcceleratedTime",
    "Baseline",
    "Cause",
    "CompetingRisks",
    "Exponential",
    "Fit",
    "Frailty",
    "FrailtyFilter",
    "FrailtyProcess",
    "GammaFrailty",
    "LifeTable",
    "LogLogistic",
    "LogNormal",
    "LogNormalFrailty",
    "Observed",
    "OnlineExponential",
    "OnlineFit",
    "OnlineKaplanMeier",
    "OnlineLogTime",
    "OnlinePiecewise",
    "OnlineRegression",
    "PiecewiseConstant",
    "Prior",
    "ProportionalHazards",
    "ProportionalLikelihood",
    "StepSurvival",
    "SurvivalModel",
    "TailCheck",
    "Weibull",
    "cause_codes",
    "cause_of",
    "completion_survival",
    "conditional_survival",
    "cumulative_incidence",
    "expected_reward",
    "fit_accelerated",
    "fit_exponential",
    "fit_log_logistic",
    "fit_log_normal",
    "fit_piecewise",
    "fit_proportional",
    "fit_weibull",
    "is_failure",
    "kaplan_meier",
    "life_table",
    "live_reward",
    "marginal_survival",
    "nelson_aalen",
    "observe",
    "reward_of",
    "survival_reward",
    "tail_check",
]
