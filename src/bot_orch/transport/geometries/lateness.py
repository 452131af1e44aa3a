"""Seconds against a service-level target: what comes in time is alike, what comes late is as far as it is late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.geometries.base import Geometry
from bot_orch.transport.geometries.scores import Scores
from bot_orch.transport.measures import Samples

__all__ = ["Lateness"]


@dataclass(frozen=True)
class Lateness(Scores):
    """W1 between distributions of lateness, (seconds - target) / target within [0, ``high``].

    The distance of an agent to :attr:`on_time` is its mean lateness in targets: 0 for an agent that keeps the target, 1
    for one that needs twice as long or longer. Where lambda calibrates itself, a quarter of a target late on average is
    the unit: as far as somebody else's answer.

    Parameters
    ----------
    target_s
        Seconds within which an outcome counts as in time.
    high
        Lateness beyond which it makes no difference; 1 is one target late.

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
        if not (np.isfinite(self.target_s) and self.target_s > 0.0):
            raise InvalidInputError("lateness.target_s", f"is {self.target_s}", "pass seconds, more than zero")
        if self.low != 0.0:
            raise InvalidInputError("lateness.low", f"is {self.low}", "leave it at 0: nobody is rewarded for haste")

    @property
    def on_time(self) -> Samples:
        """The reference of a service-level target."""
        return Samples([self.target_s])

    def lateness(self, seconds: Floats) -> Floats:
        """In targets, within the bounds."""
        return np.asarray(np.clip((np.asarray(seconds) - self.target_s) / self.target_s, 0.0, self.high))

    def features(self, outcomes: Floats) -> Floats:
        """See :class:`~bot_orch.transport.geometries.scores.Scores`."""
        return super().features(self.lateness(outcomes))

    def check_outcome(self, outcome: npt.ArrayLike) -> Floats:
        """Any number of seconds."""
        x = Geometry.check_outcome(self, outcome)
        if (x < 0.0).any():
            raise InvalidInputError("outcome", "is a negative time", "pass seconds")
        return x
