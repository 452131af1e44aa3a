"""A policy that learns, run through logged decisions as a shadow: its propensities, row by row.

It is replayed by rejection sampling. At every logged decision it says with which probabilities pi it would have chosen.
The logged decision becomes its own with probability ``c * pi(a) / p(a)``, p being the probabilities it was drawn with
and c the smallest of them in the whole log, as a rule the floor divided by the number of eligible agents. Given the
task, its own decisions are thus distributed as if it had drawn them itself, and every task has the same chance c of
being among them. It learns from those only, from the first outcome of each, when that arrived, and from a reward that
replaced one without; other rows leave it untouched. Its propensities for a row depend on earlier rows only.

So it has learned from about ``c * n`` of n decisions, whatever its settings: values tell how a policy does in its first
``c * n`` rounds. This is the nonstationary policy evaluation of [1]_ with a constant c. A c below 0.02 would teach next
to nothing; it is raised to that, and choices that are 50 times as likely under pi as under p then come up too rarely.

References
----------
.. [1] Dudik, Erhan, Langford, Li. Sample-efficient nonstationary policy evaluation for contextual bandits. UAI 2012.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.settings import Lambda
from bot_orch.errors import InvalidInputError, UnknownDecisionError
from bot_orch.evaluation.rounds import Lesson, LoggedRounds
from bot_orch.policies.base import Policy
from bot_orch.policies.registry import make_policy
from bot_orch.rng import derive_key, uniform

#: How many times a policy that learns goes through the log.
PATHS = 4
_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class ShadowRun:
    """Probabilities of a shadow policy, row by row, and from how many decisions it learned.

    The probabilities are (n, M); of P paths (P, n, M), and ``learned`` is the mean.
    """

    propensities: Floats
    learned: int


def paths_of(
    rounds: LoggedRounds, policy: Policy | str, lambda_: Lambda | None = None, *, paths: int = PATHS
) -> ShadowRun:
    """Several runs of a policy through the log, each of which learns from another sample of outcomes."""
    gone = [follow(rounds, shadow(rounds, policy, lambda_), path) for path in range(paths)]
    learned = round(sum(each.learned for each in gone) / paths)
    return ShadowRun(np.stack([each.propensities for each in gone]), learned)


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
