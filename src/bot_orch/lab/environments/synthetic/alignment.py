"""Alignment of synthetic agents: exact W2 between clouds of outputs and the reference cloud of a task.

An agent's outputs are a cloud about its place on a circle; its spread and shape are those of the agent's latent
reward, so an unsteady agent scatters. A task asks for a narrow cloud about its own place x_t. Between clouds

    W2(nu, mu)^2 = |mean(nu) - mean(mu)|^2 + W2(nu centred, mu centred)^2                              (exact)

and the second term does not depend on where the clouds lie. So one assignment problem per agent, solved exactly by
:class:`~bot_orch.transport.CostCloud`, gives the distances of every round in closed form. Scaling both clouds by c
scales the second term by c, and the W2 barycenter of translates of one cloud is its translate to the mean place: the
barycenter references need no solver either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.synthetic.settings import COMMON, Law, Setting
from bot_orch.lab.environments.synthetic.tasks import SHAPES
from bot_orch.rng import generator
from bot_orch.transport import Cloud, CostCloud, distance

#: Whose place the policy's reference takes: this task's, or the barycenter of all, the last or the recent tasks before.
ReferenceKind = Literal["task", "global", "window", "fading"]
REFERENCES: tuple[ReferenceKind, ...] = get_args(ReferenceKind)
_WINDOW, _HALF_LIFE = 20, 10.0


def places(radius: float, agents: int = COMMON.agents) -> Floats:
    """Positions of the agents, ``(M, 2)``."""
    angle = 2.0 * np.pi * np.arange(agents) / agents
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)


@lru_cache(maxsize=64)
def agent_cloud(law: Law, agent: int) -> Cloud:
    """The agent's outputs, centred at the origin, with the exact sd of its law."""
    g = generator("synthetic-cloud", law.shape, agent).normal(size=(COMMON.cloud_points, 2))
    return Cloud(law.sd * _standardised(SHAPES[law.shape](g)))


@lru_cache(maxsize=1)
def reference_cloud() -> Cloud:
    """The reference outputs of a task, centred at the origin."""
    g = generator("synthetic-cloud", "reference").normal(size=(COMMON.cloud_points, 2))
    return Cloud(COMMON.reference_sd * _standardised(g))


@lru_cache(maxsize=64)
def shape_term(law: Law, agent: int) -> float:
    """W2 between the two centred clouds."""
    geometry = CostCloud(dimension=2, capacity=COMMON.cloud_points, order=2)
    return distance(geometry, agent_cloud(law, agent), reference_cloud())


def alignment(setting: Setting, task: Floats, laws: list[tuple[Law, ...]], *, segment: Floats) -> Floats:
    """W2 between the reference at ``task`` (T, seeds, 2) and every agent's outputs: ``(T, seeds, M)``.

    ``laws`` are those of each segment, ``segment`` (T,) says which one a round lies in.
    """
    shapes = np.array([[shape_term(law, i) for i, law in enumerate(part)] for part in laws])
    apart = task[..., None, :] - places(setting.radius, len(laws[0]))
    squared = np.einsum("tsmk,tsmk->tsm", apart, apart)
    squared += (setting.output_spread * shapes[segment.astype(np.int64)][:, None]) ** 2
    w: Floats = np.sqrt(squared)
    return w


def reference_places(task: Floats, reference: ReferenceKind) -> Floats:
    """Positions of the reference in each round, ``(T, seeds, 2)``; all but ``task`` use only earlier tasks.

    Before any task has been seen a barycenter lies at the origin, the centre of the agents.
    """
    if reference == "task":
        return task
    if reference not in REFERENCES:
        raise InvalidInputError("reference", f"is {reference!r}", f"pass one of {', '.join(REFERENCES)}")
    out = np.zeros_like(task)
    if reference == "fading":
        keep, total, mass = 0.5 ** (1.0 / _HALF_LIFE), np.zeros(task.shape[1:]), 0.0
        for t in range(1, len(task)):
            total, mass = keep * total + task[t - 1], keep * mass + 1.0
            out[t] = total / mass
        return out
    sums = np.concatenate([np.zeros_like(task[:1]), np.cumsum(task, axis=0)])
    end = np.arange(1, len(task))
    start = np.zeros_like(end) if reference == "global" else np.maximum(end - _WINDOW, 0)
    out[1:] = (sums[end] - sums[start]) / (end - start)[:, None, None]
    return out


def _standardised(points: Floats) -> Floats:
    centred = points - points.mean(axis=0)
    unit: Floats = centred / centred.std(axis=0)
    return unit
