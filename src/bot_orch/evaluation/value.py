"""The value of a policy on logged decisions, of a log or of a table."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Bools, Floats
from bot_orch.checks import check_count, check_number
from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import Estimate, LogSample, Refusal, estimates, quantile, wilson
from bot_orch.evaluation.rounds import LoggedRounds, collect
from bot_orch.evaluation.shadow import PATHS, paths_of, shadow
from bot_orch.evaluation.sheet import sheet_of_frame
from bot_orch.evaluation.tables import DecisionTable, read_decisions
from bot_orch.policies.base import Policy
from bot_orch.types import RewardRange

#: A policy's name, ``uniform`` or ``agent:NAME``; a policy; or probabilities, the same in every row or row by row.
Target = str | Policy | Mapping[str, float] | npt.ArrayLike


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Estimates for a target, and the mean reward of the logged decisions themselves.

    ``learned``: from how many decisions, if it learns: the estimates are of so many first rounds, ``logged_first`` is
    what the log earned in its own. ``earlier``: how many were left out, made among other agents. ``unavailable``: in
    how many of the decisions no agent that the target chooses could be chosen.
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
class LoggedMean:
    """Mean reward of one agent's decisions, or of all decisions if ``agent`` is ``all``."""

    agent: str
    decisions: int
    mean: float
    _: KW_ONLY
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _TargetRows:
    """The target's probabilities, (P, n, M), and in which decisions none of its agents could be chosen."""

    propensities: Floats
    unavailable: Bools
    learned: int | None = None


def evaluate(
    data: Any,
    policy: Target,
    *,
    agents: Sequence[str] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    lambda_: Lambda | None = None,
    confidence: float = 0.95,
    min_effective: float = 50.0,
    max_missing: float = 0.5,
    audited: bool = False,
    paths: int = PATHS,
) -> Evaluation | Refusal:
    """Estimate from logged decisions what another policy would have earned.

    Parameters
    ----------
    data
        A table with the columns ``agent``, ``reward`` and ``propensity``: a mapping of arrays, a DataFrame, or an Arrow
        table. Or a log, its path or its URL.
    policy
        A policy or its name: it learns while it goes through the decisions. ``uniform`` and ``agent:NAME`` do not
        learn; an agent that cannot be chosen is replaced by an even choice. Or the probabilities: a mapping from agents
        to shares, (M,), or row by row, (n, M).
    agents
        The agents of a table, in the order of arrays of probabilities; by default those that occur, sorted.
    reward_range
        The least and the largest reward of a table; those of a log are in its settings.
    lambda_
        The weight of alignment of a policy that uses it; by default the log's.
    confidence
        Probability with which each interval covers the value.
    min_effective
        Least effective sample size; below it nothing is estimated.
    max_missing
        Refuse if a larger share of the decisions has no reward.
    audited
        Score only decisions whose reward was revised. Sound where who is audited does not depend on the outcome.
    paths
        How many times a policy that learns goes through the decisions.

    Returns
    -------
    Evaluation | Refusal
        IPS, SNIPS and DR with intervals, or why these decisions do not tell.

    Examples
    --------
    >>> table = {"agent": ["a", "b"] * 100, "reward": [1.0, 0.0] * 100, "propensity": [0.5, 0.5] * 100}
    >>> found = evaluate(table, "agent:a")
    >>> [(each.method, round(each.value, 3)) for each in found.estimates]
    [('IPS', 1.0), ('SNIPS', 1.0), ('DR', 1.0)]
    >>> print(evaluate(table, "agent:a", min_effective=1000))
    200 decisions are worth 100.0 for this target, not 1000; collect more decisions (about 2,000), or serve with a ...
    """
    check_number("min_effective", min_effective, "pass a number, 1 or more", low=1.0)
    check_number("max_missing", max_missing, "pass a share, 0 to 1", high=1.0)
    check_count("paths", paths, "pass a whole number, 1 or more", low=1)
    decisions = _decisions(data, agents, reward_range)
    if isinstance(scored := _scored(decisions, max_missing=max_missing, audited=audited), Refusal):
        return scored
    if isinstance(target := _target(decisions, policy, lambda_, paths), Refusal):
        return target
    keep, logged = scored
    sample = _on_unit_scale(logged, decisions.range)
    found = estimates(sample, target.propensities[:, keep], confidence=confidence, min_effective=min_effective)
    if isinstance(found, Refusal):
        return found
    return Evaluation(
        _name(policy),
        len(logged),
        decisions.requests - len(logged),
        logged_mean=float(logged.reward.mean()),
        estimates=tuple(_in_units(each, decisions.range) for each in found),
        learned=target.learned,
        logged_first=_mean_of_first(keep, logged, target.learned),
        earlier=decisions.earlier,
        unavailable=int(target.unavailable[keep].sum()),
    )


