"""Off-policy evaluation of a log: collect decisions, compute the target's propensities, estimate its value.

A policy that learns is replayed on the log by rejection sampling, as a shadow policy. At every logged decision it says
with which probabilities pi it would have chosen. The logged decision becomes its own with probability
``c * pi(a) / p(a)``, p being the probabilities it was drawn with and c the smallest of them in the whole log, as a rule
the floor divided by the number of eligible agents. Given the task, its own decisions are thus distributed as if it had
drawn them itself, and every task has the same chance c of being among them. It learns from those only, from the first
outcome of each, when that arrived, and from a reward that replaced one without; other rows leave it untouched. Its
propensities for a row depend on earlier rows only.

So it has learned from about ``c * n`` of n decisions, whatever its settings: values tell how a policy does in its first
``c * n`` rounds. This is the nonstationary policy evaluation of [1]_ with a constant c. A c below 0.02 would teach next
to nothing; it is raised to that, and choices that are 50 times as likely under pi as under p then come up too rarely.

References
----------
.. [1] Dudik, Erhan, Langford, Li. Sample-efficient nonstationary policy evaluation for contextual bandits. UAI 2012.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from bot_orch.arrays import Bools, Floats
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError, UnknownDecisionError
from bot_orch.evaluation.offpolicy import Estimate, LogSample, evaluate, quantile
from bot_orch.evaluation.rounds import Lesson, LoggedRounds, collect
from bot_orch.log.log import Log
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_key, uniform
from bot_orch.types import RewardRange

#: How many times a policy that learns goes through the log.
PATHS = 4
_LEAST_SHARE = 0.02


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


@dataclass(frozen=True, slots=True)
class ShadowRun:
    """Probabilities of a shadow policy, row by row (n, M), and from how many decisions it learned."""

    propensities: Floats
    learned: int


def evaluate_log(
    log: Log,
    target: str,
    *,
    lambda_: Lambda | None = None,
    confidence: float = 0.95,
    min_effective: float = 50.0,
    max_missing: float = 0.5,
    audited: bool = False,
    paths: int = PATHS,
) -> Evaluation:
    """Estimate the value of ``target``: a policy's name, ``agent:NAME`` or ``uniform``.

    ``agent:NAME`` always chooses that agent, and evenly among the eligible ones where it could not be chosen.

    A policy learns while it goes through the log; it is scored with the last reward given for each decision.

    Parameters
    ----------
    log, target
        Where to read, and what to evaluate.
    lambda_
        The weight of alignment of a policy that uses it; by default the log's.
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
    keep, logged = _scores(rounds, max_missing=max_missing, audited=audited)
    found = _target(rounds, target, lambda_, paths)
    known = rounds.configured().reward.range
    sample = replace(logged, reward=known.unit(logged.reward))  # weights that do not add up matter the less
    estimates = evaluate(sample, found.propensities[:, keep], confidence=confidence, min_effective=min_effective)
    mean = float(logged.reward.mean())
    return Evaluation(
        target,
        len(logged),
        rounds.requests - len(logged),
        logged_mean=mean,
        estimates=tuple(_natural(each, known) for each in estimates),
        learned=found.learned,
        logged_first=_mean_of_first(keep, logged, found.learned),
        earlier=rounds.earlier,
        unavailable=int((~_available(rounds, target)[keep]).sum()),
    )


def _natural(found: Estimate, known: RewardRange) -> Estimate:
    """An estimate in units of reward."""
    value, low, high = (known.natural(each) for each in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high)


def _mean_of_first(keep: list[int], logged: LogSample, rounds: int | None) -> float | None:
    """Mean reward of the log itself in its first ``rounds`` rounds; None if none of them has a score."""
    scored = bisect_left(keep, rounds or 0)
    return float(logged.reward[:scored].mean()) if scored else None


def _scores(rounds: LoggedRounds, *, max_missing: float = 0.5, audited: bool = False) -> tuple[list[int], LogSample]:
    """Positions of decisions with a score, and these decisions; raises an error if too few have one."""
    if rounds.several:
        remedy = "pass --policy logged, or compare with one agent by 'bot-orch report --against NAME'"
        raise InvalidInputError("log", "holds rounds of several attempts, on which no policy is evaluated", remedy)
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
    rounds: LoggedRounds, policy: Policy | str, lambda_: Lambda | None = None, *, paths: int = PATHS
) -> TargetPropensities:
    """The propensities of a learning policy on the log."""
    if paths < 1:
        raise InvalidInputError("paths", f"is {paths}", "pass a whole number, 1 or more")
    gone = [follow(rounds, shadow(rounds, policy, lambda_), path) for path in range(paths)]
    learned = round(sum(each.learned for each in gone) / paths)
    return TargetPropensities(np.stack([each.propensities for each in gone]), learned)


