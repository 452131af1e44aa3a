"""Worlds for the fingerprints: tasks and potential outcomes of every agent, drawn beforehand.

What an agent would return does not depend on who was chosen before, so two runs that differ in one decision still meet
the same tasks and the same outcomes. Only uniform numbers of PCG64 are drawn: their stream never changes.
"""

import math
from dataclasses import dataclass

import numpy as np

from bot_orch.transport.measures import Cloud, Gaussian, Labels, Samples
from bot_orch.types import Measure, Outcome, Task

AGENTS = ("a", "b", "c", "d")  # d comes later
SKILL = {"a": 0.45, "b": 0.6, "c": 0.7, "d": 0.8}
SHIFT = {"a": 0.0, "b": 0.2, "c": 1.3, "d": 0.5}  # how far outputs lie from the reference
ROUNDS, ADDED, REMOVED = 150, 50, 100


@dataclass(frozen=True)
class Round:
    """A task, who may take it, what each agent would return, and how many rounds later."""

    task: Task
    eligible: tuple[str, ...] | None
    outcomes: dict[str, Outcome]
    delay: int


class Draws:
    """Uniform numbers and what is made of them."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def uniform(self) -> float:
        return float(self._rng.random())

    def normal(self) -> float:
        return math.sqrt(-2.0 * math.log(1.0 - self.uniform())) * math.cos(2.0 * math.pi * self.uniform())


def labels(draws: Draws, centre: float, shift: float, *, sharp: bool) -> Measure:
    logits = [-abs(label - centre - shift) + 0.3 * draws.normal() for label in range(3)]
    if sharp:
        return Labels.one_hot(int(np.argmax(logits)), 3)
    weights = [math.exp(3.0 * value) for value in logits]
    return Labels([weight / math.fsum(weights) for weight in weights])


def samples(draws: Draws, centre: float, shift: float, *, sharp: bool) -> Measure:
    spread = 0.3
    return Samples([centre + shift + spread * draws.normal() for _ in range(1 if sharp else 5)])


def cloud(draws: Draws, centre: float, shift: float, *, sharp: bool) -> Measure:
    points = [[centre + shift + 0.3 * draws.normal(), 0.3 * draws.normal() - shift] for _ in range(1 if sharp else 4)]
    return Cloud(points)


def gaussian(draws: Draws, centre: float, shift: float, *, sharp: bool) -> Measure:
    """References are Gaussians, outputs a few points."""
    if sharp:
        return cloud(draws, centre, shift, sharp=False)
    mean = [centre + shift + 0.2 * draws.normal(), shift]
    return Gaussian(mean, [[0.4 + 0.2 * draws.uniform(), 0.1], [0.1, 0.5]])


KINDS = {"labels": labels, "samples": samples, "cloud": cloud, "gaussian": gaussian}


def world(seed: int, kind: str | None, n_features: int, *, references: bool) -> list[Round]:
    """All rounds of a world; ``kind`` is that of the outputs, or None."""
    draws = Draws(seed)
    return [_round(draws, t, kind, n_features, references) for t in range(ROUNDS)]


def _round(draws: Draws, t: int, kind: str | None, n_features: int, references: bool) -> Round:
    centre = 2.0 * draws.uniform()
    features = tuple(draws.normal() for _ in range(n_features))
    wanted = draws.uniform() < 0.9
    make = None if kind is None else KINDS[kind]
    reference = make(draws, centre, 0.0, sharp=False) if make is not None else None
    outcomes = {agent: _outcome(draws, agent, centre, features, t, make) for agent in AGENTS}
    chance, late = draws.uniform(), int(16 * draws.uniform())
    delay = 0 if chance < 0.6 else 1 if chance < 0.75 else 5 + late
    eligible = None if draws.uniform() < 0.8 else (("a", "c") if draws.uniform() < 0.5 else ("c",))
    task = Task(f"t{t}", features=features, reference=reference if references and wanted else None)
    return Round(task, eligible, outcomes, delay)


def _outcome(draws: Draws, agent: str, centre: float, features: tuple[float, ...], t: int, make) -> Outcome:
    tilt = 0.25 * features[0] * (1.0 if agent in "ac" else -1.0) if features else 0.0
    turned = 0.2 if agent == "a" and t > 90 else 0.0
    reward = min(max(SKILL[agent] + tilt + turned + 0.25 * draws.normal(), 0.0), 1.0)
    elapsed = (1.0 + 2.0 * SHIFT[agent]) * math.exp(0.5 * draws.normal())
    moved = SHIFT[agent] + (2.5 if agent == "c" and t > 90 else 0.0)
    output = None if make is None else make(draws, centre, moved, sharp=True)
    if draws.uniform() < 0.1:
        return Outcome.censored(elapsed_s=elapsed, reason="deadline" if draws.uniform() < 0.7 else "crash")
    return Outcome.completed(round(reward, 6), elapsed_s=elapsed, output=output)
