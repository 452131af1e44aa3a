"""Policy interface: map state and situation to a probability per agent, and learn from feedback.

A policy never draws. It returns the full probability vector, and one shared function draws from it. Propensities are
therefore exact for every policy and can be tested by counting.

All arrays carry leading batch dimensions: online ``(M,)``, in an experiment ``(seeds, M)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema
from bot_orch.policies.estimators import Estimator

__all__ = ["Choice", "EstimatorPolicy", "Feedback", "Policy", "Situation", "no_exploration"]


@dataclass(frozen=True, slots=True)
class Situation:
    """Information available before the choice.

    Parameters
    ----------
    t
        Round number, from 1; drives schedules.
    penalty
        lambda * W + cost, per agent.
    eligible
        Which agents may be chosen; ``None`` means all.
    context
        Features of the task, for contextual policies.
    pending
        Number of decisions per agent without an outcome; ``None`` means none.
    cost
        The part of the penalty that is the agents' expected cost; ``None`` means none.
    """

    t: int
    penalty: Floats
    eligible: Bools | None = None
    context: Floats | None = None
    pending: Floats | None = None
    cost: Floats | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Propensities, and the policy's two score terms: estimate and exploration bonus."""

    propensities: Floats
    estimate: Floats
    exploration: Floats


@dataclass(frozen=True, slots=True)
class Feedback:
    """Observed rewards. Under bandit feedback one agent per row is observed, under full feedback all are.

    Parameters
    ----------
    t
        Round of the decision.
    agent
        Index of the chosen agent, shape ``batch``.
    observed
        Mask of agents with a known reward, ``batch + (M,)``.
    reward
        Rewards, ``batch + (M,)``; meaningless where not observed.
    propensities, penalty, context
        Values at decision time.
    """

    t: int
    agent: Ints
    observed: Bools
    reward: Floats
    propensities: Floats
    penalty: Floats
    context: Floats | None = None


class Policy(ABC):
    """Base class. A subclass is a frozen dataclass of settings; the caller owns the state arrays.

    ``predicts`` says whether ``Choice.estimate`` is the expected reward; a warm start is tested against it.
    """

    id: ClassVar[str]
    uses_alignment: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    @abstractmethod
    def schema(self, n_features: int) -> Schema:
        """State arrays of this policy."""

    @abstractmethod
    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probabilities over agents. Must not change ``state``."""

    @abstractmethod
    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn from feedback; updates ``state`` in place."""


def no_exploration(estimate: Floats) -> Floats:
    """A zero exploration term with the shape of ``estimate``."""
    return np.zeros_like(estimate)


class EstimatorPolicy(Policy):
    """A policy with a plug-in reward estimator: a subclass implements only :meth:`choose`."""

    estimator: Estimator

    def schema(self, n_features: int) -> Schema:
        """State arrays of the estimator."""
        return self.estimator.schema()

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Update the estimator with the observed rewards."""
        self.estimator.update(state, feedback.observed, feedback.reward)

    def seen(self, state: Arrays, situation: Situation) -> Floats:
        """Number of rewards behind each estimate, plus pending decisions."""
        count = self.estimator.count(state)
        return count if situation.pending is None else count + situation.pending
