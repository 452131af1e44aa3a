"""W_t(i): how far each agent's outcomes lie from what the task wants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.errors import InvalidInputError
from bot_orch.transport.labels import check_ground_cost, is_zero_one, label_distance, total_variation
from bot_orch.transport.measures import Labels
from bot_orch.types import Measure

__all__ = ["Alignment", "LabelAlignment", "alignment_from_spec"]


class Alignment(ABC):
    """Distances from one reference to every agent's profile; an agent without a profile has distance zero."""

    id: ClassVar[str]

    @abstractmethod
    def distances(self, reference: Measure, profiles: Sequence[Measure | None]) -> Floats:
        """W(reference, profile) for every agent."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Settings as plain JSON values."""


@dataclass(frozen=True, slots=True)
class LabelAlignment(Alignment):
    """Distributions over a finite label set under any ground cost; 0-1 cost unless one is given.

    Examples
    --------
    >>> LabelAlignment().distances(Labels([0.0, 1.0]), [Labels([0.1, 0.9]), None])
    array([0.1, 0. ])
    """

    ground_cost: Floats | None = None
    id: ClassVar[str] = "labels"
    _exact: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        if self.ground_cost is not None:
            cost = check_ground_cost(self.ground_cost)
            object.__setattr__(self, "ground_cost", cost)
            object.__setattr__(self, "_exact", is_zero_one(cost))

    def distances(self, reference: Measure, profiles: Sequence[Measure | None]) -> Floats:
        """Closed form for 0-1 cost, a small linear program per agent otherwise."""
        nu = _labels("task.reference", reference)
        w = np.zeros(len(profiles))
        for index, profile in enumerate(profiles):
            if profile is not None:
                mu = _labels("profile", profile)
                if mu.probabilities.shape != nu.probabilities.shape:
                    raise InvalidInputError("profile", "has another number of labels than the reference", "align them")
                w[index] = self._distance(nu.probabilities, mu.probabilities)
        return w

    def _distance(self, p: Floats, q: Floats) -> float:
        if self.ground_cost is None or self._exact:
            return float(total_variation(p, q))
        return label_distance(p, q, self.ground_cost)

    def spec(self) -> dict[str, Any]:
        """Settings as plain JSON values."""
        return {"id": self.id, "ground_cost": None if self.ground_cost is None else self.ground_cost.tolist()}


def alignment_from_spec(spec: dict[str, Any]) -> Alignment:
    """The inverse of :meth:`Alignment.spec`."""
    if spec.get("id") != LabelAlignment.id:
        raise InvalidInputError("alignment.id", f"{spec.get('id')!r} is not known", "choose labels")
    cost = spec.get("ground_cost")
    return LabelAlignment(None if cost is None else np.array(cost, dtype=float))


def _labels(name: str, measure: Measure) -> Labels:
    if not isinstance(measure, Labels):
        raise InvalidInputError(name, f"is a distribution of kind {measure.kind!r}", "pass Labels")
    return measure
