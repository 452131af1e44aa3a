"""W_t(i): the distance of each agent's outcomes to the reference of the task, learned online.

Every array has leading batch dimensions: none in the live router, ``(seeds,)`` in a replay. NaN rows mark missing
values of one batch element: a task without a reference, an outcome without an output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, allocate, finite_rows, row_views
from bot_orch.checks import check_count, check_number
from bot_orch.core.alignment.evidence import starving
from bot_orch.core.alignment.gaps import Gaps
from bot_orch.core.alignment.reference import Reference, check_spec, fill_missing
from bot_orch.core.alignment.units import Relative, in_units, own_variability, settled_unit
from bot_orch.errors import InvalidInputError, require_type
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.drift import DriftMonitor
from bot_orch.transport.geometries.base import Geometry, geometry_from_spec
from bot_orch.transport.geometries.bures import Bures
from bot_orch.transport.geometries.labels import ZeroOneLabels
from bot_orch.transport.geometries.lateness import Lateness
from bot_orch.transport.geometries.scalars import Scalars
from bot_orch.transport.geometries.sliced import Sliced
from bot_orch.transport.measures import Cloud, Gaussian, Labels
from bot_orch.transport.memory import Memory
from bot_orch.transport.uncertainty import Distances
from bot_orch.types import Measure, Outcome

Parts = dict[str, Arrays]
Units = Literal["reference", "native"]
_DUE = 256  # references kept for tasks without an outcome


@dataclass(frozen=True, slots=True)
class GivenDistances:
    """Alignment with precomputed distances in native units, as in the paper's experiments."""

    units: Literal["native"] = "native"


@dataclass(frozen=True, slots=True)
class Watch:
    """Drift test: ``recent`` outcomes of an agent (or tasks) against ``older`` ones, at level ``alpha``."""

    recent: int = 32
    older: int = 96
    alpha: float = 0.01

    def __post_init__(self) -> None:
        for name in ("recent", "older"):
            check_count(f"watch.{name}", getattr(self, name), "pass a number of outcomes, 1 or more", low=1)
        check_number("watch.alpha", self.alpha, "pass a level between 0 and 1", high=1.0)


