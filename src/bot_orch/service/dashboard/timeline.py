"""Time series of the dashboard: a fold over the rows of the log, in buckets that widen as the log grows."""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

import numpy as np

from bot_orch.agents.endings import Ending
from bot_orch.arrays import Arrays, Floats
from bot_orch.core.alignment import Alignment
from bot_orch.eventlog.events import AttemptEnded, Censored, DecisionMade, Event, FeedbackGiven, measure_of
from bot_orch.eventlog.log import Row
from bot_orch.survival.causes import REASONS, Cause
from bot_orch.transport.drift import DriftMonitor

__all__ = ["Alarm", "Bucket", "Ended", "Recent", "Timeline"]

_MOST_BUCKETS = 90
_KEPT_TIMES = 400
_KEPT_DECISIONS = 30
_MOST_PENDING = 20_000
_RECENT, _OLDER = 16, 48


@dataclass(slots=True)
class Bucket:
    """Sums over one interval, one entry per agent.

    Parameters
    ----------
    start_us
        Begin of the interval.
    decisions, propensity, distance
        Decisions for the agent, and sums of its propensities and distances over all decisions.
    reward, rewarded
        Sum and number of the rewards observed.
    weight, weighted
        Sums of 1 / propensity, and of that times the net reward (for SNIPS).
    cost_usd
        Money spent.
    earned, settled
        Net reward of all agents, and number of outcomes.
    """

    start_us: int
    _: KW_ONLY
    decisions: Floats
    propensity: Floats
    distance: Floats
    reward: Floats
    rewarded: Floats
    weight: Floats
    weighted: Floats
    cost_usd: Floats
    earned: float
    settled: float

    @classmethod
    def empty(cls, start_us: int, n: int) -> Bucket:
        """A bucket of zeros for ``n`` agents."""
        return cls(start_us, **{name: np.zeros(n) for name in _SUMS}, earned=0.0, settled=0.0)

    def add(self, other: Bucket) -> None:
        """Add the sums of another bucket."""
        for name in _SUMS:
            getattr(self, name)[:] += getattr(other, name)
        self.earned += other.earned
        self.settled += other.settled


_SUMS = ("decisions", "propensity", "distance", "reward", "rewarded", "weight", "weighted", "cost_usd")


class Ended(NamedTuple):
    """Duration of an attempt, and why it ended."""

    elapsed_s: float
    cause: Cause


class Alarm(NamedTuple):
    """A drift alarm: the distribution of an agent's outputs has changed."""

    time_us: int
    agent: str
    p_value: float


@dataclass(slots=True)
class Recent:
    """A decision in the list of recent ones."""

    time_us: int
    id: str
    agent: str
    _: KW_ONLY
    task: str
    propensity: float
    by: str
    outcome: str = "waiting"


class _Open(NamedTuple):
    agent: int
    propensity: float
    penalty: float


