"""Memory of a profile: all outcomes, a sliding window, or exponentially decaying weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from bot_orch.arrays import Floats, Ints
from bot_orch.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Memory:
    """Weights of past outcomes. Use :meth:`everything`, :meth:`window` or :meth:`fading`.

    Parameters
    ----------
    mode
        ``all``, ``window`` or ``decay``.
    size
        Length of the window; in other modes the maximal number of support points of a quantile digest.
        Beyond it the two nearest points are merged, and the state's ``error`` bounds the resulting W1 error.
    half_life
        Number of later outcomes after which a weight has halved (``decay``).

    Examples
    --------
    >>> Memory.window(100).effective(np.array([3, 250]))
    array([  3., 100.])
    >>> Memory.fading(half_life=10).effective(np.array([10**6])).round(2)
    array([28.87])
    """

    mode: str = "all"
    size: int = 512
    half_life: float = math.inf

    def __post_init__(self) -> None:
        if self.mode not in ("all", "window", "decay"):
            raise InvalidInputError("memory.mode", f"is {self.mode!r}", "pass 'all', 'window' or 'decay'")
        if self.size < 2:
            raise InvalidInputError("memory.size", f"is {self.size}", "pass two or more")
        if self.mode == "decay" and not 0 < self.half_life < math.inf:
            raise InvalidInputError("memory.half_life", f"is {self.half_life}", "pass a positive number of outcomes")

    @classmethod
    def everything(cls, size: int = 512) -> Self:
        """All outcomes have equal weight."""
        return cls("all", size)

    @classmethod
    def window(cls, size: int = 256) -> Self:
        """The last ``size`` outcomes have equal weight, older ones none."""
        return cls("window", size)

    @classmethod
    def fading(cls, half_life: float = 50.0, size: int = 512) -> Self:
        """An outcome's weight halves every ``half_life`` later outcomes of the same agent."""
        return cls("decay", size, half_life)

    @property
    def factor(self) -> float:
        """Decay factor of all weights per new outcome."""
        return 0.5 ** (1.0 / self.half_life) if self.mode == "decay" else 1.0

    def mass(self, seen: Ints) -> Floats:
        """The sum of weights after ``seen`` outcomes."""
        if self.mode == "decay":
            return np.asarray((1.0 - self.factor**seen) / (1.0 - self.factor), dtype=float)
        return np.minimum(seen, self.size if self.mode == "window" else np.inf).astype(float)

    def effective(self, seen: Ints) -> Floats:
        """The effective sample size (sum w)^2 / sum w^2 after ``seen`` outcomes."""
        if self.mode != "decay":
            return self.mass(seen)
        g = self.factor
        return np.asarray((1.0 - g**seen) * (1.0 + g) / ((1.0 + g**seen) * (1.0 - g)), dtype=float)

    def spec(self) -> dict[str, Any]:
        """Plain JSON values."""
        document = asdict(self)
        return document if self.mode == "decay" else {**document, "half_life": None}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        half_life = document.get("half_life")
        return cls(document["mode"], document["size"], math.inf if half_life is None else half_life)
