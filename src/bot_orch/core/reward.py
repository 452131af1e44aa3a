"""Reward models: from an outcome to the reward that a policy learns from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from bot_orch.arrays import Arrays, Floats, Ints, Schema, row_views
from bot_orch.errors import InvalidInputError
from bot_orch.survival.causes import cause_of
from bot_orch.survival.kaplan_meier import OnlineKaplanMeier
from bot_orch.survival.reward import live_reward
from bot_orch.types import Outcome, RewardRange


@dataclass(frozen=True)
class RewardModel(ABC):
    """Computes a reward from an outcome; it may learn from outcomes, with state held by the orchestrator."""

    id: ClassVar[str]

    @property
    def range(self) -> RewardRange:
        """The rewards that callers may report: [0, 1], unless the model says otherwise."""
        return RewardRange()

    @property
    def schema(self) -> Schema:
        """State arrays; empty for a model without state."""
        return {}

    @abstractmethod
    def read(self, state: Arrays, agent: int, outcome: Outcome) -> float | None:
        """Reward in [0, 1], or ``None`` if the outcome has none; that of the outcome is in [0, 1]. No side effects."""

    def learn(self, state: Arrays, agent: int, outcome: Outcome) -> None:  # noqa: B027
        """Update the state with an outcome, after :meth:`read`. The default has no state."""

    def spec(self) -> dict[str, Any]:
        """Settings as JSON values; :func:`reward_from_spec` is the inverse."""
        return {"id": self.id, **asdict(self)}


@dataclass(frozen=True)
class BoundedReward(RewardModel):
    """The reward reported by the caller, from ``low`` to ``high``.

    A ``timeout`` without a reward means that the agent exceeded its own time limit; its reward is the lowest one. Any
    other outcome without a reward has none here; :mod:`bot_orch.core.completion` decides what it teaches.

    The orchestrator learns rewards on the unit scale, from 0 to 1. All that it is told and tells is in the units of
    the reward, penalties and their weights as well; only the loss of a guarantee is a share of the range.

    Examples
    --------
    >>> from bot_orch import Orchestrator, Task
    >>> router = Orchestrator(["a", "b"], "ucb1", reward=BoundedReward(low=1, high=5), floor=0.0)
    >>> for _ in range(9):
    ...     decision = router.decide(Task())
    ...     router.observe(decision.id, Outcome.completed(reward=4.0 if decision.agent == "a" else 2.0))
    >>> router.derive(Task()).terms.estimate
    array([4., 2.])
    """

    low: float = 0.0
    high: float = 1.0
    id: ClassVar[str] = "bounded"

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", self.range.low)
        object.__setattr__(self, "high", self.range.high)

    @property
    def range(self) -> RewardRange:
        """The rewards from ``low`` to ``high``."""
        return RewardRange(self.low, self.high)

    def read(self, state: Arrays, agent: int, outcome: Outcome) -> float | None:
        """``outcome.reward``; zero if the agent exceeded its time limit."""
        return 0.0 if self.ran_out(outcome) else outcome.reward

    @staticmethod
    def ran_out(outcome: Outcome) -> bool:
        """Whether an outcome without a reward ended at the agent's own time limit."""
        return not outcome.event and outcome.reward is None and (outcome.reason or "").strip().lower() == "timeout"


