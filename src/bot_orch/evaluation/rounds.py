"""Decisions of a log for evaluation, each with the outcome that was learned and the last reward."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bot_orch.arrays import Floats
from bot_orch.core.events import SETTLING, AttemptEnded, Censored, Configured, DecisionMade, Event, FeedbackGiven
from bot_orch.core.orchestrator import Orchestrator
from bot_orch.core.reward import BoundedReward
from bot_orch.core.state import agent_from_dict
from bot_orch.core.text import TextFeatures
from bot_orch.encoders import spread_words
from bot_orch.errors import InvalidInputError
from bot_orch.evaluation.offpolicy import LogSample
from bot_orch.types import Agent, Outcome, RewardRange, Task

if TYPE_CHECKING:
    from bot_orch.log.log import Log


@dataclass(frozen=True, slots=True)
class Lesson:
    """An outcome to learn from, known before decision number ``before``.

    ``default``: its reward is what an answer earns unless somebody reports.
    """

    outcome: Outcome
    before: int
    default: bool = False


@dataclass(frozen=True)
class LoggedRounds:
    """Logged decisions among one set of agents, with their outcomes and rewards.

    Parameters
    ----------
    agents
        Their names, in the order of the decisions' numbers.
    made
        The decisions, in order.
    lessons
        By decision, the *first* outcome: what a live router learns, with its output and time. Revisions teach nothing.
    replaced
        By decision, the reward that replaced an outcome without one.
    rewards
        By decision, the *last* reward given, revisions and late reports included: what the decision is scored with.
        A timeout of which no reward was given has the lowest one where the router learns it as that.
    revised
        Decisions whose reward was given again after the first time.
    earlier
        How many decisions were left out because they were made among other agents.
    usd, seconds
        By decision, what its attempts and reports cost and how long its attempts took, as far as known.
    settings
        The document of the newest settings for these agents, as :class:`bot_orch.log.events.Configured` holds it.
    span_s
        Seconds between the first and the last event that was read.
    """

    agents: tuple[str, ...]
    made: list[DecisionMade]
    lessons: dict[str, Lesson]
    _: KW_ONLY
    rewards: dict[str, float]
    revised: frozenset[str]
    settings: str
    earlier: int = 0
    replaced: dict[str, Lesson] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    span_s: float = 0.0

    @property
    def several(self) -> bool:
        """Whether a round of the log could ask several agents."""
        return any(event.attempts > 1 for event in self.made)

    @property
    def requests(self) -> int:
        """Decisions that began a round: neither its later steps, nor shadow calls, which are not delivered."""
        return sum(not event.answers and event.by != "shadow" for event in self.made)

    @property
    def missing(self) -> int:
        """Decisions without a reward, shadow calls apart."""
        return sum(event.id not in self.rewards for event in self.made if event.by != "shadow")

    def delivered(self) -> list[tuple[str, float]]:
        """Of every round with a reward, the agent whose answer was delivered, and what it earned."""
        found: dict[str, tuple[str, float]] = {}
        for event in self.made:
            first = event.answers[0].decision_id if event.answers else event.id
            reward = self.rewards.get(event.id, self.rewards.get(first) if event.action == "accept" else None)
            if reward is not None and event.by != "shadow":
                found[first] = (event.agent, reward)
        return list(found.values())

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks of the decisions, as passed to a router."""
        return [event.given() for event in self.made]

    def configured(self) -> Orchestrator:
        """An untrained router with the log's settings."""
        return Orchestrator.from_json(self.settings)

    def members(self) -> list[Agent]:
        """The agents as configured, with costs and profiles, in the order of the decisions."""
        entries = json.loads(self.settings)["state"]["agents"]
        by_id = {entry["id"]: agent_from_dict(entry) for entry in entries}
        return [by_id.get(name, Agent(name)) for name in self.agents]

    @cached_property
    def range(self) -> RewardRange:
        """The rewards that the log's settings allow."""
        return self.configured().reward.range

    def propensities(self) -> Floats:
        """The probabilities that the log's decisions were drawn with, (n, M)."""
        return np.array([event.column("propensity") for event in self.made]).reshape(len(self.made), len(self.agents))

    def eligible(self) -> Floats:
        """1 for agents that could be chosen, (n, M)."""
        names = [(event.eligible or self.agents) for event in self.made]
        return np.array([[float(agent in allowed) for agent in self.agents] for allowed in names])

    def scored(self, *, audited: bool = False) -> tuple[list[int], LogSample]:
        """Positions of the decisions with a score, and these decisions; ``audited``: only revised ones.

        Shadow calls have none: their answers were not delivered. Rounds of several steps are not comparable with single
        choices.
        """
        known = self.revised if audited else self.rewards.keys()
        single = [event.attempts == 1 and not event.answers and event.by != "shadow" for event in self.made]
        keep = [index for index, event in enumerate(self.made) if event.id in known and single[index]]
        return keep, self.decided(keep)

    def decided(self, keep: list[int]) -> LogSample:
        """The decisions at these positions with their rewards, NaN where missing."""
        events = [self.made[index] for index in keep]
        width = max((len(event.seen()) for event in events), default=0)
        features = np.array([_padded(event, width) for event in events]).reshape(len(events), width)
        words = max((TextFeatures.parse(event.encoder).words for event in events if event.encoder), default=0)
        features = spread_words(np.nan_to_num(features), words)
        agent = np.array([self.agents.index(event.agent) for event in events], dtype=np.int64)
        reward = np.array([self.rewards.get(event.id, np.nan) for event in events])
        return LogSample(agent, reward, self.propensities()[keep], features=features)


