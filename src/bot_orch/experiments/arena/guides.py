"""What a policy pays in a replay: distance of outputs from what is wanted, lateness, and dollars.

References come from the task where the set has them, else from outputs that were rewarded, or from a service-level
target; never from the answer. Distances have no units (:mod:`bot_orch.core.calibration`), so that one lambda fits all.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Schema, allocate
from bot_orch.core.alignment import own_variability
from bot_orch.core.calibration import AutoLambda, Gaps, Relative, over, settled
from bot_orch.core.reference import others_say
from bot_orch.environments.replay import After, Before, Setup
from bot_orch.experiments.arena.players import Guide
from bot_orch.survival.causes import Cause
from bot_orch.transport.bank import ProfileBank
from bot_orch.transport.finite import ZeroOneLabels
from bot_orch.transport.lateness import Lateness
from bot_orch.transport.memory import Memory

__all__ = ["AlignedGuide", "CostGuide", "GapGuide", "LabelGuide", "LatenessGuide", "guide_for"]

_ACCEPTED = 0.5  # rewards from here on make an output part of the reference


class AlignedGuide(Guide):
    """Lambda times distance, lambda fixed or, if None, calibrating itself; which distance is a subclass's business."""

    def __init__(self, setup: Setup, schema: Schema, lambda_: float | None) -> None:
        self._auto, self._lambda = AutoLambda(), lambda_
        self.state: Arrays = allocate({**schema, **self._auto.schema}, (setup.seeds,), setup.agents)
        self._excess = np.zeros((setup.seeds, setup.agents))
        self._rows = np.arange(setup.seeds)

    @abstractmethod
    def relative(self) -> Relative:
        """Every agent's distance, ``(seeds, M)``."""

    @abstractmethod
    def see(self, before: Before, after: After) -> None:
        """Learn from what the chosen agents showed."""

    def penalty(self, before: Before) -> Floats:
        """``(seeds, M)``."""
        found = self.relative()
        if self._lambda is not None:
            return self._lambda * found.lower
        self._excess = self._auto.excess(found)
        return self._auto.penalty(self.state, self._excess)

    def learn(self, before: Before, after: After) -> None:
        """The dual variable, then the distances."""
        self._auto.accept(self.state, self._excess[self._rows, after.agent])
        self.see(before, after)


class GapGuide(AlignedGuide):
    """Outputs against the references of their own tasks, both embedded."""

    def __init__(self, setup: Setup, lambda_: float | None = None) -> None:
        self._gaps = Gaps(setup.reference_dim)
        super().__init__(setup, self._gaps.schema, lambda_)

    def relative(self) -> Relative:
        """In units of the distance between references of different tasks; if all are the same, of what agents show."""
        known = self.state["count"] >= 2.0
        unit = settled(self._gaps.unit(self.state), self.state["gap"], known)
        return Relative(self._gaps.mean(self.state, unit), self._gaps.lower(self.state, unit), known)

    def see(self, before: Before, after: After) -> None:
        """The gap of this output, and how far this task's reference lies from the last one's."""
        if before.reference is None or after.output is None:
            return
        self._gaps.see_gap(self.state, after.agent, _apart(after.output, before.reference))
        if before.t > 1:
            self._gaps.see_unit(self.state, _apart(self.state["last"], before.reference))
        self.state["last"][:] = before.reference


class LatenessGuide(AlignedGuide):
    """Times against a service-level target; a run cut off before it says nothing."""

    def __init__(self, setup: Setup, target_s: float, lambda_: float | None = None) -> None:
        self._gaps, self._geometry = Gaps(0), Lateness(target_s=target_s)
        super().__init__(setup, self._gaps.schema, lambda_)

    def relative(self) -> Relative:
        """In units of a quarter of the target."""
        unit = np.full((len(self._rows), 1), self._geometry.natural_unit)
        lower = self._gaps.lower(self.state, unit)
        return Relative(self._gaps.mean(self.state, unit), lower, self.state["count"] >= 2.0)

    def see(self, before: Before, after: After) -> None:
        """How late this outcome came."""
        if after.elapsed_s is None:
            return
        known = after.elapsed_s > self._geometry.target_s
        if after.cause is None:
            known = np.isfinite(after.elapsed_s)
        else:
            known |= after.cause == Cause.COMPLETED
        self._gaps.see_gap(self.state, after.agent, np.where(known, self._geometry.lateness(after.elapsed_s), np.nan))


