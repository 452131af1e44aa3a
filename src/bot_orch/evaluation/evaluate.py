"""Off-policy evaluation of a log: collect decisions, compute the target's propensities, estimate its value."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import Estimate, LogSample, evaluate
from bot_orch.evaluation.rounds import LoggedRounds, collect
from bot_orch.evaluation.shadow import follow, shadow
from bot_orch.evaluation.trajectories import stopping_rule, trajectories, trajectory_value
from bot_orch.log.log import Log
from bot_orch.policies.base import Policy

#: How many times a policy that learns goes through the log.
PATHS = 4

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Estimates for a target, and the mean reward of the log itself.

    ``learned``: from how many decisions, if it learns: the estimates are of so many first rounds, ``logged_first`` is
    what the log earned in its own. ``earlier``: how many were left out, made among other agents. ``unavailable``: in
    how many of the decisions the agent of a target ``agent:NAME`` could not be chosen.
    """

    target: str
    decisions: int
    missing: int
    _: KW_ONLY
    logged_mean: float
    estimates: tuple[Estimate, ...]
    learned: int | None = None
    logged_first: float | None = None
    earlier: int = 0
    unavailable: int = 0


@dataclass(frozen=True, slots=True)
class TargetPropensities:
    """Propensities of a target policy, (P, n, M), and the mean number of decisions that its paths learned from."""

    propensities: Floats
    learned: int | None = None


def evaluate_log(
    log: Log,
    target: str,
    *,
    confidence: float = 0.95,
    min_effective: float = 50.0,
    max_missing: float = 0.5,
    audited: bool = False,
    paths: int = PATHS,
) -> Evaluation:
    """Estimate the value of ``target``: a policy's name, ``agent:NAME`` or ``uniform``.

    ``agent:NAME`` always chooses that agent, and evenly among the eligible ones where it could not be chosen.

    Rounds of several attempts are weighed as a whole, for the targets ``agent:NAME`` and ``first``
    (:mod:`bot_orch.evaluation.trajectories`); those in which NAME could not be chosen are left out.

    A policy learns while it goes through the log, see :mod:`bot_orch.evaluation.shadow`; it is scored with the last
    reward given for each decision.

    Parameters
    ----------
    log, target
        Where to read, and what to evaluate.
    confidence, min_effective
        As in :func:`bot_orch.evaluation.offpolicy.evaluate`.
    max_missing
        Refuse if a larger share of decisions has no reward.
    audited
        Score only decisions whose reward was revised. Sound where who is audited does not depend on the outcome.
    paths
        How many times a policy that learns goes through the log.
    """
    rounds = collect(log)
    if rounds.several:
        if audited:
            raise InvalidInputError("audited", "does not go with rounds of several attempts", "leave it out")
        steps = _evaluate_steps(rounds, target, confidence=confidence, min_effective=min_effective)
        if steps.missing > max_missing * (steps.missing + steps.decisions):
            problem = f"{steps.missing} of {steps.missing + steps.decisions} rounds have no reward"
            raise InvalidInputError("log", problem, "send feedback for more rounds, or raise --max-missing")
        return steps
    keep, logged = scores(rounds, max_missing=max_missing, audited=audited)
    found = _target(rounds, target, paths)
    estimates = evaluate(logged, found.propensities[:, keep], confidence=confidence, min_effective=min_effective)
    mean = float(logged.reward.mean())
    return Evaluation(
        target,
        len(logged),
        rounds.requests - len(logged),
        logged_mean=mean,
        estimates=estimates,
        learned=found.learned,
        logged_first=mean_of_first(keep, logged, found.learned),
        earlier=rounds.earlier,
        unavailable=int((~_available(rounds, target)[keep]).sum()),
    )


def _evaluate_steps(rounds: LoggedRounds, target: str, *, confidence: float, min_effective: float) -> Evaluation:
    known = trajectories(rounds)
    rule = stopping_rule(target, rounds.agents)
    if not known:
        raise InvalidInputError("log", "holds no round with a reward", "send feedback for the decisions that accepted")
    found = trajectory_value(known, rule, confidence=confidence, min_effective=min_effective)
    mean = float(np.mean([earned for _, earned in known]))
    able = {event.id for event, each in zip(rounds.made, _available(rounds, target), strict=True) if each}
    return Evaluation(
        target,
        len(known),
        rounds.requests - len(known),
        logged_mean=mean,
        estimates=(found,),
        earlier=rounds.earlier,
        unavailable=sum(steps[0].id not in able for steps, _ in known),
    )


def mean_of_first(keep: list[int], logged: LogSample, rounds: int | None) -> float | None:
    """Mean reward of the log itself in its first ``rounds`` rounds; None if none of them has a score."""
    scored = bisect_left(keep, rounds or 0)
    return float(logged.reward[:scored].mean()) if scored else None


