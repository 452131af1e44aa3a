"""What a policy is: it turns what is known into a probability per agent, and learns from what came back.

A policy never draws. It returns the full probability vector; one shared function draws from it. So the propensity of
every decision is exact, whatever the policy, and can be tested by counting.

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
    """What is known before the choice.

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
        How many choices of each agent still wait for their outcome; ``None`` means none.
    cost
        The part of the penalty that was known beforehand, the agents' prices; ``None`` means none.
    """

    t: int
    penalty: Floats
    eligible: Bools | None = None
    context: Floats | None = None
    pending: Floats | None = None
    cost: Floats | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Probabilities, and the two parts of the score that the policy contributes."""

    propensities: Floats
    estimate: Floats
    exploration: Floats


@dataclass(frozen=True, slots=True)
class Feedback:
    """What came back. Under bandit feedback one agent per row is observed; under full feedback all are.

    Parameters
    ----------
    t
        Round of the decision.
    agent
        Index of the chosen agent, shape ``batch``.
    observed
        Whose reward is known, ``batch + (M,)``.
    reward
        Rewards, ``batch + (M,)``; meaningless where not observed.
    propensities, penalty, context
        As they were when the decision was made.
    """

    t: int
    agent: Ints
    observed: Bools
    reward: Floats
    propensities: Floats
    penalty: Floats
    context: Floats | None = None


class Policy(ABC):
    """Base class. A subclass is a frozen dataclass of settings; its state lives in arrays that the caller owns."""

    id: ClassVar[str]
    uses_alignment: ClassVar[bool] = True

    @abstractmethod
    def schema(self, n_features: int) -> Schema:
        """The state arrays this policy keeps."""

    @abstractmethod
    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probabilities over agents. Must not change ``state``."""

    @abstractmethod
    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn, changing ``state`` in place."""


def no_exploration(estimate: Floats) -> Floats:
    """A zero exploration term of the right shape."""
    return np.zeros_like(estimate)


class EstimatorPolicy(Policy):
    """A policy over a plug-in estimator: the subclass writes only the choice."""

    estimator: Estimator

    def schema(self, n_features: int) -> Schema:
        """The estimator's arrays."""
        return self.estimator.schema()

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """The estimator's update."""
        self.estimator.update(state, feedback.observed, feedback.reward)

    def seen(self, state: Arrays, situation: Situation) -> Floats:
        """Rewards behind each estimate, choices still waiting for their outcome included."""
        count = self.estimator.count(state)
        return count if situation.pending is None else count + situation.pending
