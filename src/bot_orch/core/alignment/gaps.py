"""Gaps: distances between each agent's outputs and the references of the same tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bot_orch.arrays import Arrays, Bools, Field, Floats, Ints, Schema, finite_rows
from bot_orch.core.alignment.units import in_units
from bot_orch.transport.geometries.base import Geometry

_Z = 1.645  # one-sided 95 %
_USUAL_SPREAD = 0.25  # in units: lower bound on the prior standard deviation of gaps
_SMALL = 0.8  # small-sample correction of the normal approximation, in units of spread / n
_RECENT = 50.0  # outcomes that count: beyond, older ones fade exponentially, so that an agent that turns is found out


@dataclass(frozen=True, slots=True)
class Gaps:
    """Distances between outputs and the references of the same tasks, per agent, and the unit for them.

    State arrays have leading batch dimensions: ``batch + (M,)``, those of the unit ``batch``.

    Parameters
    ----------
    width
        Length of an embedded reference.
    due
        Number of references kept for tasks without an outcome; a later outcome gives no gap.

    Examples
    --------
    >>> from bot_orch.arrays import allocate
    >>> gaps = Gaps(width=1)
    >>> state = allocate(gaps.schema, (), 2)
    >>> for t in range(50):
    ...     gaps.see_unit(state, np.array(10.0))
    ...     gaps.see_gap(state, np.array(t % 2), np.array(1.0 if t % 2 else 8.0 + t % 4))
    >>> unit = gaps.unit(state)
    >>> gaps.mean(state, unit), gaps.lower(state, unit).round(2)
    (array([0.896, 0.1  ]), array([0.86, 0.09]))
    """

    width: int
    due: int = 0

    @property
    def schema(self) -> Schema:
        """Count, mean and sum of squared deviations per agent; sum and number of distances between references."""
        return {
            "count": Field(),
            "gap": Field(),
            "square": Field(),
            "apart": Field(per_agent=False),
            "pairs": Field(per_agent=False),
            "last": Field(per_agent=False, shape=(self.width,)),
            "due": Field(per_agent=False, shape=(self.due, self.width)),
            "due_round": Field(per_agent=False, shape=(self.due,), fill=-1.0, dtype="int64"),
        }

    def see_reference(self, state: Arrays, geometry: Geometry, reference: Floats, *, round_: int) -> None:
        """Store the embedded references ``batch + (q,)`` of a round until its outcomes arrive; NaN where missing."""
        known: Bools = finite_rows(reference)
        if not known.any():
            return
        before = np.maximum.reduce(state["due_round"], axis=-1) >= 0
        target = np.where(known[..., None], reference, 0.0)
        apart = geometry.distances(state["last"][..., None, :], target)[..., 0]
        self.see_unit(state, apart, known & before)
        slot = round_ % self.due
        state["last"][known] = reference[known]
        state["due"][..., slot, :] = np.where(known[..., None], reference, state["due"][..., slot, :])
        state["due_round"][..., slot] = np.where(known, round_, state["due_round"][..., slot])

    def see_output(self, state: Arrays, geometry: Geometry, agent: Ints, *, output: Floats, round_: int) -> None:
        """Compare embedded outputs ``batch + (q,)`` with the references of their round, if still stored."""
        slot = round_ % self.due
        known: Bools = finite_rows(output) & (state["due_round"][..., slot] == round_)
        if known.any():
            shown = np.where(known[..., None], output, 0.0)[..., None, :]
            gap = geometry.distances(shown, state["due"][..., slot, :])[..., 0]
            self.see_gap(state, agent, np.where(known, gap, np.nan))

    def see_unit(self, state: Arrays, apart: Floats, known: Bools | None = None) -> None:
        """Record the distance between the references of two different tasks."""
        seen = np.isfinite(apart) if known is None else known
        state["apart"] += np.where(seen, apart, 0.0)
        state["pairs"] += seen

    def see_gap(self, state: Arrays, agent: Ints, gap: Floats) -> None:
        """Record the distance between an output of ``agent`` and the reference of its task; NaN is ignored.

        The plain mean and variance of the first fifty, then exponentially weighted ones of that many.
        """
        see_value(state, agent, gap, recent=_RECENT)

    def unit(self, state: Arrays) -> Floats:
        """Mean distance between references of different tasks, ``batch + (1,)``; 0 while unknown."""
        return np.asarray(state["apart"] / np.maximum(state["pairs"], 1.0))[..., None]

    def mean(self, state: Arrays, unit: Floats) -> Floats:
        """Mean gap of every agent divided by ``unit``; zero for an agent without outcomes."""
        return in_units(state["gap"], unit)

    def lower(self, state: Arrays, unit: Floats) -> Floats:
        """Lower confidence distance of every agent; zero with fewer than two outcomes.

        The standard deviation is shrunk towards that of all agents, which is taken as at least a quarter of a unit.
        """
        n = state["count"]
        spread = np.sqrt(state["square"] / np.maximum(n - 1.0, 1.0))
        pooled = np.sqrt(
            np.add.reduce(state["square"], axis=-1, keepdims=True)
            / np.maximum(np.add.reduce(np.maximum(n - 1.0, 0.0), axis=-1, keepdims=True), 1.0)
        )
        few = np.maximum(n, 1.0)
        usual = np.maximum(pooled, _USUAL_SPREAD * unit)
        spread = (np.maximum(n - 1.0, 0.0) * spread + 2.0 * usual) / (np.maximum(n - 1.0, 0.0) + 2.0)
        low = np.where(n < 2.0, 0.0, state["gap"] - _Z * spread / np.sqrt(few) - _SMALL * spread / few)
        return in_units(np.maximum(low, 0.0), unit)


def see_value(state: Arrays, agent: Ints, value: Floats, *, recent: float) -> None:
    """Update ``count``, mean ``gap`` and sum of squared deviations ``square`` of an agent; NaN is ignored.

    Once ``recent`` values were seen, each new one takes the weight 1 / ``recent`` and older ones fade.

    Examples
    --------
    >>> state = {name: np.zeros(1) for name in ("count", "gap", "square")}
    >>> for value in [0.0] * 100 + [1.0] * 20:
    ...     see_value(state, np.array(0), np.array(value), recent=20.0)
    >>> state["count"], state["gap"].round(2)
    (array([20.]), array([0.64]))
    """
    at = (*np.indices(np.shape(agent), sparse=True), agent)
    known = np.isfinite(value)
    before = state["count"][at]
    state["square"][at] *= np.where(known & (before >= recent), 1.0 - 1.0 / recent, 1.0)
    state["count"][at] = np.minimum(state["count"][at] + known, recent)
    step = np.where(known, value - state["gap"][at], 0.0)
    state["gap"][at] += step / np.maximum(state["count"][at], 1.0)
    state["square"][at] += step * np.where(known, value - state["gap"][at], 0.0)
