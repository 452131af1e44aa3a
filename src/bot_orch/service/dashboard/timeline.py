"""Time series of the dashboard: a fold over the rows of the log."""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from bot_orch.agents.endings import Ending
from bot_orch.arrays import Arrays
from bot_orch.core.alignment import Alignment
from bot_orch.eventlog.events import AttemptEnded, Censored, DecisionMade, Event, FeedbackGiven, measure_of
from bot_orch.eventlog.log import Row
from bot_orch.service.dashboard.buckets import Bucket, BucketSeries
from bot_orch.survival.causes import REASONS, Cause
from bot_orch.transport.drift import DriftMonitor

__all__ = ["Alarm", "Ended", "Recent", "Timeline", "outcome_words"]

_KEPT_TIMES = 400
_KEPT_DECISIONS = 60
_MOST_PENDING = 20_000
_RECENT, _OLDER = 16, 48


class Ended(NamedTuple):
    """Duration of an attempt, why it ended, and when."""

    elapsed_s: float
    cause: Cause
    time_us: int = 0


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


def outcome_words(event: FeedbackGiven | Censored) -> str:
    """The outcome of a decision in a few words; nothing while it is due."""
    if isinstance(event, Censored):
        return f"censored: {event.reason}"
    if event.effect in ("shown", "outranked"):
        return ""
    return f"reward {event.reward:.2f}" if event.reward is not None else (event.reason or "completed")


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
    """

    agents: tuple[str, ...]
    _: KW_ONLY
    series: BucketSeries = field(init=False)
    times: dict[str, deque[Ended]] = field(default_factory=dict)
    recent: deque[Recent] = field(default_factory=lambda: deque(maxlen=_KEPT_DECISIONS))
    alarms: list[Alarm] = field(default_factory=list)
    decisions: int = 0
    lambda_: float = 0.0
    policy: str = ""
    seq: int = 0
    _open: dict[str, _Open] = field(default_factory=dict)
    _attempted: set[str] = field(default_factory=set)
    _shown: set[str] = field(default_factory=set)
    _monitor: DriftMonitor | None = None
    _drift: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.series = BucketSeries(len(self.agents))

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
                self._settle(time_us, event.decision_id, reward=None, said=outcome_words(event))
            case AttemptEnded():
                self._attempt(time_us, event)

    def _decide(self, time_us: int, event: DecisionMade) -> None:
        bucket = self._bucket(time_us)
        p, distance, alignment, cost = map(event.column, ("propensity", "distance", "alignment", "cost"))
        if event.agents == self.agents:
            bucket.propensity += p
            bucket.distance += distance
        else:
            for column, name in enumerate(event.agents):
                index = self._index(name)
                if index is not None:
                    bucket.propensity[index] += p[column]
                    bucket.distance[index] += distance[column]
        self.lambda_, self.policy = event.lambda_, event.policy
        column, chosen = event.agents.index(event.agent), self._index(event.agent)
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
        if event.effect == "outranked":
            return  # the reward of another judge counts
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
                self._time(time_us, waiting.agent, Ended(event.elapsed_s, cause, time_us))
        self._settle(time_us, event.decision_id, reward=event.reward, said=outcome_words(event))

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
        bucket = self._bucket(time_us)
        bucket.ended[index] += 1
        bucket.failed[index] += event.ending != Ending.COMPLETED
        if meaning.attempted:
            self._time(time_us, index, Ended(event.elapsed_s, meaning.cause, time_us))
        if event.decision_id in self._open:
            self._attempted.add(event.decision_id)

    def _time(self, time_us: int, index: int, ended: Ended) -> None:
        self.times.setdefault(self.agents[index], deque(maxlen=_KEPT_TIMES)).append(ended)
        if ended.cause is Cause.COMPLETED:
            bucket = self._bucket(time_us)
            bucket.completed[index] += 1
            bucket.seconds[index] += ended.elapsed_s

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
        return self.series.at(time_us)
