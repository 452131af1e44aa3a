"""Warm start on half of a table, as available to a user before the first request."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.core.constraints import Objective
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.settings import Settings
from bot_orch.lab.environments.matrix.check import known_mean
from bot_orch.lab.environments.matrix.context import inputs_of
from bot_orch.lab.environments.matrix.model import Matrix
from bot_orch.lab.environments.replay.bandit import Replay
from bot_orch.lab.harness.replay_metrics import by_group, filled, net_weight, task_groups, valued
from bot_orch.rng import derive_key
from bot_orch.types import Agent, Outcome, Task

_SEEDS = 5  # routers are played one by one, as a user runs them
FEWEST = 20  # tasks: with fewer, equal rewards by chance make intervals of no width


def warm_start(replay: Replay, floor: float = Settings.floor) -> dict[str, Any] | None:
    """Teach the default router the first half of the tasks, play the rest, and compare with that half's best agent.

    None for runtimes, for tasks that are played more than once, and for fewer than forty.
    """
    matrix, half = replay.matrix, replay.rounds // 2
    if matrix.runtime_only or replay.rounds > len(matrix.playable) or half < FEWEST:
        return None
    weight = net_weight(replay)
    values = valued(replay, weight)
    metric = "net" if weight else "reward"
    seeds, tasks, names = replay.seeds[:_SEEDS], _tasks(matrix), Counter[str]()
    played = replay.rows[half:, : len(seeds)]
    single, chosen = np.empty((2, *played.shape), dtype=np.int64)
    for column, seed in enumerate(seeds):
        taught = replay.rows[:half, column]
        best = int(np.nanargmax(_means(matrix, values[metric], taught)))
        names[matrix.agents[best]] += 1
        single[:, column] = best
        chosen[:, column] = _played(
            matrix, tasks, taught, played=played[:, column], seed=seed, weight=weight, floor=floor
        )
    agent = names.most_common(1)[0][0]
    about = {"taught": half, "played": len(played), "seeds": len(seeds), "agent": agent, "metric": metric}
    group = task_groups(matrix)[played]

    def payload(agents: Ints) -> dict[str, Any]:
        got = {name: filled(replay, array)[played, agents] for name, array in values.items()}
        return {
            "groups": {name: by_group(group, each) for name, each in got.items()},
            "metrics": {name: each.mean(axis=0).tolist() for name, each in got.items()},
        }

    return {**about, "policy": payload(chosen), "single": payload(single)}


def _played(
    matrix: Matrix, tasks: list[Task], taught: Ints, *, played: Ints, seed: int, weight: float, floor: float
) -> Ints:
    """The agents that ``Orchestrator(agents)`` chooses for the played tasks after ``learn_from`` the taught ones."""
    names, index = list(matrix.agents), {name: at for at, name in enumerate(matrix.agents)}
    key = derive_key("arena warm", seed) >> 1
    usd = _means(matrix, matrix.cost_usd, taught) if weight and matrix.cost_usd is not None else [None] * len(names)
    agents = [
        Agent(name, price=None if price is None or not price >= 0.0 else price)
        for name, price in zip(names, usd, strict=True)
    ]
    router = Orchestrator(agents, seed=key, objective=Objective(usd=weight), floor=floor, ids="derived")
    known = np.where(matrix.eligible, matrix.reward, np.nan)
    has_context = bool(tasks[0].features) or tasks[0].text is not None
    router.learn_from(known[taught], tasks=[tasks[row] for row in taught] if has_context else None)
    chosen = np.empty(len(played), dtype=np.int64)
    for place, row in enumerate(played):
        able = matrix.eligible[row]
        eligible = None if able.all() else [name for name, can in zip(names, able, strict=True) if can]
        decision = router.decide(tasks[row], eligible)
        chosen[place] = at = index[decision.agent]
        paid = np.nan if matrix.cost_usd is None else float(matrix.cost_usd[row, at])
        reward = float(matrix.reward[row, at])
        router.observe(decision.id, Outcome.completed(reward, cost_usd=paid if np.isfinite(paid) else None))
    return chosen


def _tasks(matrix: Matrix) -> list[Task]:
    """The tasks as a user passes them: own features and text."""
    inputs = inputs_of(matrix)
    own: Floats = np.zeros((matrix.n_tasks, 0)) if inputs is None else inputs.values[:, : inputs.own]
    texts = [None] * matrix.n_tasks if matrix.text is None else [str(text) for text in matrix.text]
    return [Task(features=tuple(row.tolist()), text=text) for row, text in zip(own, texts, strict=True)]


def _means(matrix: Matrix, values: Floats, rows: Ints) -> Floats:
    """Mean of every agent over the tasks of ``rows`` that it can take; NaN if it can take none."""
    return known_mean(np.where(matrix.eligible, values, np.nan)[rows])
