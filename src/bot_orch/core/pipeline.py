"""The pipeline: decide, then apply what came back. Experiments and the live router run these same two functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Ints
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.choice import draw, with_uniform_share

__all__ = ["Drawn", "apply", "bandit_feedback", "decide", "full_feedback"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """An agent per row, the probabilities it was drawn from, and the situation it was drawn in."""

    agent: Ints
    propensities: Floats
    choice: Choice
    situation: Situation


def decide(policy: Policy, state: Arrays, situation: Situation, u: npt.ArrayLike, floor: float = 0.0) -> Drawn:
    """Score, soften, mix with the floor, draw. ``u`` in [0, 1) is the only randomness."""
    choice = policy.choose(state, situation)
    p = with_uniform_share(choice.propensities, floor, situation.eligible)
    return Drawn(draw(p, u), p, choice, situation)


def apply(policy: Policy, state: Arrays, feedback: Feedback) -> None:
    """Learn from feedback, changing ``state`` in place."""
    policy.update(state, feedback)


def bandit_feedback(drawn: Drawn, reward: Floats) -> Feedback:
    """Only the chosen agent's reward is seen. ``reward`` has shape ``batch``."""
    observed: Bools = _one_hot(drawn.propensities.shape[-1])[drawn.agent]
    seen = np.broadcast_to(np.asarray(reward)[..., None], observed.shape)
    return _feedback(drawn, observed, seen)


def full_feedback(drawn: Drawn, rewards: Floats) -> Feedback:
    """Every agent's reward is seen: the algorithm as printed, and the theory. ``rewards`` is ``batch + (M,)``."""
    return _feedback(drawn, np.ones(rewards.shape, dtype=bool), rewards)


def _feedback(drawn: Drawn, observed: Bools, reward: Floats) -> Feedback:
    s = drawn.situation
    return Feedback(s.t, drawn.agent, observed, reward, drawn.propensities, s.penalty, s.context)


@lru_cache(maxsize=64)
def _one_hot(m: int) -> Bools:
    rows = np.eye(m, dtype=bool)
    rows.flags.writeable = False
    return rows