def _target(rounds: LoggedRounds, target: str, lambda_: Lambda | None, paths: int) -> TargetPropensities:
    masks = rounds.eligible()
    even: Floats = masks / masks.sum(axis=1, keepdims=True)
    fixed = target == "uniform" or target.startswith("agent:")
    if lambda_ is not None and (fixed or not shadow(rounds, target, 0.0).policy.uses_alignment):
        raise InvalidInputError("policy", f"{target!r} does not use lambda", "name a policy that does, such as auto")
    if not fixed:
        return learning_target(rounds, target, lambda_, paths=paths)
    if target != "uniform":
        name = target.removeprefix("agent:")
        if name not in rounds.agents:
            raise InvalidInputError("target", f"agent {name!r} is not in the log", f"choose from {rounds.agents}")
        allowed = _available(rounds, target)
        if not allowed.any():
            problem = f"agent {name!r} could not be chosen in any decision"
            raise InvalidInputError("target", problem, f"choose from {rounds.agents}")
        even[allowed] = [float(each == name) for each in rounds.agents]
    return TargetPropensities(even[None])


def _available(rounds: LoggedRounds, target: str) -> Bools:
    """In which decisions the agent of a target ``agent:NAME`` could be chosen; all for other targets."""
    name = target.removeprefix("agent:")
    if name == target or name not in rounds.agents:
        return np.ones(len(rounds.made), dtype=bool)
    return np.asarray(rounds.eligible()[:, rounds.agents.index(name)] > 0)


def shadow(rounds: LoggedRounds, policy: Policy | str, lambda_: Lambda | None = None) -> Orchestrator:
    """A policy under the log's settings: agents with their costs, alignment, reward model, floor, features.

    The log's own policy keeps its settings, another one has those it is passed with. ``lambda_`` replaces the log's.
    """
    router = rounds.configured()
    made = make_policy(policy) if isinstance(policy, str) else policy
    if isinstance(policy, str) and made.id == router.policy.id:
        made = router.policy
    settings = replace(router.settings, policy=made, lambda_=router.lambda_ if lambda_ is None else lambda_)
    return Orchestrator.from_settings(settings, rounds.members())


def share(rounds: LoggedRounds) -> float:
    """c: the share of decisions that a shadow learns from."""
    p, eligible = rounds.propensities(), rounds.eligible() > 0
    return max(_LEAST_SHARE, float(p[eligible].min()))


def follow(rounds: LoggedRounds, router: Orchestrator, path: int = 0, *, c: float | None = None) -> ShadowRun:
    """Run a fresh shadow through the log.

    Parameters
    ----------
    rounds, router
        The log, and who follows it.
    path
        Another path draws another sample of outcomes to learn from.
    c
        The share of decisions to learn from; :func:`share` unless given.
    """
    c = share(rounds) if c is None else c
    key, due = derive_key("off-policy", router.seed, path), _due(rounds)
    table, own = np.zeros((len(rounds.made), len(rounds.agents))), dict[str, str]()
    for index, (event, task) in enumerate(zip(rounds.made, rounds.tasks, strict=True)):
        _learn(router, due.get(index, ()), own=own, replaced=rounds.replaced)
        decision = router.prepare(task, event.eligible)
        table[index] = decision.propensities
        chosen = rounds.agents.index(event.agent)
        if uniform(key, index) * event.propensity < c * decision.propensities[chosen]:
            router.commit(replace(decision, agent=event.agent), task, event.eligible)
            own[event.id] = decision.id
    return ShadowRun(table, len(own.keys() & rounds.lessons.keys()))


def _due(rounds: LoggedRounds) -> dict[int, list[tuple[str, Lesson]]]:
    """Outcomes that arrive before each decision; a reward that replaces a silence comes after it."""
    due: dict[int, list[tuple[str, Lesson]]] = {}
    for decision_id, lesson in (*rounds.lessons.items(), *rounds.replaced.items()):
        due.setdefault(lesson.before, []).append((decision_id, lesson))
    return due


def _learn(
    router: Orchestrator,
    lessons: Collection[tuple[str, Lesson]],
    *,
    own: dict[str, str],
    replaced: Collection[str],
) -> None:
    for decision_id, lesson in lessons:
        if decision_id in own:
            # an early report that could not be checked when it came, or a silence that is no longer remembered
            with suppress(InvalidInputError, UnknownDecisionError):
                provisional = decision_id in replaced
                router.observe(own[decision_id], lesson.outcome, provisional=provisional, default=lesson.default)


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
    z, known = quantile(confidence), rounds.delivered()
    if not known:
        raise InvalidInputError("log", "no decision has a reward", "send feedback, or import a column of rewards")
    delivered, earned = np.array([name for name, _ in known]), np.array([reward for _, reward in known])
    groups = {"all": np.ones(len(known), dtype=bool)} | {name: delivered == name for name in rounds.agents}
    found = []
    for name, mine in groups.items():
        rewards = earned[mine]
        if len(rewards):
            mean = float(rewards.mean())
            error = float(rewards.std(ddof=1)) / math.sqrt(len(rewards)) if len(rewards) > 1 else math.inf
            found.append(LoggedMean(name, len(rewards), mean, low=mean - z * error, high=mean + z * error))
    return found
