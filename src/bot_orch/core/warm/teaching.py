"""Teaches evaluations to a policy: each reward becomes as many outcomes as its weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bot_orch.arrays import Arrays, Floats, Ints, allocate
from bot_orch.checks import check_number
from bot_orch.core.named import names_of_all, vector_of
from bot_orch.core.settings import Settings, fitted
from bot_orch.core.text import encode
from bot_orch.core.warm.evaluations import Evaluations, check_tasks
from bot_orch.core.warm.trial import WarmStart
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Feedback, Policy
from bot_orch.types import Task

#: Lessons per agent for a policy that predicts no reward: a wrong warm start cannot be noticed, only outweighed.
_UNTESTED = 20.0
#: Lessons per agent, and over all agents: the larger of the two counts. A lesson takes some 150 us.
_EACH, _ALL = 1000.0, 50_000.0


def most_lessons(most: float | None, agents: int) -> float:
    """Maximum number of lessons per agent; ``None`` for the default.

    Examples
    --------
    >>> most_lessons(None, 5), most_lessons(None, 100), most_lessons(20, 5)
    (10000.0, 1000.0, 20.0)
    """
    if most is None:
        return max(_EACH, _ALL / agents)
    return check_number("most", most, "pass the largest number of outcomes per agent, 1 or more, or None", low=1.0)


def encoded_tasks(tasks: Any, settings: Settings, *, first: bool) -> list[Task]:
    """The tasks of evaluations with their texts encoded, as in a decision; ``first`` as for :func:`fit_features`."""
    named = [task.features for task in check_tasks(tasks) if isinstance(task.features, Mapping)]
    if named and not settings.names:
        settings = replace(settings, names=names_of_all(named))
    if named:
        names = settings.names
        tasks = [replace(task, features=vector_of(_by_name(task), names), names=names) for task in tasks]
    for task in tasks:
        if task.text is not None or task.encoded:
            settings = fitted(settings, task, first=first)
            break
    return [encode(task, settings) for task in tasks]


def _by_name(task: Task) -> Mapping[str, Any]:
    if not isinstance(task.features, Mapping) and task.features:
        raise InvalidInputError("tasks", "have features by name and without", "pass the same kind with every task")
    return task.features if isinstance(task.features, Mapping) else {}


def fit_features(settings: Settings, given: Evaluations, *, first: bool) -> tuple[Settings, Evaluations]:
    """Settings completed by the evaluations, as by a first task, and the evaluations padded to the context width.

    ``first`` says that nothing has been decided yet, so that features and texts may still be introduced. Evaluations
    without texts count as having empty ones.
    """
    brought = 0 if given.features is None else given.features.shape[1]
    if given.features is not None and given.encoded and settings.encoder is not None:
        task = Task(features=tuple(given.features[0]), encoded=given.encoded)
        settings = fitted(settings, task, first=first)
        encode(task, settings)  # refuses another encoder
        expected = settings.context_width
    elif settings.n_features is None and (first if brought else not settings.policy.predicts):
        settings = replace(settings, n_features=brought)
        expected = brought
    else:
        expected = settings.n_features or 0
    if brought != expected:
        problem = f"have {brought} columns, tasks have {expected} features"
        raise InvalidInputError("features", problem, "pass features of evaluations as a task has them")
    return settings, given.padded(settings.context_width)


class WarmPolicy(NamedTuple):
    """A policy and its state after the lessons, and how many there were."""

    policy: Policy
    state: Arrays
    lessons: int


def teach(policy: Policy, state: Arrays, given: Evaluations, *, t: int, n_features: int, most: float) -> WarmPolicy:
    """The policy taught with the evaluations, from round ``t`` on; ``state`` is not changed.

    ``most`` lessons per agent at most: beyond that all weights are scaled down alike.
    """
    inner = policy.policy if isinstance(policy, WarmStart) else policy
    lessons = list(_lessons(given, most if inner.predicts else min(most, _UNTESTED)))
    if not lessons:
        return WarmPolicy(policy, state, 0)
    copy = {name: array.copy() for name, array in state.items()}
    if not inner.predicts:
        _learn(inner, copy, lessons, given=given, t=t)
        return WarmPolicy(policy, copy, len(lessons))
    already = policy.taught if isinstance(policy, WarmStart) else 0
    warm = {k.removeprefix("warm_"): v for k, v in copy.items() if k.startswith("warm_")} if already else dict(copy)
    rows = _learn(inner, warm, lessons, given=given, t=t + already)
    cold = copy if already else {f"cold_{name}": array.copy() for name, array in state.items()}
    found = WarmStart(inner, already + rows)
    trial = {name: field for name, field in found.schema(n_features).items() if name in ("lead", "compared")}
    fresh = allocate(trial, (), len(given.agents))
    return WarmPolicy(found, cold | {f"warm_{name}": array for name, array in warm.items()} | fresh, len(lessons))


def _learn(policy: Policy, state: Arrays, lessons: list[tuple[int, int]], *, given: Evaluations, t: int) -> int:
    """Apply the lessons in order; returns the number of rounds they represent."""
    m, none = len(given.agents), np.zeros(len(given.agents))
    certain, one_of = np.ones(m), np.eye(m, dtype=bool)
    for number, (row, agent) in enumerate(lessons):
        reward: Floats = np.full(m, given.rewards[row, agent])
        context = None if given.features is None else given.features[row]
        when = t + number // m
        policy.update(state, Feedback(when, np.array(agent), one_of[agent], reward, certain, none, context))
    return -(-len(lessons) // m)


def _lessons(given: Evaluations, most: float) -> Iterator[tuple[int, int]]:
    """(row, agent) of each lesson. Weights accumulate per agent; a lesson is due when the sum passes an integer.

    A table with several agents per row has no order that means anything: its lessons are shuffled, by a fixed seed, so
    that the first ones show many different tasks and no group of rows looks like a change of the world.
    """
    known = np.isfinite(given.rewards)
    times = _times(np.where(known, np.asarray(given.weight)[:, None], 0.0), most)
    pairs = np.argwhere(times)
    if (np.count_nonzero(known, axis=1) > 1).any():
        pairs = np.random.default_rng(0).permutation(pairs)
    for row, agent in pairs:
        yield from [(int(row), int(agent))] * int(times[row, agent])


def row_lessons(given: Evaluations, most: float) -> Ints:
    """Rows with rewards of evaluations, each as often as it counts, in a fixed random order."""
    known = np.isfinite(given.rewards).any(axis=1)
    times = _times(np.where(known, np.asarray(given.weight), 0.0)[:, None], most)[:, 0]
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(given)), times))


def _times(weight: Floats, most: float) -> Ints:
    """How often each cell is taught, (n, k), at most ``most`` per column: when its sum of weights passes an integer."""
    scaled = weight * np.minimum(1.0, most / np.maximum(weight.sum(axis=0), 1e-300))
    due = np.floor(np.cumsum(scaled, axis=0) + 1e-9)
    return np.diff(due, axis=0, prepend=0.0).astype(int)