def collect(log: Log, since_us: int = 0, *, newest: int | None = None, settings: str = "") -> LoggedRounds:
    """Decisions since the last change of agents, each with its first outcome and last reward.

    Decisions before the time ``since_us`` are left out. With ``newest`` only so many events are read, and ``settings``
    is the document of those in force before.
    """
    reading, times_us = _Reading(newest=settings), [0, 0]
    for row in log.read(0 if newest is None else max(0, log.last()[0] - newest)):
        if row.time_us >= since_us or not row.holds(DecisionMade):
            reading.take(row.event())
            times_us = [times_us[0] or row.time_us, row.time_us]
    if not reading.made:
        raise InvalidInputError("log", "holds no decision", "pass the log of a service that has decided something")
    return replace(reading.rounds(), span_s=(times_us[1] - times_us[0]) / 1e6)


def counts_as_zero(router: Orchestrator, outcome: Outcome) -> bool:
    """Whether a router with these settings learns an outcome without a reward as the lowest one.

    Examples
    --------
    >>> router = Orchestrator(["a", "b"])
    >>> counts_as_zero(router, Outcome.censored(elapsed_s=30.0, reason="timeout"))
    True
    >>> counts_as_zero(router, Outcome.censored(elapsed_s=30.0, reason="cancelled"))
    False
    """
    if outcome.reward is not None or not isinstance(router.reward, BoundedReward):
        return False
    return router.meaning(outcome) in ("reward", "zero")


def _timeouts(lessons: Mapping[str, Lesson], settings: str) -> dict[str, float]:
    """Rewards of the decisions that a router learns as the lowest one without a report: timeouts and failures."""
    router = Orchestrator.from_json(settings)
    return {key: router.reward.range.low for key, lesson in lessons.items() if counts_as_zero(router, lesson.outcome)}


def _padded(event: DecisionMade, width: int) -> list[float]:
    values = list(event.seen())
    return values + [0.0] * (width - len(values))


@dataclass(slots=True)
class _Reading:
    """Accumulator of the events of a log."""

    made: list[DecisionMade] = field(default_factory=list)
    lessons: dict[str, Lesson] = field(default_factory=dict)
    replaced: dict[str, Lesson] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    early: dict[str, Outcome] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    revised: set[str] = field(default_factory=set)
    audited: set[str] = field(default_factory=set)
    usd: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    newest: str = ""
    used: str = ""
    earlier: int = 0

    def take(self, event: Event) -> None:
        match event:
            case Configured():
                self.newest = event.document
            case DecisionMade():
                self._decision(event)
            case FeedbackGiven():
                self._feedback(event)
            case Censored():
                self._learn(event.decision_id, event.outcome(self.answered.get(event.decision_id)))
            case AttemptEnded():
                self._attempt(event)

    def _attempt(self, event: AttemptEnded) -> None:
        if event.ending == "completed":
            self.answered[event.decision_id] = event.elapsed_s
        for known, value in ((self.usd, event.cost_usd), (self.seconds, event.elapsed_s)):
            known[event.decision_id] = known.get(event.decision_id, 0.0) + value

    def rounds(self) -> LoggedRounds:
        agents, known = self.made[-1].agents, {event.id for event in self.made}
        lessons = {key: lesson for key, lesson in self.lessons.items() if key in known}
        revised, settings = frozenset(self.revised & known), self._settings(agents)
        given = {key: reward for key, reward in self.rewards.items() if key in known}
        rewards = _timeouts(lessons, settings) | given
        return LoggedRounds(
            agents,
            self.made,
            lessons,
            rewards=rewards,
            revised=revised,
            settings=settings,
            earlier=self.earlier,
            replaced={key: lesson for key, lesson in self.replaced.items() if key in lessons},
            usd=self.usd,
            seconds=self.seconds,
        )

    def _settings(self, agents: tuple[str, ...]) -> str:
        """The newest settings, unless they are for other agents than the last decision's."""
        if not self.newest:
            raise InvalidInputError("log", "holds no settings", "pass the log of a service")
        same = {entry["id"] for entry in json.loads(self.newest)["state"]["agents"]} == set(agents)
        return self.newest if same or not self.used else self.used

    def _decision(self, event: DecisionMade) -> None:
        if self.made and event.agents != self.made[-1].agents:
            self.earlier += len(self.made)
            self.made, self.lessons = [], {}
        self.made.append(event)
        self.used = self.newest
        if event.id in self.early:
            self._learn(event.id, self.early.pop(event.id))

    def _feedback(self, event: FeedbackGiven) -> None:
        if event.effect == "early":
            self.early.setdefault(event.decision_id, event.outcome())
        elif event.effect in SETTLING:
            self._learn(event.decision_id, event.outcome(), default=event.default)
        elif event.effect == "replaced":
            self.replaced[event.decision_id] = Lesson(event.outcome(), len(self.made), event.default)
        if event.cost_usd is not None:
            self.usd[event.decision_id] = self.usd.get(event.decision_id, 0.0) + event.cost_usd
        if event.elapsed_s is not None:
            self.seconds.setdefault(event.decision_id, event.elapsed_s)
        if event.reward is not None and event.effect != "outranked":
            if event.decision_id in self.rewards:
                self.revised.add(event.decision_id)
            if event.audit or event.decision_id not in self.audited:  # a judge's opinion does not replace the truth
                self.rewards[event.decision_id] = event.reward
            if event.audit:
                self.audited.add(event.decision_id)

    def _learn(self, decision_id: str, outcome: Outcome, *, default: bool = False) -> None:
        self.lessons.setdefault(decision_id, Lesson(outcome, len(self.made), default))
