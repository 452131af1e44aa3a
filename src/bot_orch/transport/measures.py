"""Typed measures: the type says what the numbers mean, so that probabilities are never taken for samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError

__all__ = ["Labels"]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """A distribution over a finite set of labels ``0 .. K-1``.

    Examples
    --------
    >>> Labels([0.2, 0.8]).probabilities.sum()
    np.float64(1.0)
    >>> Labels.one_hot(1, 3).probabilities
    array([0., 1., 0.])
    """

    probabilities: Floats
    kind: ClassVar[str] = "labels"

    def __init__(self, probabilities: npt.ArrayLike) -> None:
        p = np.array(probabilities, dtype=float)
        if p.ndim != 1 or p.size == 0:
            raise InvalidInputError("probabilities", f"has shape {p.shape}", "pass one number per label")
        if not np.all(np.isfinite(p)) or np.any(p < 0):
            raise InvalidInputError("probabilities", "holds a negative or non-finite number", "pass probabilities")
        if abs(p.sum() - 1.0) > 1e-6:
            raise InvalidInputError("probabilities", f"sum to {p.sum():.6g}", "divide by their sum")
        p /= p.sum()
        p.flags.writeable = False
        object.__setattr__(self, "probabilities", p)

    @classmethod
    def one_hot(cls, label: int, n_labels: int) -> Labels:
        """All mass on one label."""
        if not 0 <= label < n_labels:
            raise InvalidInputError("label", f"is {label}", f"pass a number from 0 to {n_labels - 1}")
        p = np.zeros(n_labels)
        p[label] = 1.0
        return cls(p)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": self.kind, "probabilities": self.probabilities.tolist()}
