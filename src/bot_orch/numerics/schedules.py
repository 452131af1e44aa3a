"""Schedules of a learning rate or temperature over rounds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from bot_orch.errors import InvalidInputError


class Schedule(ABC):
    """A positive value for every round t = 1, 2, ..."""

    id: ClassVar[str]

    @abstractmethod
    def __call__(self, t: int) -> float:
        """The value at round ``t``."""


@dataclass(frozen=True, slots=True)
class Constant(Schedule):
    """The same value in every round."""

    value: float
    id: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        _positive("value", self.value)

    def __call__(self, t: int) -> float:
        """``value``."""
        return self.value


@dataclass(frozen=True, slots=True)
class Power(Schedule):
    """``scale * t ** exponent``; exponent -1/2 is assumption (A5) of the paper.

    Examples
    --------
    >>> Power(2.0, -0.5)(4)
    1.0
    """

    scale: float
    exponent: float = -0.5
    id: ClassVar[str] = "power"

    def __post_init__(self) -> None:
        _positive("scale", self.scale)

    def __call__(self, t: int) -> float:
        """``scale * t ** exponent``."""
        return float(self.scale * t**self.exponent)


@dataclass(frozen=True, slots=True)
class LogGrowth(Schedule):
    """``scale * (1 + log t)``: an increasing inverse temperature, so that exploration decreases.

    Examples
    --------
    >>> LogGrowth(5.0)(1)
    5.0
    """

    scale: float
    id: ClassVar[str] = "log-growth"

    def __post_init__(self) -> None:
        _positive("scale", self.scale)

    def __call__(self, t: int) -> float:
        """``scale * (1 + log t)``."""
        return self.scale * (1.0 + math.log(t))


def as_schedule(value: float | Schedule) -> Schedule:
    """Convert a number to a constant schedule."""
    return value if isinstance(value, Schedule) else Constant(float(value))


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInputError(f"schedule.{name}", f"is {value}", "pass a positive number")