@dataclass(frozen=True)
class SurvivalReward(RewardModel):
    """R = delta * S(T): a reward for speed, estimated from right-censored times (paper, section 3.3).

    Parameters
    ----------
    curve
        Which survival curve S to use. ``pooled``: that of all agents, so that faster agents get more. ``own``: that of
        the agent, as in the paper; then S(T) is uniform for every agent whatever its speed, and agents differ only
        through censoring and failures.
    censored
        Reward of a timeout: ``expected``, the conditional expectation given the time so far, or ``zero`` as in the
        paper. A crash gets zero in both cases.
    capacity
        Maximal number of distinct times per curve.

    Examples
    --------
    >>> from bot_orch import Orchestrator, Task
    >>> router = Orchestrator(["slow", "quick"], "ucb1", reward=SurvivalReward())
    >>> for _ in range(60):
    ...     decision = router.decide(Task())
    ...     router.observe(decision.id, Outcome.completed(elapsed_s=9.0 if decision.agent == "slow" else 2.0))
    >>> estimate = router.derive(Task()).terms.estimate
    >>> bool(estimate[1] > estimate[0])
    True
    """

    curve: Literal["pooled", "own"] = "pooled"
    censored: Literal["expected", "zero"] = "expected"
    capacity: int = 128
    id: ClassVar[str] = "survival"

    def __post_init__(self) -> None:
        if self.curve not in ("pooled", "own"):
            raise InvalidInputError("reward.curve", f"is {self.curve!r}", "pass 'pooled' or 'own'")
        if self.censored not in ("expected", "zero"):
            raise InvalidInputError("reward.censored", f"is {self.censored!r}", "pass 'expected' or 'zero'")

    @cached_property
    def _fit(self) -> OnlineKaplanMeier:
        return OnlineKaplanMeier(self.capacity)

    @property
    def schema(self) -> Schema:
        """A life table per agent and one pooled over all agents."""
        own = {f"own_{name}": field for name, field in self._fit.schema.items()}
        pooled = {
            f"pooled_{name}": replace(field, per_agent=False, shape=(1, *field.shape))
            for name, field in self._fit.schema.items()
        }
        return own | pooled

    def read(self, state: Arrays, agent: int, outcome: Outcome) -> float | None:
        """Reward under the curves before this outcome."""
        if outcome.elapsed_s is None:
            raise InvalidInputError("outcome.elapsed_s", "is missing", "a survival reward needs the elapsed time")
        own, pooled = (self._fit.model(_view(state, prefix)) for prefix in ("own_", "pooled_"))
        reference = pooled.select(0) if self.curve == "pooled" else None
        return live_reward(own.select(agent), outcome, reference=reference, censored=self.censored)

    def learn(self, state: Arrays, agent: int, outcome: Outcome) -> None:
        """Add the time to the agent's and the pooled life table."""
        cause = int(cause_of(outcome))
        self._fit.update(_view(state, "own_"), np.float64(outcome.elapsed_s), cause, agent=agent)
        self._fit.update(_view(state, "pooled_"), np.float64(outcome.elapsed_s), cause, agent=0)


def read_rows(model: RewardModel, state: Arrays, agent: Ints, *, outcomes: Sequence[Outcome]) -> Floats:
    """Read and learn one outcome per row of a batch; returns rewards, NaN where an outcome has none."""
    rewards = np.full(len(outcomes), np.nan)
    for row, outcome in enumerate(outcomes):
        part = row_views(state, (row,))
        found = model.read(part, int(agent[row]), outcome)
        model.learn(part, int(agent[row]), outcome)
        for name, array in part.items():
            state[name][row] = array
        if found is not None:
            rewards[row] = found
    return rewards


def reward_from_spec(spec: Mapping[str, Any]) -> RewardModel:
    """The inverse of :meth:`RewardModel.spec`, for every model whose module has been imported."""
    models, name = dict(_models(RewardModel.__subclasses__())), spec.get("id")
    if name not in models:
        remedy = f"choose one of {', '.join(sorted(models))}, or import the module that defines it first"
        raise InvalidInputError("reward.id", f"{name!r} is not known", remedy)
    return models[str(name)](**{key: value for key, value in spec.items() if key != "id"})


def _models(classes: Sequence[type[RewardModel]]) -> Iterator[tuple[str, type[RewardModel]]]:
    for model in classes:
        if "id" in vars(model):
            yield model.id, model
        yield from _models(model.__subclasses__())


def _view(state: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
