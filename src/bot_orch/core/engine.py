"""The engine: what decides and learns, for one live router or for many seeds stepping together.

The library, the arena, sweeps, the paper's experiments, off-policy evaluation and the service run nothing else. State
is a dictionary of named arrays (*parts*) with leading batch dimensions; the engine holds settings only.

A decision is *prepared* (nothing changes), may be recorded, and is then *committed*; its outcome is *learned* later.
Committing takes what was decided, not how: a recorded decision of an older engine can be committed just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, allocate, chosen_entries
from bot_orch.core import pipeline
from bot_orch.core.alignment import Alignment
from bot_orch.core.alignment.dual import AutoLambda
from bot_orch.core.prices import Prices
from bot_orch.core.settings import Settings
from bot_orch.errors import InvalidInputError
from bot_orch.policies.base import Feedback, Situation
from bot_orch.types import Measure, Task

__all__ = ["ENGINE", "Engine", "Learned", "Observation", "Prepared"]

#: Changes whenever the same events would lead to other decisions. The log names it beside the settings.
ENGINE = "2"

Parts = dict[str, Arrays]


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What is known before the choice of round ``t`` (from 1).

    Parameters
    ----------
    cost
        Agents' stated costs, in units of reward, ``batch + (M,)``.
    context
        Features, ``batch + (d,)``.
    eligible
        Who may be chosen, ``batch + (M,)``; None means everybody.
    reference
        Embedded references that tasks brought, ``batch + (q,)``; NaN rows where a task has none.
    profiles
        Embedded profiles known beforehand, ``batch + (M, q)``; NaN rows where none is known.
    distance
        Distances laid out beforehand, ``batch + (M,)``, for :class:`~bot_orch.core.alignment.GivenDistances`.
    pending
        How many choices of each agent still wait for their outcome, ``batch + (M,)``.
    """

    t: int
    cost: Floats
    context: Floats | None = None
    eligible: Bools | None = None
    reference: Floats | None = None
    profiles: Floats | None = None
    distance: Floats | None = None
    pending: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A decision per batch element that has not changed anything yet: who, with which probabilities, and why."""

    drawn: pipeline.Drawn
    distance: Floats
    alignment: Floats
    cost: Floats
    lambda_: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What came back beside the reward, one per batch element, NaN where there is none.

    Parameters
    ----------
    raw
        What outputs showed, ``(K,) + batch + outcome_shape``.
    cost_usd
        What outcomes cost, ``batch``.
    """

    raw: Floats | None = None
    cost_usd: Floats | None = None