class LabelGuide(AlignedGuide):
    """Label distributions that an agent puts out against those of the others that were rewarded."""

    def __init__(self, setup: Setup, lambda_: float | None = None, memory: Memory | None = None) -> None:
        self._bank = ProfileBank(ZeroOneLabels(setup.labels), memory or Memory.window())
        self._accepted = self._bank.start(setup.agents, (setup.seeds,))
        super().__init__(setup, self._bank.schema, lambda_)

    def relative(self) -> Relative:
        """In units of the distance of one rewarded output from all of them."""
        nu = others_say(self._bank.embedding(self._accepted), self._bank.effective(self._accepted))
        found = self._bank.distances(self.state, nu)
        units = [own_variability(self._bank.geometry, row[np.isfinite(row).all(axis=-1)]) for row in nu]
        unit = np.stack(units)
        return Relative(over(found.debiased, unit), over(found.lower, unit), found.n >= 2.0)

    def see(self, before: Before, after: After) -> None:
        """Add this output to the agent's profile and, if it was rewarded, to what others are measured against."""
        if after.probs is None:
            return
        there: Bools = np.asarray(np.isfinite(after.probs).all(axis=-1))
        outcome = np.where(there[:, None], after.probs, 1.0 / after.probs.shape[-1])
        self._bank.update(self.state, after.agent, outcome, there)
        self._bank.update(self._accepted, after.agent, outcome, there & (after.reward >= _ACCEPTED))


class CostGuide(Guide):
    """Expected dollars times their weight; an agent seen n times has n / (n + 2) of its own mean, the rest of all's."""

    def __init__(self, setup: Setup, weight: float) -> None:
        self._weight, self._rows = weight, np.arange(setup.seeds)
        self._total, self._count = (np.zeros((setup.seeds, setup.agents)) for _ in range(2))

    def penalty(self, before: Before) -> Floats:
        """``(seeds, M)``."""
        everybody = self._total.sum(axis=-1, keepdims=True) / np.maximum(self._count.sum(axis=-1, keepdims=True), 1.0)
        return np.asarray(self._weight * (self._total + 2.0 * everybody) / (self._count + 2.0))

    def learn(self, before: Before, after: After) -> None:
        """What this outcome cost."""
        if after.cost_usd is not None:
            known = np.isfinite(after.cost_usd)
            self._total[self._rows, after.agent] += np.where(known, after.cost_usd, 0.0)
            self._count[self._rows, after.agent] += known


class _Together(Guide):
    """The sum of several guides."""

    def __init__(self, guides: list[Guide]) -> None:
        self._guides = guides

    def penalty(self, before: Before) -> Floats:
        return np.asarray(np.sum([guide.penalty(before) for guide in self._guides], axis=0))

    def learn(self, before: Before, after: After) -> None:
        for guide in self._guides:
            guide.learn(before, after)


def guide_for(setup: Setup, lambda_: float | None = None) -> Guide | None:
    """Whatever the set shows and the run asks for: embeddings, labels, lateness, dollars. ``lambda_`` None is auto."""
    guides: list[Guide] = []
    if lambda_ != 0.0:
        if setup.output_dim and setup.reference_dim:
            guides.append(GapGuide(setup, lambda_))
        if setup.labels:
            guides.append(LabelGuide(setup, lambda_))
        if setup.has_time and setup.latency_target_s is not None:
            guides.append(LatenessGuide(setup, setup.latency_target_s, lambda_))
    if setup.has_cost and setup.cost_weight:
        guides.append(CostGuide(setup, setup.cost_weight))
    return _Together(guides) if len(guides) > 1 else guides[0] if guides else None


def _apart(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.sqrt(np.add.reduce((a - b) ** 2, axis=-1)))
