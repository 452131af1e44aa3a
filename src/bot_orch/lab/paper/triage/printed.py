"""The paper's points for the lambda figures: printed values, and what follows from them.

Table 7 prints net utility, regret and accuracy. Net utility is reward minus lambda times the alignment cost, and the
reward is the accuracy times the number of patients, so the alignment cost follows wherever lambda is not zero, and
with it the net utility under a common lambda. At lambda = 0 the cost is that of No-OT, which is the same run.
"""

from __future__ import annotations

import math

from bot_orch.lab.harness.tables import published
from bot_orch.lab.paper.triage.play import LAMBDA

__all__ = ["printed_point"]

_PATIENTS = 114


def printed_point(condition: str, metric: str, lambda_: float, *, protocol: str = "paper") -> float:
    """The paper's value of a metric of BOT-Orch at one lambda; not a number where none follows.

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
