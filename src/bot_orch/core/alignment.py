"""W_t(i): how far each agent's outcomes lie from what the task wants, learned one outcome at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Schema, allocate
from bot_orch.core.calibration import Gaps, Relative, over, settled
from bot_orch.core.reference import Reference
from bot_orch.errors import InvalidInputError
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.bures import Bures
from bot_orch.transport.drift import DriftMonitor
from bot_orch.transport.finite import ZeroOneLabels
from bot_orch.transport.geometry import Geometry, geometry_from_spec
from bot_orch.transport.lateness import Lateness
from bot_orch.transport.measures import Cloud, Gaussian, Labels, Samples
from bot_orch.transport.memory import Memory
from bot_orch.transport.noise import noise
from bot_orch.transport.scalars import Scalars
from bot_orch.transport.sliced import Sliced
from bot_orch.transport.uncertainty import Distances
from bot_orch.types import Agent, Measure, Outcome, Task

__all__ = ["Alignment", "Watch", "own_variability"]

Parts = dict[str, Arrays]
_DUE = 256  # tasks whose outcome is awaited and whose reference is kept


@dataclass(frozen=True, slots=True)
class Watch:
    """When to call it drift: ``recent`` outcomes of an agent (or tasks) against the ``older`` ones before them."""

    recent: int = 32
    older: int = 96
    alpha: float = 0.01


@dataclass(frozen=True)
class Alignment:
    """How alignment costs are found.

    Parameters
    ----------
    geometry
        How outcomes compare.
    memory
        What an agent's profile remembers of its outputs.
    reference
        Where references come from.
    distance
        ``lower`` (the default): the lower confidence distance, so that an agent seen twice is not condemned.
        ``plug_in``: the distance as the paper computes it. Also ``debiased`` and ``upper``.
    level
        Confidence level of ``lower`` and ``upper``.
    watch
        Watch agents' outputs and the stream of tasks for drift; None switches it off.
    units
        ``native``: distances as the geometry measures them. ``reference``: against the variability of the reference
        itself, so that lambda means the same everywhere. Where tasks bring their own references, an output is then
        compared with that of its own task, see :mod:`bot_orch.core.calibration`.

    Examples
    --------
    >>> from bot_orch.transport import ZeroOneLabels
    >>> alignment = Alignment(ZeroOneLabels(2))
    >>> parts = alignment.start(2)
    >>> task = Task("t", reference=Labels([0.0, 1.0]), profiles={"a": Labels([0.1, 0.9])})
    >>> alignment.distances(parts, task, [Agent("a"), Agent("b")])
    array([0.1, 0. ])
    """

    geometry: Geometry
    memory: Memory = field(default_factory=Memory.window)
    reference: Reference = field(default_factory=Reference)
    distance: str = "lower"
    level: float = 0.90
    watch: Watch | None = None
    units: str = "native"

    def __post_init__(self) -> None:
        if self.units not in ("native", "reference"):
            raise InvalidInputError("alignment.units", f"is {self.units!r}", "pass 'native' or 'reference'")
        choices = ("lower", "plug_in", "debiased", "upper")
        if self.distance not in choices:
            raise InvalidInputError("alignment.distance", f"is {self.distance!r}", f"pass one of {', '.join(choices)}")

    @classmethod
    def to_latency(cls, target_s: float, **settings: Any) -> Self:
        """Alignment of the time to an outcome with a service-level target.

        Examples
        --------
        >>> alignment = Alignment.to_latency(2.0)
        >>> alignment.output_of(Outcome.completed(1.0, elapsed_s=3.0)).values
        array([3.])
        """
        geometry = Lateness(target_s=target_s)
        return cls(geometry, reference=Reference("fixed", measure=geometry.on_time), **settings)

    @classmethod
    def for_measure(cls, measure: Measure) -> Self:
        """The alignment used when nobody chose one, by the kind of the first measure that was seen."""
        geometry: Geometry
        if isinstance(measure, Labels):
            geometry = ZeroOneLabels(len(measure.probabilities))
        elif isinstance(measure, Cloud):
            geometry = Sliced(dimension=measure.dimension)
        elif isinstance(measure, Gaussian):
            geometry = Bures(measure.dimension)
        else:
            geometry = Scalars()
        return cls(geometry)

    @cached_property
    def bank(self) -> ProfileBank:
        """Profiles of all agents."""
        return ProfileBank(self.geometry, self.memory)

    @cached_property
    def gaps(self) -> Gaps | None:
        """Distances of outputs to the references of their own tasks, where those are the unit."""
        return (
            Gaps(self.geometry.width, _DUE) if self.units == "reference" and self.reference.source == "task" else None
        )

    @cached_property
    def monitors(self) -> dict[str, DriftMonitor]:
        """What watches for drift: agents' outputs and the stream of tasks."""
        if self.watch is None:
            return {}
        outcomes = DriftMonitor(self.geometry, self.watch.recent, self.watch.older, self.watch.alpha)
        return {"drift": outcomes, "task_drift": replace(outcomes, on="tasks", key=1)}

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """State arrays, part by part."""
        parts: dict[str, Schema] = {"bank": self.bank.schema, "reference": self.reference.schema(self.geometry)}
        parts["pool"] = self.reference.pool_schema(self.geometry)
        if self.gaps is not None:
            parts["gaps"] = self.gaps.schema
        return parts | {name: monitor.schema for name, monitor in self.monitors.items()}

    def start(self, n_agents: int) -> Parts:
        """State in which nothing has been seen."""
        return {name: allocate(schema, (), n_agents) for name, schema in self.schemas.items()}

    def detail(self, parts: Parts, task: Task, agents: Sequence[Agent]) -> Distances | None:
        """Every agent's distance with its uncertainty; None when there is no reference."""
        nu = self.reference.embedding(self.geometry, parts["reference"], parts["pool"], task.reference)
        if nu is None:
            return None
        known = ((index, task.profiles.get(agent.id, agent.profile)) for index, agent in enumerate(agents))
        profiles = {index: measure for index, measure in known if measure is not None}
        return self.bank.distances(parts["bank"], nu, profiles=profiles, level=self.level)

    def distances(self, parts: Parts, task: Task, agents: Sequence[Agent]) -> Floats:
        """W of every agent; zero for an agent of whom nothing is known."""
        if self.units == "reference":
            return self.relative(parts, task, agents).lower
        found = self.detail(parts, task, agents)
        return np.zeros(len(agents)) if found is None else found.pick(self.distance)

    def relative(self, parts: Parts, task: Task, agents: Sequence[Agent]) -> Relative:
        """Every agent's distance against the variability of the reference."""
        nu = self.reference.embedding(self.geometry, parts["reference"], parts["pool"], task.reference)
        if nu is None and self.gaps is None:
            nothing = np.zeros(len(agents))
            return Relative(nothing, nothing, nothing > 0.0)
        unit = self._own_variability(nu)  # gaps are known without this task's reference
        return (
            self._of_profiles(parts, task, agents, unit)
            if self.gaps is None
            else self._of_gaps(parts, task, agents, unit)
        )

    def _of_profiles(self, parts: Parts, task: Task, agents: Sequence[Agent], unit: Floats) -> Relative:
        """Profiles against a reference that is the same for all tasks."""
        found = self.detail(parts, task, agents)
        known = np.zeros(len(agents), dtype=bool) if found is None else found.n >= 2.0
        if found is None or not known.any():
            return Relative(np.zeros(len(agents)), np.zeros(len(agents)), known)
        unit = self._settled(unit, found.value, known)
        return Relative(over(found.debiased, unit), over(found.lower, unit), known)

    def _of_gaps(self, parts: Parts, task: Task, agents: Sequence[Agent], unit: Floats) -> Relative:
        """Outputs against the references of their own tasks; profiles known beforehand against this one's."""
        gaps, own = parts["gaps"], self.gaps
        assert own is not None  # noqa: S101
        found = self._given(parts, task, agents)
        given = np.zeros(len(agents), dtype=bool) if found is None else np.isinf(found.n)
        known = (gaps["count"] >= 2.0) | given
        shown = gaps["gap"] if found is None else np.where(given, found.value, gaps["gap"])
        unit = self._settled(np.maximum(unit, own.unit(gaps)), shown, known)
        mean, lower = own.mean(gaps, unit), own.lower(gaps, unit)
        if found is not None:
            mean = np.where(given, over(found.value, unit), mean)
            lower = np.where(given, over(found.lower, unit), lower)
        return Relative(mean, lower, known)

    def _given(self, parts: Parts, task: Task, agents: Sequence[Agent]) -> Distances | None:
        """Distances to this task's reference where a profile is known beforehand; None where none is."""
        if all(task.profiles.get(agent.id, agent.profile) is None for agent in agents):
            return None
        return self.detail(parts, task, agents)

    def _settled(self, unit: Floats, distances: Floats, known: Bools) -> Floats:
        """The unit; where the reference is a single point, what agents show, at least a quarter of what is possible."""
        if self.geometry.natural_unit:
            return unit
        return settled(unit, distances, known, 0.25 * float(getattr(self.geometry, "diameter", 0.0)))

    def _own_variability(self, nu: Floats | None) -> Floats:
        """How far one outcome drawn from the reference lies from it, in expectation, 0 if there is none; (1,)."""
        if self.geometry.natural_unit:
            return np.full(1, self.geometry.natural_unit)
        if nu is None:
            return np.zeros(1)
        return own_variability(self.geometry, nu if nu.ndim == 1 else nu[np.isfinite(nu).all(axis=-1)])

    def output_of(self, outcome: Outcome) -> Measure | None:
        """What an outcome shows: its output, or its time where time is what is compared.

        An outcome that was cut off before the target says nothing; one cut off later is at least that late.
        """
        if not isinstance(self.geometry, Lateness) or outcome.output is not None or outcome.elapsed_s is None:
            return outcome.output
        known = outcome.event or outcome.elapsed_s > self.geometry.target_s
        return Samples([outcome.elapsed_s]) if known else None

    def see_task(self, parts: Parts, task: Task, round_: int = 0) -> None:
        """A task was decided on, in this round."""
        self.reference.see_task(self.geometry, parts["reference"], task.reference)
        if task.reference is None:
            return
        if self.gaps is not None:
            self.gaps.see_reference(parts["gaps"], self.geometry, self.geometry.embed(task.reference), round_)
        if "task_drift" in self.monitors:
            self.monitors["task_drift"].update(parts["task_drift"], self.geometry.embed(task.reference))

    def see_output(
        self, parts: Parts, agent: str, index: int, output: Measure, reward: float | None, round_: int = 0
    ) -> None:
        """An agent's output on the task of a round was observed."""
        self.bank.observe(parts["bank"], index, output)
        self.reference.see_output(self.geometry, parts["pool"], agent, index, output, reward)
        if self.gaps is not None:
            self.gaps.see_output(parts["gaps"], self.geometry, index, self.geometry.embed(output), round_)
        if "drift" in self.monitors:
            for outcome in self.geometry.outcomes_of(output)[0]:
                self.monitors["drift"].update(parts["drift"], outcome, agent=index)

    def check(self, name: str, measure: Measure | None) -> None:
        """Refuse a measure of the wrong kind or size before anything is changed."""
        if measure is not None:
            try:
                self.geometry.embed(measure)
            except InvalidInputError as error:
                raise InvalidInputError(name, error.problem, error.remedy) from error

    def spec(self) -> dict[str, Any]:
        """Plain JSON values."""
        watch = None if self.watch is None else [self.watch.recent, self.watch.older, self.watch.alpha]
        rest = {"distance": self.distance, "level": self.level, "watch": watch, "units": self.units}
        return {**self.bank.spec(), "reference": self.reference.spec(), **rest}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        return cls(
            geometry_from_spec(document["geometry"]),
            Memory.from_spec(document["memory"]),
            Reference.from_spec(document["reference"]),
            document["distance"],
            document["level"],
            None if document["watch"] is None else Watch(*document["watch"]),
            document.get("units", "native"),
        )


def own_variability(geometry: Geometry, nu: Floats) -> Floats:
    """How far one outcome drawn from a reference ``(q,)`` lies from it, the mean over references ``(J, q)``; (1,)."""
    several = np.atleast_2d(nu)
    if not len(several):
        return np.zeros(1)
    one = np.ones((len(several), 1))
    b0, _, _ = noise(geometry, several[:, None], several, np.zeros_like(one), one)
    return np.asarray(b0.mean(axis=0), dtype=float)