def _on_unit_scale(logged: LogSample, known: RewardRange) -> LogSample:
    """Rewards from 0 to 1: the weights of IPS do not add up to one, so its value would depend on where zero is."""
    expected = None if logged.expected is None else known.unit(logged.expected)
    return replace(logged, reward=known.unit(logged.reward), expected=expected)


def _in_units(found: Estimate, known: RewardRange) -> Estimate:
    value, low, high = (known.natural(each) for each in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high)


def logged_means(
    data: Any, *, confidence: float = 0.95, reward_range: tuple[float, float] = (0.0, 1.0)
) -> list[LoggedMean]:
    """On-policy means of all decisions and of each agent's; agents without a reward are omitted.

    ``data`` is a table or a log, as for :func:`evaluate`. The mean of all is what the logged policy earned. The mean of
    an agent covers only the tasks sent to it: it does not estimate the agent's reward on other tasks. A round of
    several attempts counts once, for the agent whose answer was delivered.
    """
    z, decisions = quantile(confidence), _decisions(data, None, reward_range)
    known = decisions.delivered()
    if not known:
        raise InvalidInputError("log", "no decision has a reward", "send feedback, or import a column of rewards")
    delivered, earned = np.array([name for name, _ in known]), np.array([reward for _, reward in known])
    groups = {"all": np.ones(len(known), dtype=bool)} | {name: delivered == name for name in decisions.agents}
    units = decisions.range

    def mean_of(name: str, rewards: Floats) -> LoggedMean:
        mean, error, n = float(rewards.mean()), float(rewards.std()) / math.sqrt(len(rewards)), len(rewards)
        low, high = wilson(units.unit(mean), error / units.width, n, z=z)
        return LoggedMean(name, n, mean, low=units.natural(low), high=units.natural(high))

    return [mean_of(name, earned[mine]) for name, mine in groups.items() if mine.any()]


def _decisions(
    data: Any, agents: Sequence[str] | None = None, reward_range: tuple[float, float] = (0.0, 1.0)
) -> LoggedRounds | DecisionTable:
    if isinstance(data, LoggedRounds | DecisionTable):
        return data
    if not isinstance(data, str | Path):
        if hasattr(data, "commit"):  # a log
            return collect(data)
        return read_decisions(sheet_of_frame(data, "table"), agents or (), reward_range)
    from bot_orch.log.stores.open import open_whole  # logs need the extra of the service, tables do not

    log = open_whole(data)
    try:
        return collect(log)
    finally:
        log.close()


def _scored(
    data: LoggedRounds | DecisionTable, *, max_missing: float, audited: bool
) -> tuple[list[int], LogSample] | Refusal:
    """Positions of the decisions with a score, and these decisions, or why they tell nothing."""
    if data.several:
        remedy = "pass --policy logged, or compare with one agent by 'bot-orch report --against NAME'"
        problem = "the log holds rounds of several attempts, on which no policy is evaluated"
        return Refusal("several_attempts", problem, remedy)
    keep, logged = data.scored(audited=audited)
    if audited and not keep:
        remedy = "send second opinions as feedback for the same decisions"
        return Refusal("no_revised_rewards", "no reward was revised", remedy)
    if not keep or (not audited and data.missing > max_missing * data.requests):
        left_out = f" ({data.earlier} earlier ones were made among other agents)" if data.earlier else ""
        remedy = "send feedback for more decisions, or raise --max-missing if silence does not depend on the outcome"
        return Refusal("no_rewards", f"{data.missing} of {data.requests} decisions have no reward{left_out}", remedy)
    if unknown := int(np.isnan(logged.propensities).any(axis=1).sum()):
        remedy = (
            "add it (bot-orch import --assume-uniform if agents were drawn evenly), "
            "or see the means of what was logged (--policy logged)"
        )
        problem = f"{unknown} of {len(logged)} decisions have no propensity, so no weight can be computed"
        return Refusal("no_propensities", problem, remedy)
    return keep, logged