def scores(rounds: LoggedRounds, *, max_missing: float = 0.5, audited: bool = False) -> tuple[list[int], LogSample]:
    """Positions of decisions with a score, and these decisions; raises an error if too few have one."""
    if rounds.several:
        remedy = "evaluate the targets first and agent:NAME, which are weighed by whole rounds"
        raise InvalidInputError("log", "holds rounds of several attempts, on which no policy is replayed", remedy)
    keep, logged = rounds.scored(audited=audited)
    unknown = int(np.isnan(logged.propensities).any(axis=1).sum())
    if unknown:
        raise InvalidInputError(
            "log",
            f"{unknown} of {len(logged)} decisions were imported without a propensity, so no weight can be computed",
            "see --policy logged for the means of what was logged; if agents were drawn at random, import the file "
            "again with --assume-uniform",
        )
    if audited and not keep:
        raise InvalidInputError(
            "log", "holds no revised reward", "send second opinions as feedback for the same decisions"
        )
    if not keep or (not audited and rounds.missing > max_missing * rounds.requests):
        raise InvalidInputError(
            "log",
            f"{rounds.missing} of {rounds.requests} decisions have no reward{_left_out(rounds)}",
            "send feedback for more decisions, or raise --max-missing if silence does not depend on the outcome",
        )
    return keep, logged


def _left_out(rounds: LoggedRounds) -> str:
    return f" ({rounds.earlier} earlier ones were made among other agents)" if rounds.earlier else ""


def learning_target(
    rounds: LoggedRounds,
    policy: Policy | str,
    lambda_: Lambda | None = None,
    *,
    paths: int = PATHS,
    progress: Callable[[int], None] | None = None,
) -> TargetPropensities:
    """The propensities of a learning policy on the log; ``progress`` is called with the number of finished paths."""
    if paths < 1:
        raise InvalidInputError("paths", f"is {paths}", "pass a whole number, 1 or more")
    gone = []
    for path in range(paths):
        gone.append(follow(rounds, shadow(rounds, policy, lambda_), path))
        if progress is not None:
            progress(path + 1)
    learned = round(sum(each.learned for each in gone) / paths)
    return TargetPropensities(np.stack([each.propensities for each in gone]), learned)


def _target(rounds: LoggedRounds, target: str, paths: int) -> TargetPropensities:
    masks = rounds.eligible()
    uniform: Floats = masks / masks.sum(axis=1, keepdims=True)
    if target == "uniform":
        return TargetPropensities(uniform[None])
    if target.startswith("agent:"):
        name = target.removeprefix("agent:")
        if name not in rounds.agents:
            raise InvalidInputError("target", f"agent {name!r} is not in the log", f"choose from {rounds.agents}")
        allowed = _available(rounds, target)
        if not allowed.any():
            problem = f"agent {name!r} could not be chosen in any decision"
            raise InvalidInputError("target", problem, f"choose from {rounds.agents}")
        uniform[allowed] = [float(each == name) for each in rounds.agents]
        return TargetPropensities(uniform[None])
    return learning_target(rounds, target, paths=paths)


def _available(rounds: LoggedRounds, target: str) -> Bools:
    """In which decisions the agent of a target ``agent:NAME`` could be chosen; all for other targets."""
    name = target.removeprefix("agent:")
    if name == target or name not in rounds.agents:
        return np.ones(len(rounds.made), dtype=bool)
    return np.asarray(rounds.eligible()[:, rounds.agents.index(name)] > 0)


@dataclass(frozen=True, slots=True)
class LoggedMean:
    """Mean reward of one agent's decisions, or of all decisions if ``agent`` is ``all``."""

    agent: str
    decisions: int
    mean: float
    _: KW_ONLY
    low: float
    high: float


def logged_means(rounds: LoggedRounds, *, confidence: float = 0.95) -> list[LoggedMean]:
    """On-policy means of all decisions and of each agent's; agents without a reward are omitted.

    The mean of all is what the log's own policy earned. The mean of an agent covers only the tasks sent to
    it: it does not estimate the agent's reward on other tasks. A round of several attempts counts once, for the agent
    whose answer was delivered.
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidInputError("confidence", f"is {confidence}", "pass a number between 0 and 1")
    known = trajectories(rounds)
    if not known:
        raise InvalidInputError("log", "no decision has a reward", "send feedback, or import with --reward")
    earned, delivered = np.array([each for _, each in known]), np.array([steps[-1].agent for steps, _ in known])
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    groups = {"all": np.ones(len(known), dtype=bool)} | {name: delivered == name for name in rounds.agents}
    found = []
    for name, mine in groups.items():
        rewards = earned[mine]
        if len(rewards):
            mean = float(rewards.mean())
            error = float(rewards.std(ddof=1)) / math.sqrt(len(rewards)) if len(rewards) > 1 else math.inf
            found.append(LoggedMean(name, len(rewards), mean, low=mean - z * error, high=mean + z * error))
    return found