@dataclass(frozen=True)
class Engine:
    """Settings put to work on a state of named arrays.

    Examples
    --------
    >>> from bot_orch import make_policy
    >>> engine = Engine(Settings(make_policy("ucb1"), floor=0.0))
    >>> parts = engine.start(2, batch=(3,))
    >>> round_ = Observation(1, cost=np.zeros((3, 2)))
    >>> prepared = engine.prepare(parts, round_, np.array([0.1, 0.6, 0.9]))
    >>> prepared.drawn.agent
    array([0, 1, 1])
    """

    settings: Settings

    @cached_property
    def alignment(self) -> Alignment | None:
        """Where distances are learned; None where nobody compares, or where they are given."""
        found = self.settings.alignment
        return found if isinstance(found, Alignment) else None

    @cached_property
    def dual(self) -> AutoLambda | None:
        """The dual variable, where lambda calibrates itself."""
        return AutoLambda() if self.settings.lambda_ == "auto" else None

    @cached_property
    def prices(self) -> Prices:
        """What asking costs."""
        return Prices(self.settings.cost_weight)

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """State arrays, part by part."""
        s = self.settings
        parts: dict[str, Schema] = {"policy": s.policy.schema(s.n_features or 0), "reward": s.reward.schema}
        if self.dual is not None:
            parts["lambda"] = self.dual.schema
        if self.prices.schema:
            parts["prices"] = self.prices.schema
        return parts | (self.alignment.schemas if self.alignment is not None else {})

    def start(self, n_agents: int, batch: tuple[int, ...] = ()) -> Parts:
        """State in which nothing has happened."""
        return {name: allocate(schema, batch, n_agents) for name, schema in self.schemas.items()}

    def resume(self, learned: Parts, n_agents: int) -> Parts:
        """A fresh state, with what was learned where there is such a part."""
        return {name: part | learned.get(name, {}) for name, part in self.start(n_agents).items()}

    def choosing(self, measure: Measure | None) -> Engine:
        """The engine itself, or one with the alignment that a first measure chooses."""
        if measure is None or self.alignment is not None:
            return self
        chosen = Alignment.for_measure(measure, self.settings.chosen_units())
        return Engine(replace(self.settings, alignment=chosen))

    def for_task(self, task: Task, *, first: bool) -> Engine:
        """The engine itself, or one that uses what the first task brings: its features and its kind of reference."""
        found = self.choosing(task.reference)
        if self.settings.n_features is not None or not task.features:
            return found
        if not first:
            problem = f"has {len(task.features)} numbers, the first task had none"
            raise InvalidInputError("task.features", problem, "pass n_features when you create the orchestrator")
        return Engine(replace(found.settings, n_features=len(task.features)))

    def comparing(self, name: str, measure: Measure | None) -> Engine:
        """Likewise; a measure of the wrong kind is refused, and the error says ``name``."""
        found = self.choosing(measure)
        if found.alignment is not None:
            found.alignment.check(name, measure)
        return found

    def prepare(self, parts: Parts, o: Observation, u: npt.ArrayLike) -> Prepared:
        """Choose an agent per batch element; ``u`` in [0, 1) is the only randomness. Changes nothing."""
        cost = self.prices.expected(parts["prices"], o.cost) if self.settings.cost_weight else o.cost
        distance, alignment, lambda_ = self._aligned(parts, o)
        priced = cost if np.count_nonzero(cost) else None
        penalty = alignment if priced is None else alignment + cost
        situation = Situation(o.t, penalty, o.eligible, o.context, o.pending, priced)
        drawn = pipeline.decide(self.settings.policy, parts["policy"], situation, u, self.settings.floor)
        return Prepared(drawn, distance, alignment, cost, lambda_)

    def commit(self, parts: Parts, o: Observation, agent: Ints, alignment: Floats, lambda_: Floats) -> None:
        """The agents were chosen at these alignment costs and this lambda; outcomes are now awaited."""
        if self.alignment is not None:
            self.alignment.see_task(parts, o.reference, o.t - 1)
        if self.dual is not None and np.count_nonzero(alignment):  # nobody pays as a rule, and nothing changes then
            paid = chosen_entries(alignment, agent)
            if paid.any():
                self.dual.accept(parts["lambda"], np.divide(paid, lambda_))

    def learn(self, parts: Parts, names: Sequence[str], feedback: Feedback, learned: Learned) -> None:
        """Take in what came back for the decisions of one round."""
        agent = np.asarray(feedback.agent)
        if learned.cost_usd is not None and self.settings.cost_weight:
            self.prices.see(parts["prices"], agent, learned.cost_usd)
        if self.alignment is not None and learned.raw is not None:
            known = chosen_entries(feedback.observed, agent)
            reward = np.where(known, chosen_entries(feedback.reward, agent), np.nan)
            self.alignment.see_outputs(parts, names, agent, learned.raw, reward, feedback.t - 1)
        pipeline.apply(self.settings.policy, parts["policy"], feedback)

    def _aligned(self, parts: Parts, o: Observation) -> tuple[Floats, Floats, Floats]:
        """W, what it costs, and the lambda behind that."""
        dual = None if self.dual is None else parts["lambda"]
        lambda_ = np.array(self.settings.lambda_ if dual is None else dual["lambda"], dtype=float)
        counts = np.count_nonzero(lambda_) > 0
        if counts and self.alignment is None and o.distance is not None:
            return o.distance, lambda_[..., None] * o.distance, lambda_
        if self.alignment is None or not counts:
            nothing = np.zeros(o.cost.shape)
            return nothing, nothing, lambda_
        if self.dual is None or dual is None:
            distance = self.alignment.distances(parts, o.reference, o.profiles)
            return distance, lambda_ * distance, lambda_
        found = self.alignment.relative(parts, o.reference, o.profiles)
        return found.lower, self.dual.penalty(dual, self.dual.excess(found)), lambda_
