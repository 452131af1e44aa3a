"""Value of other stopping rules, estimated from rounds of several steps.

A round is a trajectory of decisions; its weight is the product of target over logged propensity, step by step. Each
step conditions on the answers so far, so the target may stop or ask as it likes, but it can only be evaluated where the
logged steps go its way: few rounds with large weights are refused, also if such rounds are to be expected and none of
them is in the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from statistics import NormalDist

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import Estimate, ThinSupportError
from bot_orch.evaluation.rounds import LoggedRounds
from bot_orch.types import Decision

#: The decisions of a round, in order, and what the round earned.
Trajectory = tuple[Sequence[Decision], float]


def trajectories(rounds: LoggedRounds) -> list[Trajectory]:
    """The rounds of a log that have a reward; a decision of one step is a round, too."""
    made = {event.id: event for event in rounds.made if event.by != "shadow"}
    found: dict[str, Trajectory] = {}
    for event in made.values():
        last = event.decision()
        steps = [made[each.decision].decision() for each in last.answers if each.decision in made]
        first = steps[0].id if steps else last.id
        reward = rounds.rewards.get(last.id, rounds.rewards.get(first) if last.action == "accept" else None)
        if reward is not None and len(steps) == len(last.answers):
            found[first] = ((*steps, last), reward)
    return list(found.values())


def stopping_rule(target: str, agents: Sequence[str]) -> Callable[[Decision], Floats]:
    """``agent:NAME``: ask that agent and deliver its answer; ``first``: deliver the log's first answer."""
    name = target.removeprefix("agent:")
    if target != "first" and (name == target or name not in agents):
        remedy = (
            f"pass first, or agent:NAME with a name of {tuple(agents)}; learning policies are not replayed on steps"
        )
        raise InvalidInputError("target", f"{target!r} is no rule for rounds of several attempts", remedy)

    def rule(step: Decision) -> Floats:
        if target == "first" and not step.answers:
            return step.propensities
        wanted = step.answers[0].agent if target == "first" else name
        return np.array([float(each == wanted) for each in step.agents])

    return rule


def trajectory_value(
    rounds: Sequence[Trajectory],
    target: Callable[[Decision], Floats],
    *,
    confidence: float = 0.95,
    min_effective: float = 50.0,
) -> Estimate:
    """The self-normalised estimate of what a target earns that draws each step from ``target(decision)``.

    The target gives probabilities over agents. An effective sample, (sum w)^2 / sum w^2, below ``min_effective`` is
    refused; so is n^2 / sum E[w^2], where the expectation is over the draw of the first, second, ... step.
    """
    weighed = [_weights(steps, target) for steps, _ in rounds]
    weight = np.array([found for found, _ in weighed])
    square = max(map(sum, zip_longest(*(squares for _, squares in weighed), fillvalue=0.0)), default=0.0)
    earned = np.array([value for _, value in rounds])
    total = float(weight.sum())
    effective = total * total / float((weight * weight).sum()) if total > 0.0 else 0.0
    effective = min(effective, len(weight) ** 2 / square) if square else 0.0
    if effective < min_effective:
        problem = f"the target's way is gone in {effective:.0f} effective rounds, {min_effective:.0f} are needed"
        raise ThinSupportError(f"{problem}; log more rounds, or with a larger floor")
    value = float((weight * earned).sum() / total)
    variance = float((weight * weight * (earned - value) ** 2).sum()) / (total * total)
    margin = NormalDist().inv_cdf(0.5 + confidence / 2) * math.sqrt(variance)
    return Estimate("SNIPS", value, value - margin, high=value + margin, effective_n=effective)


def _weights(steps: Sequence[Decision], target: Callable[[Decision], Floats]) -> tuple[float, list[float]]:
    """The weight of a round, and what its square was expected to be just before each of the steps was drawn."""
    weight, squares = 1.0, []
    for step in steps:
        p, pi, at = np.asarray(step.propensities), target(step), step.agents.index(step.agent)
        drawn = p > 0.0
        squares.append(weight * weight * float((pi[drawn] ** 2 / p[drawn]).sum()))
        weight *= float(pi[at] / p[at])
    return weight, squares