@dataclass(slots=True)
class Timeline:
    """The data of all charts.

    Parameters
    ----------
    agents
        Names of agents; events of others are ignored.
    width_us
        Initial width of a bucket; doubled whenever there are too many.
    """

    agents: tuple[str, ...]
    width_us: int = 1_000_000
    _: KW_ONLY
    buckets: list[Bucket] = field(default_factory=list)
    times: dict[str, deque[Ended]] = field(default_factory=dict)
    recent: deque[Recent] = field(default_factory=lambda: deque(maxlen=_KEPT_DECISIONS))
    alarms: list[Alarm] = field(default_factory=list)
    endings: dict[str, dict[str, int]] = field(default_factory=dict)
    decisions: int = 0
    lambda_: float = 0.0
    policy: str = ""
    seq: int = 0
    _open: dict[str, _Open] = field(default_factory=dict)
    _attempted: set[str] = field(default_factory=set)
    _shown: set[str] = field(default_factory=set)
    _monitor: DriftMonitor | None = None
    _drift: Arrays = field(default_factory=dict)

    def take(self, row: Row) -> None:
        """Apply one row."""
        self.seq = row.seq
        self.apply(row.time_us, row.event())

    def apply(self, time_us: int, event: Event) -> None:
        """Apply one event."""
        match event:
            case DecisionMade():
                self._decide(time_us, event)
            case FeedbackGiven():
                self._feedback(time_us, event)
            case Censored():
                self._settle(time_us, event.decision_id, reward=None, said=f"censored: {event.reason}")
            case AttemptEnded():
                self._attempt(time_us, event)

    def _decide(self, time_us: int, event: DecisionMade) -> None:
        bucket = self._bucket(time_us)
        p, distance, alignment, cost = map(event.column, ("propensity", "distance", "alignment", "cost"))
        where = [self._index(name) for name in event.agents]
        for column, index in enumerate(where):
            if index is not None:
                bucket.propensity[index] += p[column]
                bucket.distance[index] += distance[column]
        self.lambda_, self.policy = event.lambda_, event.policy
        column = event.agents.index(event.agent)
        chosen = where[column]
        self.decisions += 1
        self.recent.append(
            Recent(time_us, event.id, event.agent, task=event.task.id, propensity=float(p[column]), by=event.by)
        )
        if chosen is not None:
            bucket.decisions[chosen] += 1
            self._open[event.id] = _Open(chosen, float(p[column]), float(alignment[column] + cost[column]))
            if len(self._open) > _MOST_PENDING:
                del self._open[next(iter(self._open))]

    def _feedback(self, time_us: int, event: FeedbackGiven) -> None:
        said = f"reward {event.reward:.2f}" if event.reward is not None else (event.reason or "completed")
        waiting = self._open.get(event.decision_id)
        if waiting is not None:
            if event.cost_usd:
                self._bucket(time_us).cost_usd[waiting.agent] += event.cost_usd
            if event.output is not None and event.decision_id not in self._shown:
                self._see_output(time_us, waiting.agent, event)
            if event.effect == "shown":  # the outcome is still due
                self._shown.add(event.decision_id)
                return
            if event.elapsed_s is not None and event.decision_id not in self._attempted:
                cause = Cause.COMPLETED if event.completed else REASONS.get(event.reason or "", Cause.CENSORED)
                self._time(self.agents[waiting.agent], event.elapsed_s, cause)
        self._settle(time_us, event.decision_id, reward=event.reward, said=said)

    def _settle(self, time_us: int, decision_id: str, *, reward: float | None, said: str) -> None:
        for entry in self.recent:
            if entry.id == decision_id:
                entry.outcome = said
        waiting = self._open.pop(decision_id, None)
        self._attempted.discard(decision_id)
        self._shown.discard(decision_id)
        if waiting is None or reward is None:
            return
        bucket, net = self._bucket(time_us), reward - waiting.penalty
        index, weight = waiting.agent, 1.0 / max(waiting.propensity, 1e-6)
        bucket.reward[index] += reward
        bucket.rewarded[index] += 1
        bucket.weight[index] += weight
        bucket.weighted[index] += weight * net
        bucket.earned += net
        bucket.settled += 1

    def _attempt(self, time_us: int, event: AttemptEnded) -> None:
        index = self._index(event.agent)
        if index is None:
            return
        self._bucket(time_us).cost_usd[index] += event.cost_usd
        meaning = Ending(event.ending).meaning
        if meaning.attempted:
            self._time(event.agent, event.elapsed_s, meaning.cause)
        if event.decision_id in self._open:
            self._attempted.add(event.decision_id)
        counts = self.endings.setdefault(event.agent, {})
        counts[event.ending] = counts.get(event.ending, 0) + 1

    def _time(self, agent: str, elapsed_s: float, cause: Cause) -> None:
        self.times.setdefault(agent, deque(maxlen=_KEPT_TIMES)).append(Ended(elapsed_s, cause))

    def _see_output(self, time_us: int, index: int, event: FeedbackGiven) -> None:
        """Test the outputs of every agent for drift; the first output determines the geometry."""
        measure = measure_of(event.output or {})
        if self._monitor is None:
            geometry = Alignment.for_measure(measure).geometry
            self._monitor = DriftMonitor(geometry, _RECENT, _OLDER)
            self._drift = self._monitor.start(len(self.agents))
        for outcome in self._monitor.geometry.outcomes_of(measure)[0]:
            if bool(self._monitor.update(self._drift, outcome, agent=index)):
                p_value = float(self._drift["p_value"][index])
                self.alarms.append(Alarm(time_us, self.agents[index], p_value))

    def _index(self, agent: str) -> int | None:
        return self.agents.index(agent) if agent in self.agents else None

    def _bucket(self, time_us: int) -> Bucket:
        start_us = time_us - time_us % self.width_us
        if not self.buckets or self.buckets[-1].start_us < start_us:
            self.buckets.append(Bucket.empty(start_us, len(self.agents)))
            span = (start_us - self.buckets[0].start_us) // self.width_us + 1
            while span > _MOST_BUCKETS:
                self._widen()
                span = (self.buckets[-1].start_us - self.buckets[0].start_us) // self.width_us + 1
        return self.buckets[-1]

    def _widen(self) -> None:
        self.width_us *= 2
        merged: list[Bucket] = []
        for bucket in self.buckets:
            start_us = bucket.start_us - bucket.start_us % self.width_us
            if merged and merged[-1].start_us == start_us:
                merged[-1].add(bucket)
            else:
                bucket.start_us = start_us
                merged.append(bucket)
        self.buckets = merged
