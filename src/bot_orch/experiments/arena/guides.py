"""Alignment for policies that have none of their own: how far an agent's outputs lie from the tasks' references."""

from __future__ import annotations

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.environments.replay import After, Before, Setup
from bot_orch.experiments.arena.players import Guide

__all__ = ["EmbeddingGuide", "embedding_guide"]


class EmbeddingGuide(Guide):
    """lambda times the mean distance between output and reference of the same task, in units of typical distances.

    Output and reference of one task are a coupling of the agent's outcomes with what tasks want, so their mean distance
    is an upper bound of W1 between the two distributions. It is divided by the mean distance between references of
    different tasks, so that 1 means "no closer than somebody else's answer" in every embedding. An agent seen n times
    gets n / (n + 2) of it: who was seen twice is not condemned.
    """

    def __init__(self, setup: Setup, lambda_: float = 1.0) -> None:
        self._lambda, self._rows = lambda_, np.arange(setup.seeds)
        self._total, self._count = (np.zeros((setup.seeds, setup.agents)) for _ in range(2))
        self._previous: Floats | None = None
        self._scale, self._pairs = np.zeros((setup.seeds, 1)), 0

    def penalty(self, before: Before) -> Floats:
        """Zero before the first outcome of an agent, and while references have not been told apart."""
        unit = self._scale / max(self._pairs, 1)
        mean = self._total / (self._count + 2.0)
        return self._lambda * np.divide(mean, unit, out=np.zeros_like(mean), where=unit > 0.0)

    def learn(self, before: Before, after: After) -> None:
        """Add the distance of this output to this reference."""
        if before.reference is None or after.output is None:
            return
        gap = np.sqrt(np.add.reduce((after.output - before.reference) ** 2, axis=-1))
        known = np.isfinite(gap)
        self._total[self._rows, after.agent] += np.where(known, gap, 0.0)
        self._count[self._rows, after.agent] += known
        if self._previous is not None:
            apart = np.sqrt(np.add.reduce((before.reference - self._previous) ** 2, axis=-1, keepdims=True))
            self._scale += np.where(np.isfinite(apart), apart, 0.0)
            self._pairs += 1
        self._previous = before.reference


def embedding_guide(setup: Setup) -> EmbeddingGuide | None:
    """A guide where the set has both embeddings, else None."""
    return EmbeddingGuide(setup) if setup.output_dim and setup.reference_dim else None