def _target(
    data: LoggedRounds | DecisionTable, policy: Target, lambda_: Lambda | None, paths: int
) -> _TargetRows | Refusal:
    """The target's probabilities, row by row."""
    learner = _learner(policy)
    rounds = data.rounds() if isinstance(data, DecisionTable) and learner is not None else data
    if learner is None or isinstance(rounds, DecisionTable):
        if lambda_ is not None:
            raise _without_lambda(policy)
        return _fixed(data, policy)
    if lambda_ is not None and not shadow(rounds, learner, 0.0).policy.uses_alignment:
        raise _without_lambda(policy)
    run = paths_of(rounds, learner, lambda_, paths=paths)
    return _TargetRows(run.propensities, np.zeros(len(rounds.made), dtype=bool), run.learned)


def _learner(policy: Target) -> Policy | str | None:
    """The policy that learns; None for fixed probabilities."""
    if isinstance(policy, str):
        return None if policy == "uniform" or policy.startswith("agent:") else policy
    return policy if isinstance(policy, Policy) else None


def _without_lambda(policy: Target) -> InvalidInputError:
    remedy = "name a policy that does, such as auto"
    return InvalidInputError("policy", f"{_name(policy)!r} does not use lambda", remedy)


def _name(policy: Target) -> str:
    if isinstance(policy, str):
        return policy
    return policy.id if isinstance(policy, Policy) else "given probabilities"


def _fixed(data: LoggedRounds | DecisionTable, policy: Target) -> _TargetRows | Refusal:
    """Probabilities that do not learn; a row in which none of their agents can be chosen is drawn evenly."""
    eligible = data.eligible()
    shares = _shares(data.agents, eligible.shape, policy)
    if shares.ndim == 2:
        return _TargetRows(shares[None], np.zeros(len(shares), dtype=bool))
    chosen = shares * eligible
    total = chosen.sum(axis=1, keepdims=True)
    if not total.any():
        problem, remedy = f"{_name(policy)} could not be chosen in any decision", f"choose from {data.agents}"
        return Refusal("never_eligible", problem, remedy)
    even = eligible / eligible.sum(axis=1, keepdims=True)
    rows = np.where(total > 0.0, chosen / np.where(total > 0.0, total, 1.0), even)
    return _TargetRows(rows[None], np.asarray(total[:, 0] == 0.0))


def _shares(agents: tuple[str, ...], shape: tuple[int, ...], policy: Target) -> Floats:
    """Checked probabilities, (M,) or (n, M)."""
    if isinstance(policy, str):
        policy = {policy.removeprefix("agent:"): 1.0} if policy != "uniform" else dict.fromkeys(agents, 1 / len(agents))
    if isinstance(policy, Mapping):
        for name in policy:
            if name not in agents:
                raise InvalidInputError("policy", f"agent {name!r} does not occur", f"choose from {', '.join(agents)}")
        policy = [policy.get(name, 0.0) for name in agents]
    try:
        found = np.asarray(policy, dtype=float)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(0)
    if found.shape not in (shape, shape[1:]):
        problem = f"is no array of shape {shape[1:]} or {shape}"
        raise InvalidInputError("policy", problem, "pass a policy, its name, or a probability per agent")
    if not (np.all(found >= 0.0) and np.allclose(found.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6)):
        raise InvalidInputError("policy", "holds rows that are no probabilities", "pass numbers that add up to 1")
    return found


def _mean_of_first(keep: list[int], logged: LogSample, rounds: int | None) -> float | None:
    """Mean reward of the log itself in its first ``rounds`` rounds; None if none of them has a score."""
    scored = bisect_left(keep, rounds or 0)
    return float(logged.reward[:scored].mean()) if scored else None
