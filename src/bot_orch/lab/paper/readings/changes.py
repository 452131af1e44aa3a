"""The readings: what each changes in the shipped one, and which tables it can move."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from bot_orch.lab.environments.synthetic.noise import NoiseForm
from bot_orch.lab.environments.synthetic.settings import COMMON
from bot_orch.lab.harness.simulate import FeedbackMode
from bot_orch.numerics.estimators import EMA, History, LastReward, MeanReward, NoHistory
from bot_orch.numerics.schedules import Constant
from bot_orch.policies.base import Policy
from bot_orch.policies.bot import Bot
from bot_orch.policies.no_ot import NoOT

__all__ = ["READINGS", "SHIPPED", "TABLES", "Reading", "policy", "tables_of"]

#: The published tables by the experiment that reproduces them.
TABLES = ("triage", "triage-lambda", "synthetic", "synthetic-lambda")
SHIPPED = "as shipped"
_TRIAGE_ETA = 5.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A choice for everything that the paper leaves open; None for eta is the shipped value of the table."""

    order: FeedbackMode = "bandit"
    history: History = MeanReward()  # noqa: RUF009  (frozen)
    _: KW_ONLY
    eta: float | None = None
    noise: NoiseForm = "relative"
    level: float = COMMON.noise
    lambda_: float = COMMON.lambda_


#: All readings that were run for the section; the first is the shipped one.
READINGS: dict[str, Reading] = {
    SHIPPED: Reading(),
    "learn first, as listed": Reading("printed"),
    "all rewards seen, after the choice": Reading("full"),
    "f = 0": Reading(history=NoHistory()),
    "f = 0.05 last reward": Reading(history=LastReward()),
    "f = 0.02 mean reward": Reading(history=MeanReward(0.02)),
    "f = 0.1 mean reward": Reading(history=MeanReward(0.1)),
    "eta = 1.5": Reading(eta=1.5),
    "eta = 5": Reading(eta=5.0),
    "lambda = 1": Reading(lambda_=1.0),
    "lambda = 3": Reading(lambda_=3.0),
    "eta = 5, lambda = 1": Reading(eta=5.0, lambda_=1.0),
    "additive noise 1.25": Reading(noise="additive", level=1.25),
    "additive noise 1.25, lambda = 1": Reading(noise="additive", level=1.25, lambda_=1.0),
    "additive noise 2.5": Reading(noise="additive", level=2.5),
    "noise per agent 0.4": Reading(noise="agent", level=0.4),
}


def eta_of(reading: Reading, table: str) -> float:
    """The inverse temperature of a reading in a table."""
    if reading.eta is not None:
        return reading.eta
    return _TRIAGE_ETA if table.startswith("triage") else COMMON.eta


def tables_of(name: str) -> list[str]:
    """Tables that a reading can change; all for the shipped one."""
    reading, shipped = READINGS[name], READINGS[SHIPPED]
    if name == SHIPPED:
        return list(TABLES)
    return [table for table in TABLES if _key(reading, table) != _key(shipped, table)]


def policy(reading: Reading, table: str, *, iid: bool, aligned: bool) -> Policy:
    """BOT-Orch, or No-OT: Algorithm 1 for i.i.d. tasks, Algorithm 2 for the others."""
    estimator = EMA(COMMON.alpha, NoHistory() if iid else reading.history)
    eta = Constant(eta_of(reading, table))
    return Bot(eta, estimator) if aligned else NoOT(eta, estimator)


def _key(reading: Reading, table: str) -> tuple[object, ...]:
    """What of a reading a table depends on: triage has no noise, and ablations set lambda themselves."""
    learns = (reading.order, reading.history, eta_of(reading, table))
    noise = () if table.startswith("triage") else (reading.noise, reading.level)
    return (*learns, *noise, *((reading.lambda_,) if table == "synthetic" else ()))
