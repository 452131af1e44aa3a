"""From an outcome to the number a policy learns from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from bot_orch.errors import InvalidInputError
from bot_orch.types import Outcome

__all__ = ["BoundedReward", "RewardModel", "reward_from_spec"]


class RewardModel(ABC):
    """Reads a reward off an outcome."""

    id: ClassVar[str]

    @abstractmethod
    def __call__(self, outcome: Outcome) -> float | None:
        """A reward in [0, 1], or ``None`` where the outcome teaches nothing about the reward."""

    def spec(self) -> dict[str, Any]:
        """Settings as plain JSON values."""
        return {"id": self.id}


@dataclass(frozen=True, slots=True)
class BoundedReward(RewardModel):
    """The reward the caller gave. A censored outcome without one teaches nothing: silence is not zero."""

    id: ClassVar[str] = "bounded"

    def __call__(self, outcome: Outcome) -> float | None:
        """``outcome.reward``, required of a completed outcome."""
        if outcome.event and outcome.reward is None:
            raise InvalidInputError("outcome.reward", "is missing", "pass a reward in [0, 1]")
        return outcome.reward


def reward_from_spec(spec: dict[str, Any]) -> RewardModel:
    """The inverse of :meth:`RewardModel.spec`."""
    models: dict[str, type[RewardModel]] = {BoundedReward.id: BoundedReward}
    name = spec.get("id")
    if name not in models:
        raise InvalidInputError("reward.id", f"{name!r} is not known", f"choose one of {', '.join(models)}")
    return models[str(name)]()
