"""Time series of the dashboard: a fold over the rows of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bot_orch.agents.admission import Refusal
from bot_orch.agents.endings import Ending
from bot_orch.arrays import Arrays, Floats
from bot_orch.core.alignment import Alignment
from bot_orch.core.events import AttemptEnded, Censored, DecisionMade, Event, FeedbackGiven, measure_of
from bot_orch.log.judgements import Judgements
from bot_orch.log.log import Row
from bot_orch.service.dashboard.buckets import Bucket, BucketSeries, Names
from bot_orch.transport.drift import DriftMonitor

_KEPT_DECISIONS = 60
_MOST_PENDING = 20_000
_MOST_GIVEN = 8192  # more than the router can still revise
_RECENT, _OLDER = 16, 48
_SHADOW = "shadow"
_AUDITS = ("audited", "judged", "truth", "gap_squares")


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
    """A short description of a decision's outcome; empty while it is pending."""
    if isinstance(event, Censored):
        return f"censored: {event.reason}"
    if event.effect in ("shown", "outranked"):
        return ""
    return f"reward {event.reward:.2f}" if event.reward is not None else (event.reason or "completed")


@dataclass(frozen=True, slots=True)
class _Given:
    """A reward that counts until another one replaces it."""

    agent: int
    reward: float
    _: KW_ONLY
    audit: bool
    start_us: int  # of the interval that it counts in


