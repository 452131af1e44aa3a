"""A stream of rounds for many seeds at once, and sources of alignment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Stream:
    """Potential outcomes of every agent; time is the first axis, so that a round is one contiguous block.

    Parameters
    ----------
    reward
        ``(T, seeds, M)``: what every agent would earn, in [0, 1].
    alignment
        ``(T, seeds, M)``: the alignment cost that results are scored with.
    context
        ``(T, seeds, d)`` features known before the choice, or ``None``.
    claims
        ``(T, seeds, M)`` probability of being right that each agent states of itself, or ``None``.
    """

    reward: Floats
    alignment: Floats
    context: Floats | None = None
    claims: Floats | None = None

    def __post_init__(self) -> None:
        if self.reward.shape != self.alignment.shape or self.reward.ndim != 3:
            problem = f"has shape {self.alignment.shape}, reward has {self.reward.shape}"
            raise InvalidInputError("alignment", problem, "pass two arrays of shape (T, seeds, M)")
        if not (np.all(self.reward >= 0.0) and np.all(self.reward <= 1.0)):
            raise InvalidInputError("reward", "leaves [0, 1]", "rescale rewards")

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.reward.shape[0])

    @property
    def seeds(self) -> int:
        """Number of seeds stepping together."""
        return int(self.reward.shape[1])

    @property
    def agents(self) -> int:
        """M."""
        return int(self.reward.shape[2])


class AlignmentSource(ABC):
    """Source of the W that a policy sees; it may learn from what the policy observed."""

    @abstractmethod
    def at(self, t: int) -> Floats:
        """W ``(seeds, M)`` before the choice of round ``t`` (from 0)."""

    def learn(self, t: int, agent: Ints, reward: Floats) -> None:  # noqa: B027
        """Learn the rewards of the chosen agents in round ``t``; does nothing by default."""


@dataclass(frozen=True, slots=True)
class GivenAlignment(AlignmentSource):
    """Alignment costs laid out beforehand, ``(T, seeds, M)``."""

    values: Floats

    def at(self, t: int) -> Floats:
        """Row ``t``."""
        row: Floats = self.values[t]
        return row


@dataclass(frozen=True, slots=True)
class NoAlignment(AlignmentSource):
    """No alignment: all zeros."""

    shape: tuple[int, int]

    def at(self, t: int) -> Floats:
        """Zeros."""
        return np.zeros(self.shape)
