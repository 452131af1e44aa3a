"""What a log says without importance weights: count, mean reward and interval of each agent's own decisions."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist

import numpy as np

from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.rounds import LoggedRounds

__all__ = ["LoggedMean", "logged_means"]


@dataclass(frozen=True, slots=True)
class LoggedMean:
    """Mean reward of the decisions for one agent; of all decisions, if ``agent`` is ``all``."""

    agent: str
    decisions: int
    mean: float
    _: KW_ONLY
    low: float
    high: float


def logged_means(rounds: LoggedRounds, *, confidence: float = 0.95) -> list[LoggedMean]:
    """On-policy means of all decisions and of each agent's own; agents without a reward are left out.

    The mean of all is what the log's own policy earned. The mean of an agent is that of the tasks which were sent to
    it: it is no estimate of what the agent would earn on the others.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError("confidence", f"is {confidence}", "pass a number between 0 and 1")
    _, logged = rounds.scored()
    if not len(logged):
        raise InvalidInputError("log", "no decision has a reward", "send feedback, or import with --reward")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    groups = {"all": np.ones(len(logged), dtype=bool)}
    groups |= {name: logged.agent == number for number, name in enumerate(rounds.agents)}
    found = []
    for name, mine in groups.items():
        rewards = logged.reward[mine]
        if len(rewards):
            mean = float(rewards.mean())
            error = float(rewards.std(ddof=1)) / math.sqrt(len(rewards)) if len(rewards) > 1 else math.inf
            found.append(LoggedMean(name, len(rewards), mean, low=mean - z * error, high=mean + z * error))
    return found