@dataclass(slots=True)
class Timeline:
    """The data of all charts.

    Parameters
    ----------
    agents
        Names of agents; events of others are ignored.
    kind
        Only tasks of this kind count; empty: all do.
    judgements
        What judges said about these tasks; empty if all count, because the ledger knows it of all.
    """

    agents: tuple[str, ...]
    kind: str = ""
    _: KW_ONLY
    judgements: Judgements = field(default_factory=Judgements)
    series: BucketSeries = field(init=False)
    recent: deque[Recent] = field(default_factory=lambda: deque(maxlen=_KEPT_DECISIONS))
    alarms: list[Alarm] = field(default_factory=list)
    decisions: int = 0
    seq: int = 0
    _open: dict[str, int] = field(default_factory=dict)  # the agents of decisions without an outcome so far
    _silent: dict[str, int] = field(default_factory=dict)
    _given: dict[str, _Given] = field(default_factory=dict)
    _learners: dict[str, str] = field(default_factory=dict)  # of rounds that looked, by the decision that accepted
    _delivered: dict[str, str] = field(default_factory=dict)  # the other way round
    _ours: dict[str, None] = field(default_factory=dict)
    _kinds: Names = field(default_factory=Names)
    _attempted: set[str] = field(default_factory=set)
    _shown: set[str] = field(default_factory=set)
    _monitor: DriftMonitor | None = None
    _drift: Arrays = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.series = BucketSeries(len(self.agents))

    @property
    def due(self) -> int:
        """Number of pending outcomes."""
        return len(self._open)

    @property
    def partial(self) -> bool:
        """Whether only some tasks are included."""
        return bool(self.kind)

    def take(self, row: Row) -> None:
        """Apply one row."""
        self.seq = row.seq
        self.apply(row.time_us, row.event())

    def apply(self, time_us: int, event: Event) -> None:
        """Apply one event."""
        if self.partial and not self._counts(event):
            return
        match event:
            case DecisionMade():
                self._decide(time_us, event)
            case FeedbackGiven():
                self._feedback(time_us, event)
            case Censored():
                self._settle(time_us, event.decision_id, reward=None, said=outcome_words(event))
            case AttemptEnded():
                self._attempt(time_us, event)

    def _counts(self, event: Event) -> bool:
        """Whether an event is about an included task; judges' values of included tasks are counted."""
        if isinstance(event, DecisionMade):
            if self.kind not in ("", event.task.kind):
                return False
            self._ours[event.id] = None
            _bound(self._ours, _MOST_PENDING)
            if event.audit and event.action == "ask":
                self.judgements.mark(event.id, event.agent)
            return True
        if not isinstance(event, FeedbackGiven | Censored | AttemptEnded) or event.decision_id not in self._ours:
            return False
        if isinstance(event, FeedbackGiven) and event.reward is not None and (event.judge or event.audit):
            known_as = self._learners.get(event.decision_id, event.decision_id)
            self.judgements.take(replace(event, decision_id=known_as))
        return True

    def _decide(self, time_us: int, event: DecisionMade) -> None:
        p = event.column("propensity")
        p_chosen = float(p[event.agents.index(event.agent)])
        if event.agents != self.agents:
            p = self._arranged(event.agents, p)
        chosen = self._index(event.agent)
        self.recent.append(Recent(time_us, event.id, event.agent, task=event.task.id, propensity=p_chosen, by=event.by))
        if event.action == "accept":
            if chosen is not None:
                self._accept(time_us, event, chosen)
            return
        self.decisions += 1
        if event.by != _SHADOW:  # shadow calls are not traffic
            bucket = self._bucket(time_us)
            bucket["propensity"][:] += p
            bucket.kinds[self._kinds.known(event.task.kind)] += 1
            for name, why in (event.excluded or {}).items():
                if why == Refusal.BUSY and (busy := self._index(name)) is not None:
                    bucket["diverted"][busy] += 1
            if chosen is not None:
                bucket["decisions"][chosen] += 1
        if chosen is not None:
            self._open[event.id] = chosen
            _bound(self._open, _MOST_PENDING)

    def _accept(self, time_us: int, event: DecisionMade, agent: int) -> None:
        """Deliver the answer of a round: its reward counts for the agent, and says nothing of the other ones."""
        bucket, (first, *later) = self._bucket(time_us), event.answers
        bucket["rounds"][agent] += 1
        bucket["asked_again"][agent] += bool(later)
        bucket["changed"][agent] += event.agent != first.agent
        bucket["later_usd"][agent] += sum(each.covariates.get("cost_usd", 0.0) for each in later)
        for each in event.answers:
            self._open.pop(each.decision_id, None)
        asked = {each.decision_id for each in event.answers}
        for entry in self.recent:
            if entry.id in asked:
                entry.outcome = "looked at"
        self._learners[event.id], self._delivered[first.decision_id] = first.decision_id, event.id
        _bound(self._learners, _MOST_PENDING)
        _bound(self._delivered, _MOST_PENDING)
        self._open[event.id] = agent
        _bound(self._open, _MOST_PENDING)

    def _arranged(self, agents: Sequence[str], values: Floats) -> Floats:
        """Values of a decision reordered to our agents; zero for agents that it did not have."""
        found = np.zeros(len(self.agents))
        for name, value in zip(agents, values, strict=True):
            index = self._index(name)
            if index is not None:
                found[index] = value
        return found

    def _feedback(self, time_us: int, event: FeedbackGiven) -> None:
        if event.effect == "outranked":
            return  # the reward of another judge counts
        if event.decision_id in self._delivered:
            event = replace(event, decision_id=self._delivered[event.decision_id])
        waiting = self._open.get(event.decision_id)
        if waiting is not None:
            if event.cost_usd:
                self._bucket(time_us)["cost_usd"][waiting] += event.cost_usd
            if event.output is not None and event.decision_id not in self._shown:
                self._see_output(time_us, waiting, event)
            if event.effect == "shown":  # the outcome is still due
                self._shown.add(event.decision_id)
                return
            if event.completed and event.elapsed_s is not None and event.decision_id not in self._attempted:
                self._time(time_us, waiting, event.elapsed_s)
        if event.effect == "replaced" and event.reward is not None:
            self._replace(event.decision_id, event.reward)
        if event.effect == "audited" and event.reward is not None:
            self._compare(time_us, event.decision_id, event.reward, audit=event.audit)
        self._settle(time_us, event.decision_id, reward=event.reward, said=outcome_words(event), audit=event.audit)

    def _settle(self, time_us: int, decision_id: str, *, reward: float | None, said: str, audit: bool = False) -> None:
        for entry in self.recent:
            if entry.id == decision_id:
                entry.outcome = said
        waiting = self._open.pop(decision_id, None)
        if waiting is None:
            waiting = self._silent.pop(decision_id, None)
        self._attempted.discard(decision_id)
        self._shown.discard(decision_id)
        if waiting is None:
            return
        if reward is None:
            self._silent[decision_id] = waiting  # a reward may come after all
            _bound(self._silent, _MOST_GIVEN)
        else:
            given = _Given(waiting, reward, audit=audit, start_us=self._bucket(time_us).start_us)
            self._count(given, 1.0)
            self._given[decision_id] = given
            _bound(self._given, _MOST_GIVEN)

    def _compare(self, time_us: int, decision_id: str, reward: float, *, audit: bool) -> None:
        """Record the second of two verdicts: the judge's value and the truth."""
        first = self._given.get(decision_id)
        if first is None or first.audit == audit:
            return
        judged, truth = (first.reward, reward) if audit else (reward, first.reward)
        bucket, index = self._bucket(time_us), first.agent
        for name, value in zip(_AUDITS, (1.0, judged, truth, (judged - truth) ** 2), strict=True):
            bucket[name][index] += value

    def _replace(self, decision_id: str, reward: float) -> None:
        """Replace an earlier reward in its own interval, so that means stay in [0, 1]."""
        before = self._given.get(decision_id)
        if before is not None:
            after = self._given[decision_id] = replace(before, reward=reward)
            self._count(before, -1.0)
            self._count(after, 1.0)

    def _count(self, given: _Given, sign: float) -> None:
        """Add a reward to the sums of its interval, or subtract it again."""
        for bucket in self.series.holding(given.start_us):
            bucket["reward"][given.agent] += sign * given.reward
            bucket["rewarded"][given.agent] += sign

    def _attempt(self, time_us: int, event: AttemptEnded) -> None:
        index = self._index(event.agent)
        if index is None:
            return
        bucket = self._bucket(time_us)
        bucket["cost_usd"][index] += event.cost_usd
        bucket["ended"][index] += 1
        bucket["failed"][index] += event.ending != Ending.COMPLETED
        bucket["diverted"][index] += event.ending == Ending.REFUSED_BUSY
        if event.ending == Ending.COMPLETED:
            self._time(time_us, index, event.elapsed_s)
        if event.decision_id in self._open:
            self._attempted.add(event.decision_id)

    def _time(self, time_us: int, index: int, elapsed_s: float) -> None:
        bucket = self._bucket(time_us)
        bucket["completed"][index] += 1
        bucket["seconds"][index] += elapsed_s

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


def _bound(found: dict[str, Any], most: int) -> None:
    if len(found) > most:
        del found[next(iter(found))]