@dataclass(frozen=True)
class Alignment:
    """Configuration of the alignment distances.

    Parameters
    ----------
    geometry
        Metric on outcome distributions.
    memory
        Which past outputs an agent's profile includes.
    reference
        Source of the references.
    distance
        ``lower`` (the default): the lower confidence distance, so that few outcomes do not penalise an agent.
        ``plug_in``: the plug-in distance of the paper. Also ``debiased`` and ``upper``.
    level
        Confidence level of ``lower`` and ``upper``.
    watch
        Drift test for agents' outputs and for task references; None disables it.
    units
        ``reference`` (the default): relative to the variability of the reference, so that lambda is comparable across
        geometries. If tasks have references, each output is then compared with the reference of its own task.
        ``native``: distances of the geometry, as in the paper.

    Examples
    --------
    >>> from bot_orch.transport import ZeroOneLabels
    >>> alignment = Alignment(ZeroOneLabels(2), units="native")
    >>> parts = alignment.start(2)
    >>> nu, mu = (alignment.geometry.embed(Labels(p)) for p in ([0.0, 1.0], [0.1, 0.9]))
    >>> alignment.distances(parts, nu, np.stack([mu, np.full(2, np.nan)]))
    array([0.1, 0. ])
    """

    geometry: Geometry
    memory: Memory = field(default_factory=Memory.window)
    reference: Reference = field(default_factory=Reference)
    distance: str = "lower"
    level: float = 0.90
    watch: Watch | None = None
    units: Units = "reference"

    def __post_init__(self) -> None:
        geometry = "pass a geometry of bot_orch.transport, such as ZeroOneLabels(2)"
        require_type("alignment.geometry", self.geometry, Geometry, geometry)
        require_type("alignment.memory", self.memory, Memory, "pass a Memory, such as Memory.window(100)")
        require_type("alignment.reference", self.reference, Reference, "pass a Reference")
        check_number("alignment.level", self.level, "pass a level between 0 and 1", high=1.0)
        if self.watch is not None:
            require_type("alignment.watch", self.watch, Watch, "pass Watch(), or None")
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
        >>> alignment.outcomes_of(Outcome.completed(1.0, elapsed_s=3.0))
        array([3.])
        """
        geometry = Lateness(target_s=target_s)
        return cls(geometry, reference=Reference("fixed", measure=geometry.on_time), **settings)

    @classmethod
    def for_measure(cls, measure: Measure, units: Units = "reference") -> Self:
        """The default alignment for the type of the first measure.

        A cloud of one point is the embedding of one output: coordinatewise moments are then exact and much cheaper than
        projections.
        """
        geometry: Geometry
        if isinstance(measure, Labels):
            geometry = ZeroOneLabels(len(measure.probabilities))
        elif isinstance(measure, Cloud) and len(measure.points) == 1:
            geometry = Bures(measure.dimension, diagonal=True, clouds=True)
        elif isinstance(measure, Cloud):
            geometry = Sliced(dimension=measure.dimension)
        elif isinstance(measure, Gaussian):
            geometry = Bures(measure.dimension)
        else:
            geometry = Scalars()
        return cls(geometry, units=units)

    @cached_property
    def bank(self) -> ProfileBank:
        """Store of all agents' outcome profiles."""
        return ProfileBank(self.geometry, self.memory)

    @cached_property
    def gaps(self) -> Gaps | None:
        """Gaps between outputs and the references of the same tasks; None with other units or reference sources."""
        by_task = self.units == "reference" and self.reference.source == "task"
        return Gaps(self.geometry.width, _DUE) if by_task else None

    @cached_property
    def monitors(self) -> dict[str, DriftMonitor]:
        """Drift monitors of agents' outputs and of task references."""
        if self.watch is None:
            return {}
        outcomes = DriftMonitor(self.geometry, self.watch.recent, self.watch.older, self.watch.alpha)
        return {"drift": outcomes, "task_drift": replace(outcomes, on="tasks", key=1)}

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """State schemas by part. Gaps replace profiles: each output is compared once, with its own task's reference."""
        parts: dict[str, Schema] = {"gaps": self.gaps.schema} if self.gaps is not None else {"bank": self.bank.schema}
        parts["reference"] = self.reference.schema(self.geometry)
        parts["pool"] = self.reference.pool_schema(self.geometry)
        return parts | {name: monitor.schema for name, monitor in self.monitors.items()}

    def start(self, n_agents: int, batch: tuple[int, ...] = ()) -> Parts:
        """Initial state for ``n_agents`` agents."""
        return {name: allocate(schema, batch, n_agents) for name, schema in self.schemas.items()}

    def detail(self, parts: Parts, given: Floats | None, profiles: Floats | None = None) -> Distances | None:
        """Distance of every agent's learned profile with its uncertainty; None without a reference.

        Parameters
        ----------
        given
            Embedded references of the tasks, ``batch + (q,)``; NaN rows for tasks without one.
        profiles
            Embedded profiles known in advance, ``batch + (M, q)``; NaN rows where unknown.
        """
        nu = self._reference(parts, given)
        if nu is None:
            return None
        judged = nu if nu.ndim == parts["bank"]["embedding"].ndim or np.isfinite(nu).all() else nu[..., None, :]
        if judged is not nu:  # some tasks have no reference: NaN rows give distance 0
            judged = np.broadcast_to(judged, parts["bank"]["embedding"].shape)
        return self.bank.distances(parts["bank"], judged, profiles=profiles, level=self.level)

    def distances(self, parts: Parts, given: Floats | None, profiles: Floats | None = None) -> Floats:
        """W of every agent in :attr:`units`; zero for an agent without outcomes or profile."""
        if self.units == "reference":
            return self.relative(parts, given, profiles).pick(self.distance)
        found = self.detail(parts, given, profiles)
        return np.zeros(parts["bank"]["seen"].shape) if found is None else found.pick(self.distance)

    def relative(self, parts: Parts, given: Floats | None, profiles: Floats | None = None) -> Relative:
        """Every agent's distance relative to the variability of the reference."""
        if self.gaps is not None:
            return self._of_gaps(self.gaps, parts["gaps"], given, profiles=profiles)
        found = self.detail(parts, given, profiles)
        if found is None:
            return Relative.nothing(parts["bank"]["seen"].shape)
        known: Bools = found.n >= 2.0
        unit = self._settled(self._variability(self._reference(parts, given)), found.value, known)
        return Relative(in_units(found.debiased, unit), in_units(found.lower, unit), known)

    def _of_gaps(self, own: Gaps, gaps: Arrays, given: Floats | None, *, profiles: Floats | None) -> Relative:
        """Relative distances from gaps; profiles known in advance are compared with the current task's reference."""
        exact, certain = self._of_given(given, profiles, gaps["count"].shape)
        known = (gaps["count"] >= 2.0) | certain
        shown = np.where(certain, exact, gaps["gap"])
        unit = self._settled(np.maximum(self._variability(given), own.unit(gaps)), shown, known)
        exact = in_units(exact, unit)
        mean = np.where(certain, exact, own.mean(gaps, unit))
        return Relative(mean, np.where(certain, exact, own.lower(gaps, unit)), known)

    def _of_given(self, given: Floats | None, profiles: Floats | None, shape: tuple[int, ...]) -> tuple[Floats, Bools]:
        """Distances of known profiles to the current task's reference, and a mask of agents where both are known."""
        if given is None or profiles is None:
            return np.zeros(shape), np.zeros(shape, dtype=bool)
        certain = finite_rows(profiles) & finite_rows(given)[..., None]
        here = np.where(certain[..., None], profiles, 0.0), np.where(np.isfinite(given), given, 0.0)
        return self.geometry.distances(*here), certain

    @property
    def compares_agents(self) -> bool:
        """Whether every agent is compared with the others' accepted outputs."""
        return self.reference.by_agent(self.geometry)

    def starving(self, parts: Parts) -> Bools | None:
        """Mask of agents whose accepted outputs have no others to compare with; None if there are none."""
        pool = self.reference.pool(self.geometry)
        if pool is None or not self.compares_agents:
            return None
        found = starving(pool.effective(parts["pool"]), parts["bank"]["seen"])
        return found if found.any() else None

    def _reference(self, parts: Parts, given: Floats | None) -> Floats | None:
        return self.reference.embedding(self.geometry, parts["reference"], parts["pool"], given=given)

    def _settled(self, unit: Floats, distances: Floats, known: Bools) -> Floats:
        """The unit; if the reference does not vary, agents' typical distance, at least a quarter of the diameter."""
        if self.geometry.natural_unit:
            return unit
        return settled_unit(unit, distances, known, least=0.25 * float(getattr(self.geometry, "diameter", 0.0)))

    def _variability(self, nu: Floats | None) -> Floats:
        """Expected distance of one reference outcome to the reference, ``batch + (1,)``; mean over agents' own ones."""
        if self.geometry.natural_unit:
            return np.full(1, self.geometry.natural_unit)
        if nu is None:
            return np.zeros(1)
        spread = own_variability(self.geometry, nu)
        if self.reference.source != "accepted" or not self.reference.by_agent(self.geometry):
            return spread
        known = finite_rows(nu)[..., None]
        count = np.add.reduce(known, axis=-2, dtype=np.float64)
        return np.asarray(np.add.reduce(np.where(known, spread, 0.0), axis=-2) / np.maximum(count, 1.0))

    def outcomes_of(self, outcome: Outcome) -> Floats | None:
        """Raw outcomes ``(K,) + outcome_shape``: the output, or the elapsed time for the lateness geometry.

        An outcome censored before the target is ignored; a later one counts with its elapsed time, a lower bound.
        """
        if outcome.output is not None:
            try:
                raw, weights = self.geometry.outcomes_of(outcome.output)
            except InvalidInputError as error:
                raise InvalidInputError("outcome.output", error.problem, error.remedy) from error
            if len(weights) > 1 and np.ptp(weights) > 1e-12:
                raise InvalidInputError("outcome.output", "has unequal weights", "report its samples one by one")
            return self.geometry.check_outcome(raw)
        if not isinstance(self.geometry, Lateness) or outcome.elapsed_s is None:
            return None
        known = outcome.event or outcome.elapsed_s > self.geometry.target_s
        return np.array([outcome.elapsed_s]) if known else None

    def see_task(self, parts: Parts, given: Floats | None, round_: int = 0) -> None:
        """Record the embedded references, ``batch + (q,)``, of the tasks of this round."""
        if given is None:
            return
        self.reference.see_task(self.geometry, parts["reference"], given)
        if self.gaps is not None:
            self.gaps.see_reference(parts["gaps"], self.geometry, given, round_=round_)
        if "task_drift" in self.monitors:
            _watch(self.monitors["task_drift"], parts["task_drift"], given, shown=finite_rows(given))

    def see_outputs(
        self,
        parts: Parts,
        names: Sequence[str],
        agent: Ints,
        *,
        raw: Floats,
        reward: Floats,
        round_: int = 0,
        known: bool = False,
    ) -> Bools:
        """Learn agents' outcomes of a round, ``(K,) + batch + outcome_shape``; returns a mask of new drift alarms.

        Parameters
        ----------
        raw
            NaN where there is no output.
        reward
            ``batch``; NaN where missing.
        known
            Whether these outputs were learned before, without a reward.
        """
        shape = self.geometry.outcome_shape
        shown: Bools = np.isfinite(raw[0]).reshape(*np.shape(agent), -1).all(axis=-1)
        alarms = np.zeros(np.shape(agent), dtype=bool)
        if not shown.any():
            return alarms
        filled = raw if shown.all() else np.stack([fill_missing(self.geometry, each, shown) for each in raw])
        for each in filled:
            if self.gaps is None and not known:
                self.bank.update(parts["bank"], agent, each, shown)
            masked = each if shown.all() else np.where(shown.reshape(shown.shape + (1,) * len(shape)), each, np.nan)
            self.reference.see_output(self.geometry, parts["pool"], names, agent=agent, raw=masked, reward=reward)
            if "drift" in self.monitors and not known:
                alarms |= _watch(self.monitors["drift"], parts["drift"], each, shown=shown, agent=agent)
        if self.gaps is not None and not known:
            last = filled.ndim - 1 - len(shape)
            whole = self.geometry.embed_outcomes(np.moveaxis(filled, 0, last) if last else filled)
            self.gaps.see_output(
                parts["gaps"],
                self.geometry,
                agent,
                output=np.where(np.asarray(shown)[..., None], whole, np.nan),
                round_=round_,
            )
        return alarms

    def check(self, name: str, measure: Measure | None) -> None:
        """Raise an error on ``name`` if the measure has the wrong type or size."""
        if measure is not None:
            self.embed(name, measure)

    def embed(self, name: str, measure: Measure) -> Floats:
        """Embedding (q,) of a measure; errors refer to the field ``name``."""
        try:
            return self.geometry.embed(measure)
        except InvalidInputError as error:
            raise InvalidInputError(name, error.problem, error.remedy) from error

    def spec(self) -> dict[str, Any]:
        """JSON values; :meth:`from_spec` is the inverse."""
        watch = None if self.watch is None else [self.watch.recent, self.watch.older, self.watch.alpha]
        rest = {"distance": self.distance, "level": self.level, "watch": watch, "units": self.units}
        return {**self.bank.spec(), "reference": self.reference.spec(), **rest}

    @classmethod
    def from_spec(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`spec`."""
        check_spec("alignment", document, ("geometry", "memory", "reference", "distance", "level", "watch"))
        return cls(
            geometry_from_spec(document["geometry"]),
            Memory.from_spec(document["memory"]),
            Reference.from_spec(document["reference"]),
            document["distance"],
            document["level"],
            None if document["watch"] is None else Watch(*document["watch"]),
            document.get("units", "native"),
        )


def _watch(monitor: DriftMonitor, state: Arrays, values: Floats, *, shown: Bools, agent: Ints | None = None) -> Bools:
    """Update a drift monitor with one value per batch element in ``shown``; returns a mask of new alarms."""
    if np.all(shown):
        return monitor.update(state, values, agent)
    alarms = np.zeros(np.shape(shown), dtype=bool)
    for row in map(tuple, np.argwhere(shown)):
        part = row_views(state, row)
        alarms[row] = monitor.update(part, values[row], None if agent is None else agent[row])
        for name, array in part.items():
            state[name][row] = array
    return alarms
