"""Latency against a service-level target: outcomes in time are equal, late ones differ by their lateness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.checks import check_number
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.measures import Samples


@dataclass(frozen=True)
class Lateness(Scores):
    """W1 between distributions of lateness, (seconds - target) / target within [0, ``high``].

    The distance of an agent to :attr:`on_time` is its mean lateness in multiples of the target: 0 for an agent that
    meets the target, 1 for one that takes twice as long or longer. The unit of relative distances is a mean lateness of
    a quarter of the target.

    Parameters
    ----------
    target_s
        Seconds within which an outcome counts as in time.
    high
        Cap on lateness; 1 means late by one target.

    Examples
    --------
    >>> geometry = Lateness(target_s=2.0)
    >>> bank = np.stack([geometry.embed(Samples([0.1, 1.9])), geometry.embed(Samples([1.0, 3.0]))])
    >>> geometry.distances(bank, geometry.embed(geometry.on_time)).round(12)
    array([0.  , 0.25])
    """

    name: ClassVar[str] = "lateness"
    natural_unit: ClassVar[float] = 0.25
    target_s: float = 1.0

    def __post_init__(self) -> None:
        Scores.__post_init__(self)
        if check_number("lateness.target_s", self.target_s, "pass seconds, more than zero") <= 0.0:
            raise InvalidInputError("lateness.target_s", f"is {self.target_s}", "pass seconds, more than zero")
        if self.low != 0.0:
            raise InvalidInputError("lateness.low", f"is {self.low}", "leave it at 0: finishing early earns nothing")

    @property
    def on_time(self) -> Samples:
        """Reference distribution: every outcome exactly at the target."""
        return Samples([self.target_s])

    def lateness(self, seconds: Floats) -> Floats:
        """Lateness in multiples of the target, clipped to [0, ``high``]."""
        return np.asarray(np.clip((np.asarray(seconds) - self.target_s) / self.target_s, 0.0, self.high))

    def features(self, outcomes: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.scores.Scores`."""
        return super().features(self.lateness(outcomes))

    def check_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """Seconds, zero or more."""
        x = Geometry.check_outcome(self, outcome)
        if (x < 0.0).any():
            raise InvalidInputError("outcome", "is a negative time", "pass seconds")
        return x
