"""The orchestrator: choose an agent for each task and learn from the outcomes."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, cast

import numpy as np

from bot_orch.arrays import Arrays, Floats, insert_agent, remove_agent
from bot_orch.checks import check_count, check_number, check_seconds, check_text
from bot_orch.core import cascade, outcome_learning
from bot_orch.core.alignment import Alignment, Units
from bot_orch.core.cascade import Round
from bot_orch.core.completion.model import OutcomeMeaning
from bot_orch.core.completion.patience import PatienceRule, patience_share
from bot_orch.core.completion.silences import Silence
from bot_orch.core.constraints import Constraint, Objective, as_constraints
from bot_orch.core.context import without_context
from bot_orch.core.engine import ENGINE, Details, Engine, Observation, Proposal
from bot_orch.core.events import (
    MODEL,
    SETTLING,
    AttemptEnded,
    Censored,
    Configured,
    Controlled,
    DecisionMade,
    EvaluationsGiven,
    Event,
    EventMismatchError,
    FeedbackGiven,
    Noted,
    TaskEnded,
    TaskSubmitted,
    measure_of,
)
from bot_orch.core.exclusive import exclusive
from bot_orch.core.guarantee import Certificate, Guarantee
from bot_orch.core.named import check_late, names_of, vector_of
from bot_orch.core.restarts import OnAlarm
from bot_orch.core.reward import BoundedReward, RewardModel
from bot_orch.core.roster import Roster, as_agents
from bot_orch.core.settings import Lambda, Settings, carried_over
from bot_orch.core.state import (
    FORMAT,
    VERSION,
    CapturedState,
    FirstVerdict,
    MeasuredUsage,
    State,
    measured_usage,
    parse,
)
from bot_orch.core.text import encode
from bot_orch.core.warm import (
    Evaluations,
    WarmPolicy,
    WarmStart,
    as_evaluations,
    encoded_tasks,
    fit_features,
    most_lessons,
    teach,
    with_answers,
)
from bot_orch.encoders import Encoder
from bot_orch.errors import InvalidInputError, PriceWarning, UnknownDecisionError, require_type
from bot_orch.files import read_state, save_state
from bot_orch.numerics.choice import capped, draw
from bot_orch.policies.base import Choice, Policy
from bot_orch.policies.registry import make_policy, policy_name
from bot_orch.records import builder
from bot_orch.rng import derive_key, forks, random_prefix, stream_of, uniform
from bot_orch.types import (
    REWARD_ROUNDING,
    Agent,
    Answer,
    Decision,
    Measure,
    Multiplier,
    Outcome,
    RandomKey,
    RewardRange,
    Task,
    Terms,
)

_decision, _terms, _random_key = builder(Decision), builder(Terms), builder(RandomKey)

_OWN = ("bot_orch.core.", "bot_orch.router.")  # modules between a warning and the caller that it is for


@dataclass(slots=True)
class Applied:
    """What an event has changed: decisions that it ended, agents that it started afresh, lessons of evaluations.

    ``learner`` is the first decision of a round if the event reported the outcome of the one that accepted.
    """

    ended: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    lessons: int = 0
    learner: str = ""


class Orchestrator:
    """Routes tasks to agents and learns from outcomes, which may arrive late or out of order.

    Not thread-safe. A call that changes or serialises the orchestrator while another call is in progress raises
    :class:`~bot_orch.errors.ConcurrentUseError` and has no effect. Share a :class:`bot_orch.Router` between threads
    instead.

    Parameters
    ----------
    agents
        Names, or :class:`bot_orch.Agent` objects with a cost, a price and a profile. Prices break ties alone, with a
        :class:`~bot_orch.errors.PriceWarning`, unless an objective or constraint counts dollars.
    policy
        A policy or its name.
    lambda_
        Weight of the alignment cost in the score, in units of reward, or ``auto``: an adaptive weight under which only
        agents much farther away than the others have a cost (:mod:`bot_orch.core.alignment.dual`).
    seed
        Seed of the random stream; equal seeds, tasks and outcomes give equal decisions, apart from their ids.
    n_features
        Length of ``task.features`` for contextual policies. Unless given, the first task decides, and later ones must
        bring as many features. 0 leaves features unused.
    floor
        Share of all traffic that explores: a quarter spread evenly over the eligible agents, the rest where the policy
        is in doubt, if it says so, else evenly, too. It keeps every propensity positive, for off-policy evaluation and
        to detect agents that change.
    alignment
        How distances are computed. By default the type of the first measure decides: labels use 0-1 cost, samples use
        quantiles, clouds use sliced W (moments for single points), always with the lower confidence distance.
    units
        Units of the distances that lambda multiplies. ``reference`` (the default): distances relative to the
        variability of the reference, comparable across geometries. ``native``: those of the geometry, as in the paper.
    reward
        Model that computes rewards from outcomes. ``BoundedReward(low=1, high=5)``: rewards from 1 to 5 instead of 0 to
        1. Estimates, costs and weights are then in these units.
    cost_weight
        Units of reward per dollar; short for ``objective=Objective(usd=...)``.
    objective
        Weights of reward, dollars and seconds. Expected dollars and seconds are learned from ``outcome.cost_usd`` and
        ``outcome.elapsed_s`` and subtracted from the score in addition to the agents' ``cost``.
    constraints
        Limits on mean dollars, an agent's share, late outcomes or loss of quality: see
        :mod:`bot_orch.core.constraints`.
    guarantee
        A :class:`bot_orch.Guarantee`: another agent than its baseline is served only while the loss is certified to be
        within the promise; see :meth:`certificate`.
    encoder
        How ``task.text`` becomes context: a name (``builtin``: hashed words; ``wordllama``: static embeddings, with the
        extra ``text``), a callable from a text to a list of numbers, or None to leave texts unused. From the
        first text on, tasks without one count as having an empty one.
    patience_s
        Seconds after which silence counts as not completed, with reward zero; None states none. Silence before that, or
        without a stated patience, counts for what it says: see ``docs/concepts/silence.md``.
    horizon
        Rounds after which a decision without an outcome is dropped as silence; None keeps it pending for ever.
    audit_rate
        Share of decisions, drawn at random, that are marked with ``decision.audit``: report the truth about them by
        ``observe(..., audit=True)`` in addition to the judge's verdict, and the judge's bias per agent is learned and
        subtracted from the score.
    on_alarm
        What a drift alarm of an agent's outputs does. ``count`` (the default): nothing else. ``restart``: the agent
        starts afresh, and rewards of its earlier decisions are not learned any more. Needs outputs; the drift test is
        the one of the alignment, or the default one.
    ids
        How ids of decisions begin. ``random`` (the default): with 16 random digits, drawn once and saved with the
        state, so that no other orchestrator takes an outcome of this one. ``derived``: with the key of the random
        stream, so that equal seeds give equal ids, as tests need them. Draws depend on seed and round alone.

    Examples
    --------
    >>> router = Orchestrator(["fast", "careful"], seed=1)
    >>> decision = router.decide(Task("t-1"))
    >>> router.observe(decision.id, Outcome.completed(reward=1.0))
    """

    _last_prepared: tuple[Decision, Engine, Observation] | None = None
    _applied: Applied | None = None  # what the event under way has changed so far

    def __init__(
        self,
        agents: Iterable[str | Agent],
        policy: Policy | str = "auto",
        *,
        lambda_: Lambda = "auto",
        seed: int = 0,
        n_features: int | None = None,
        floor: float = 0.02,
        alignment: Alignment | None = None,
        units: Units | None = None,
        reward: RewardModel | None = None,
        cost_weight: float = 0.0,
        encoder: Encoder | str | None = "builtin",
        patience_s: float | None = None,
        horizon: int | None = 10_000,
        audit_rate: float = 0.0,
        on_alarm: OnAlarm = "count",
        objective: Objective | None = None,
        constraints: Constraint | Iterable[Constraint] = (),
        guarantee: Guarantee | None = None,
        ids: Literal["random", "derived"] = "random",
    ) -> None:
        if ids not in ("random", "derived"):
            raise InvalidInputError("ids", f"is {ids!r}", "pass 'random', or 'derived' for tests")
        if policy is None:
            raise InvalidInputError("policy", "is None", "leave it out for 'auto', or pass a policy or its name")
        settings = Settings(
            policy=make_policy(policy) if isinstance(policy, str) else policy,
            lambda_=lambda_,
            seed=seed,
            n_features=n_features,
            floor=floor,
            alignment=alignment,
            units=units,
            reward=BoundedReward() if reward is None else reward,
            cost_weight=cost_weight,
            encoder=encoder,
            patience_s=patience_s,
            horizon=horizon,
            audit_rate=audit_rate,
            on_alarm=on_alarm,
            objective=Objective() if objective is None else objective,
            constraints=as_constraints(constraints),
            guarantee=guarantee,
        )
        self._start(settings, as_agents(agents), prefix=random_prefix() if ids == "random" else "")
        self._roster.check_budgets(settings)
        if found := self._roster.idle_prices(settings):
            _warn_of_prices(found)

    @classmethod
    def from_settings(cls, settings: Settings, agents: Iterable[Agent]) -> Self:
        """A new orchestrator with these settings, no learned state and derived ids."""
        require_type("settings", settings, Settings, "pass the settings of an orchestrator")
        router = cls.__new__(cls)
        router._start(settings, as_agents(agents))
        return router

    @property
    def settings(self) -> Settings:
        """Current settings, including the alignment chosen from the first measure."""
        return self._engine.settings

    @property
    def policy(self) -> Policy:
        """The policy that scores agents."""
        return self.settings.policy

    @property
    def lambda_(self) -> Lambda:
        """Weight of the alignment cost, or ``auto``."""
        return self.settings.lambda_

    @property
    def floor(self) -> float:
        """Share of traffic that explores."""
        return self.settings.floor

    @property
    def seed(self) -> int:
        """Seed of the random stream."""
        return self.settings.seed

    @property
    def n_features(self) -> int | None:
        """Number of features of a task; None until the first task has some."""
        return self.settings.n_features

    @property
    def alignment(self) -> Alignment | None:
        """The alignment in use; None until the first measure was seen."""
        return self._engine.alignment

    @property
    def reward(self) -> RewardModel:
        """Model that computes rewards from outcomes."""
        return self.settings.reward

    @property
    def members(self) -> tuple[Agent, ...]:
        """The agents, in order."""
        return self._state.agents

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, in order."""
        return self._roster.names

    @property
    def rounds(self) -> int:
        """Number of decisions so far."""
        return self._state.rounds

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions without an outcome, oldest first."""
        return tuple(self._state.pending)

    @property
    def silent(self) -> tuple[str, ...]:
        """Ids of recent decisions that ended without a reward, oldest first; a late reward may still replace them."""
        return tuple(self._state.silences)

    def is_pending(self, decision_id: str) -> bool:
        """Whether a decision is among :attr:`pending`."""
        return isinstance(decision_id, str) and decision_id in self._state.pending

    def is_silent(self, decision_id: str) -> bool:
        """Whether a decision is among :attr:`silent`."""
        return isinstance(decision_id, str) and decision_id in self._state.silences

    def is_provisional(self, decision_id: str) -> bool:
        """Whether the reward of a decision may still be replaced."""
        return isinstance(decision_id, str) and decision_id in self._state.provisional

    def round_of(self, decision_id: str) -> tuple[str, ...]:
        """Ids of the decisions whose answers form a round, if a pending decision accepted one of them."""
        accepted = self._state.pending.get(decision_id) if isinstance(decision_id, str) else None
        if accepted is None or accepted.action != "accept":
            return ()
        return tuple(each.decision for each in accepted.answers)

    def accepted_in(self, decision_id: str) -> str:
        """The pending decision that accepted an answer of the round of a pending step; the id itself if there is none.

        An outcome reported for it is that of the whole round.
        """
        pending = self._state.pending
        step = pending.get(decision_id) if isinstance(decision_id, str) else None
        if step is None or step.action == "accept" or (step.attempts == 1 and not step.answers):
            return decision_id
        for each in reversed(pending.values()):
            if each.action == "accept" and any(answer.decision == decision_id for answer in each.answers):
                return each.id
        return decision_id

    def judge_of(self, decision_id: str) -> str | None:
        """The judge whose reward counts, while another judge's may still replace it."""
        return self._state.provisional[decision_id].judge if self.is_provisional(decision_id) else None

    def effect_of(self, decision_id: str, outcome: Outcome, *, audit: bool = False) -> str | None:
        """How a report would count now: an effect of :class:`~bot_orch.core.events.FeedbackGiven`.

        ``learned``, ``noted``, ``replaced`` or ``audited``; None if nothing would be learned.

        Examples
        --------
        >>> router = Orchestrator(["a", "b"], seed=1)
        >>> made, silence = router.decide(Task()), Outcome.censored(elapsed_s=1.0, reason="deadline")
        >>> router.effect_of(made.id, Outcome.completed(1.0)), router.effect_of(made.id, silence)
        ('learned', 'noted')
        """
        state, lesson = self._state, self.meaning(outcome) in ("reward", "zero")
        if _id(decision_id) in state.pending:
            return "learned" if lesson else "noted"
        first = state.verdicts.get(decision_id)
        if first is not None and first.audit != audit:
            return "audited"
        replaces = decision_id in state.silences or (decision_id in state.provisional and not audit)
        return "replaced" if lesson and replaces else None

    @property
    def early(self) -> Collection[str]:
        """Ids of decisions that are not known yet, and have a report."""
        return self._state.early.keys()

    @property
    def verdicts(self) -> Mapping[str, FirstVerdict]:
        """First verdicts on audited decisions that wait for their second one, by decision id."""
        return MappingProxyType(self._state.verdicts)

    @property
    def shown(self) -> Collection[str]:
        """Ids of pending decisions whose output is known."""
        return self._state.shown.keys()

    @property
    def used(self) -> Collection[str]:
        """Ids of pending decisions whose usage is known."""
        return self._state.used.keys()

    @exclusive
    def decide(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        caps: Mapping[str, float] | None = None,
        decision_id: str | None = None,
        seen: Sequence[Answer] = (),
        attempts: int = 1,
    ) -> Decision:
        """Choose an agent for ``task`` and record the decision as pending.

        ``caps`` are the largest propensities of single agents, such as a new one on trial
        (:func:`bot_orch.numerics.choice.capped`). ``decision_id`` is an id of your own for the decision.

        With ``attempts`` the round may ask as many agents. After each answer decide again, with the answers so far as
        ``seen`` and the same ``attempts``: ``decision.action`` is ``ask`` (the agent) or ``accept`` (deliver the answer
        of the agent). Report the outcome of the round for the decision that accepted.

        Examples
        --------
        >>> router = Orchestrator(["small", "large"], seed=1)
        >>> first = router.decide(Task(), attempts=2)
        >>> answer = Answer(first.agent, first.id, signal=0.9, check=True, label="yes")
        >>> second = router.decide(Task(), seen=[answer], attempts=2)
        >>> second.action in ("ask", "accept")
        True
        """
        wanted = cascade.wanted(seen, attempts)
        decision, engine, observed = self._derived(task, eligible, caps, decision_id, wanted)
        self._committed(engine, decision, observed)
        return decision

    def prepare(
        self,
        task: Task,
        eligible: Collection[str] | None = None,
        *,
        caps: Mapping[str, float] | None = None,
        decision_id: str | None = None,
        seen: Sequence[Answer] = (),
        attempts: int = 1,
    ) -> Decision:
        """The decision that :meth:`decide` would make now; the state does not change until it is committed."""
        wanted = cascade.wanted(seen, attempts)
        prepared = self._last_prepared = self._derived(task, eligible, caps, decision_id, wanted)
        return prepared[0]

    derive = prepare

    def _derived(
        self,
        task: Task,
        eligible: Collection[str] | None,
        caps: Mapping[str, float] | None,
        decision_id: str | None,
        wanted: Round | None,
    ) -> tuple[Decision, Engine, Observation]:
        if decision_id is not None:
            self._check_id(decision_id)
        engine, task, observed = self._observed(task, eligible, wanted)
        if task.profiles:
            self._roster.check_profiles(task)
        made = self._prepared(engine, observed, task, caps=caps, decision_id=decision_id, wanted=wanted)
        return made, engine, observed

    def _check_id(self, decision_id: str) -> None:
        if type(decision_id) is not str or not decision_id:
            raise InvalidInputError("decision_id", f"is {decision_id!r}", "pass a text, or None")
        state = self._state
        known = (state.pending, state.silences, state.provisional, state.verdicts)
        if any(decision_id in each for each in known):
            raise InvalidInputError("decision_id", f"{decision_id!r} is taken", "choose an id that was not used")

    def encoded(self, task: Task) -> Task:
        """The task with its text replaced by the encoder's features, as :meth:`decide` uses and the log stores it."""
        settings = self._engine_for(task).settings
        return encode(self._as_vector(task, settings), settings)

    def certificate(self) -> Certificate | None:
        """The current certificate of the guarantee; None without one.

        Examples
        --------
        >>> from bot_orch import Guarantee
        >>> router = Orchestrator(["small", "large"], guarantee=Guarantee("large", 0.05), seed=1)
        >>> router.decide(Task()).agent
        'large'
        >>> router.certificate().serves_others
        False
        """
        guarantee = self.settings.guarantee
        return None if guarantee is None else guarantee.certificate(self._state.parts["guarantee"], self.agents)

    def patience(
        self,
        decision: Decision,
        deadline_s: float,
        *,
        eligible: Collection[str] | None = None,
        rule: PatienceRule = "learned",
    ) -> float:
        """Seconds to wait for the agent of a decision before asking another one, given ``deadline_s`` for both.

        ``eligible`` are those who may be asked next, by default every other agent. After that time report
        ``Outcome.censored(elapsed_s=..., reason="cancelled")`` and decide again without the agent: both decisions have
        their own propensities, and silence counts for what it says. ``half`` waits half of the time. ``learned``
        weighs when agents complete against what the best of the others would earn in the time left
        (:mod:`bot_orch.core.completion.patience`); it waits half of the time before the first completion.

        Examples
        --------
        >>> router = Orchestrator(["fast", "careful"], seed=1)
        >>> decision = router.decide(Task())
        >>> router.patience(decision, 30.0)
        15.0
        >>> router.patience(decision, 30.0, eligible=[])
        30.0
        """
        if type(decision) is not Decision:
            require_type("decision", decision, Decision, "pass what decide() returned")
        check_number("deadline_s", deadline_s, "pass the seconds that are left", low=0.0)
        check_seconds("deadline_s", deadline_s)
        known, state = self._roster, self._state.parts["completion"]
        if decision.agents != known.names:  # agents came or went since
            return 0.5 * deadline_s
        if isinstance(eligible, Collection) and not eligible:
            return deadline_s
        value = self._engine.rewards.unit(decision.terms.estimate)
        mask, index = known.mask(eligible), known.index[decision.agent]
        others = np.ones(len(known.names), dtype=bool) if mask is None else mask
        return deadline_s * patience_share(state, value, index, others=others, deadline_s=deadline_s, rule=rule)

    def _observed(
        self, task: Task, eligible: Collection[str] | None = None, wanted: Round | None = None
    ) -> tuple[Engine, Task, Observation]:
        engine, t = self._engine_for(task), self._state.rounds + 1
        if wanted is not None and not engine.settings.team:
            engine = Engine(replace(engine.settings, team=True))
        if engine.settings.text is not None or engine.settings.names or isinstance(task.features, Mapping):
            task = encode(self._as_vector(task, engine.settings), engine.settings)
        return engine, task, self._roster.observation(engine, task, t, eligible=eligible, pending=self._waiting)

    @staticmethod
    def _as_vector(task: Task, settings: Settings) -> Task:
        """The task with a vector of features; a task without any has all of those by name missing."""
        given: Any = {} if settings.names and not task.features else task.features
        if isinstance(given, Mapping):
            names = () if settings.n_features == 0 else settings.names
            task = replace(task, features=vector_of(given, names) if names else (), names=names)
        return task

    def _named(self, task: Task) -> Engine:
        """The engine, which knows the names of features from the first task on that has them by name."""
        settings = self.settings
        if settings.n_features == 0:
            return self._engine
        if isinstance(task.features, Mapping) and not settings.names and not self._fresh:
            check_late(task.features, settings)
        names = task.names or settings.names or names_of(cast("Mapping[str, Any]", task.features))
        if names == settings.names:
            return self._engine
        if settings.names:
            problem = f"are {', '.join(task.names)}, this orchestrator has {', '.join(settings.names)}"
            raise InvalidInputError("task.names", problem, "pass the features by name")
        return Engine(replace(settings, names=names))

    def _prepared(
        self,
        engine: Engine,
        observed: Observation,
        task: Task,
        *,
        caps: Mapping[str, float] | None,
        decision_id: str | None,
        wanted: Round | None,
    ) -> Decision:
        counter, names, rate = self._state.rounds, self._roster.names, engine.settings.audit_rate
        parts = self._state.parts if engine is self._engine else self._parts_of(engine)
        step = None
        if wanted is not None:
            step = cascade.step_of(engine, self._state, parts, self._roster, round_=wanted, observed=observed)
        several, choose = wanted is not None and wanted.attempts > 1, None if step is None else step.choose
        found = engine.prepare(parts, observed, self._uniform(counter), steps=several, choose=choose)
        choice, p, agent = found.drawn.choice, found.drawn.propensities, found.drawn.agent
        if caps and not (wanted is not None and wanted.seen):
            p = capped(p, self._roster.caps(caps), observed.eligible)
            agent = draw(p, self._uniform(counter))
        described = () if wanted is None else cascade.described(wanted, names[int(agent)])
        if self._forks != forks():
            self._rename()
        return _decision(
            decision_id or f"{self._prefix}-{counter:012x}",
            task.id,
            names[int(agent)],
            names,
            p,
            self._described(engine, choice, found),
            self._name,
            float(found.lambda_) * engine.rewards.width,
            self._state.seq,
            _random_key(self._stream, counter),
            task.features,
            () if observed.claims is None else tuple(observed.claims.tolist()),
            task.encoded if engine.settings.text is not None else "",
            self._audited(counter, rate, wanted),
            rate,
            () if found.multipliers is None else self._multipliers(found.multipliers),
            () if engine.settings.names == self.settings.names else engine.settings.names,
            *described,
        )

    def _described(self, engine: Engine, choice: Choice, found: Proposal) -> Terms:
        """The terms of the scores in units of reward."""
        estimate, bonus, paid, bias = choice.estimate, choice.exploration, found.alignment, found.bias
        cost = found.cost
        if engine.rewards.is_unit:
            return _terms(estimate.copy(), bonus, found.distance, paid, cost, bias)
        width = engine.rewards.width
        bias = None if bias is None else bias * width
        estimate = engine.rewards.natural(estimate)
        return _terms(estimate, bonus * width, found.distance, paid * width, cost * width, bias)

    def _on_unit_scale(self, decision: Decision) -> Decision:
        """A decision as the state keeps it: the inverse of :meth:`_described`."""
        rewards, terms = self._engine.rewards, decision.terms
        if rewards.is_unit:
            return decision
        per = 1.0 / rewards.width
        bias = None if terms.bias is None else terms.bias * per
        estimate, bonus = rewards.unit(terms.estimate), terms.exploration * per
        found = _terms(estimate, bonus, terms.distance, terms.alignment * per, terms.cost * per, bias)
        return replace(decision, terms=found, lambda_=decision.lambda_ * per)

    def _audited(self, counter: int, rate: float, wanted: Round | None) -> bool:
        """Whether a decision is marked for an audit; a later step of a round is as its first decision is."""
        if wanted is not None and wanted.seen:
            first = self._state.pending.get(wanted.seen[0].decision)
            return first is not None and first.audit
        return rate > 0.0 and uniform(self._audit_stream, counter) < rate

    def _multipliers(self, values: Floats) -> tuple[Multiplier, ...]:
        values = values * self._engine.rewards.width
        wanted = zip(self.settings.constraints, values.tolist(), strict=True)
        return tuple(Multiplier(each.name, value, each.unit) for each, value in wanted)

    @exclusive
    def commit(self, decision: Decision, task: Task, eligible: Collection[str] | None = None) -> None:
        """Apply a prepared or recorded decision: it becomes pending.

        Only the decision itself matters, so it may come from an older engine. It must be the next one in order.
        Constraints also read ``eligible``, the agents that it was made among.
        """
        if type(decision) is not Decision:
            require_type("decision", decision, Decision, "pass what prepare() returned")
        counter, names = self._state.rounds, self._roster.names
        if decision.key.counter != counter:
            problem = f"is number {decision.key.counter}, number {counter} is next"
            raise InvalidInputError("decision.key", problem, "commit decisions in the order in which they were made")
        if decision.agents != names:
            raise InvalidInputError("decision.agents", f"are {decision.agents}", f"this orchestrator has {names}")
        self._roster.find(decision.agent)
        self._check_id(decision.id)
        prepared = self._last_prepared
        if prepared is not None and self._is_prepared(decision):
            _, engine, observed = prepared
        else:
            if decision.encoder:  # the text is not needed again
                names = decision.names or task.names
                task = replace(task, text=None, features=decision.features, encoded=decision.encoder, names=names)
            wanted = cascade.wanted(decision.answers, decision.attempts)
            engine, _, observed = self._observed(task, eligible, wanted)
        self._committed(engine, decision, observed)

    def _is_prepared(self, decision: Decision) -> bool:
        """Whether a decision is the one prepared last, and nothing has changed since: its task was observed then."""
        prepared = self._last_prepared
        return prepared is not None and prepared[0] is decision and decision.state_seq == self._state.seq

    def _committed(self, engine: Engine, decision: Decision, observed: Observation) -> None:
        if engine is not self._engine:
            self._use(engine)
        decision = self._on_unit_scale(decision)
        state, index = self._state, self._roster.index[decision.agent]
        agent, terms = self._roster.places[index], decision.terms
        choice = None
        if engine.settings.guarantee is not None:
            outcome_learning.promise(engine, state, self._roster, decision)
        if engine.pacing is not None:
            choice = Choice(decision.propensities, terms.estimate, terms.exploration)
        if decision.answers:
            cascade.commit(state, self._roster, decision)
        if decision.action == "ask":
            lambda_ = decision.lambda_
            choice = choice if not decision.answers else None  # limits are per task, not per answer
            engine.commit(state.parts, observed, agent, alignment=terms.alignment, lambda_=lambda_, choice=choice)
            self._waiting[index] += 1.0
        state.pending[decision.id] = decision
        state.rounds, state.seq = state.rounds + 1, state.seq + 1
        horizon = engine.settings.horizon
        if horizon is not None and next(iter(state.pending.values())).key.counter < state.rounds - horizon:
            self._expire_before(state.rounds - horizon)

    def apply(self, event: Event, *, made: Decision | Outcome | None = None) -> Applied:
        """Fold one event of a log into the state: what the router, the service and replay do with every event.

        An event that does not follow from those before it raises an error and changes nothing; so does a decision
        whose agent is not the one that its probabilities and random key draw. Events of tasks, operators and notes
        change nothing.

        ``made`` is the decision or the outcome that the event was made from, if this process has just made it.

        Examples
        --------
        >>> from bot_orch.core.events import FeedbackGiven, record_decision, record_task
        >>> router, copy = (Orchestrator(["a", "b"], seed=1) for _ in range(2))
        >>> decision = router.decide(Task("t"), decision_id="d-1")
        >>> _ = copy.apply(record_decision(decision, record_task(Task("t"))))
        >>> copy.pending
        ('d-1',)
        >>> copy.apply(FeedbackGiven("r-1", "d-1", "learned", reward=1.0)).ended
        ['d-1']
        """
        applied = self._applied = Applied()
        try:
            self._apply(event, made)
        finally:
            self._applied = None
        return applied

    def _apply(self, event: Event, made: Decision | Outcome | None) -> None:
        match event:
            case DecisionMade():
                self._apply_decision(event, made if isinstance(made, Decision) else None)
            case FeedbackGiven():
                self._apply_report(event, made if isinstance(made, Outcome) else None)
            case Censored():
                self._check_follows(event)
                attempts = self._state.attempts.get(event.decision_id)
                answered_s = None if attempts is None else attempts.elapsed_s
                self._settle_report(event.decision_id, event.outcome(answered_s))
            case AttemptEnded():
                self._apply_attempt(event)
            case EvaluationsGiven():
                self.learn_from(event.evaluations(), most=event.most)
            case Configured():
                wanted = Orchestrator.from_json(event.document)
                self.reconfigure(wanted.settings, wanted.members, keep_learned=event.keep_learned)
            case Noted() if event.topic == MODEL and event.data.get("afresh") and event.ref in self._roster.index:
                self.start_afresh(event.ref, keep=event.data.get("decision", ""))
            case TaskSubmitted() | TaskEnded() | Controlled() | Noted():
                pass
            case _:
                raise InvalidInputError("event", f"is {event!r:.60}", "pass an event of bot_orch.core.events")

    def _apply_decision(self, event: DecisionMade, made: Decision | None) -> None:
        if made is None:
            drawn = event.drawn()
            if event.stream != self._stream:
                raise EventMismatchError(f"decision {event.id} was drawn with another seed; the log was changed")
            if drawn != event.agent:
                problem = f"chose {event.agent!r}, its probabilities and random key draw {drawn!r}"
                raise EventMismatchError(f"decision {event.id} {problem}; the log was changed")
        decision = made or event.decision()
        self.commit(decision, Task() if self._is_prepared(decision) else event.given(), event.eligible)
        for report in self._state.early.pop(event.id, ())[:1]:
            with suppress(InvalidInputError):  # it could not be checked when it came; the decision waits for another
                self._settle_report(event.id, report.outcome(), report)

    def _apply_report(self, event: FeedbackGiven, outcome: Outcome | None) -> None:
        name, state = event.decision_id, self._state
        if event.effect == "early":
            state.early.setdefault(name, []).append(event)
        elif event.effect == "shown" and event.output is not None:
            self.observe_output(name, measure_of(event.output))
        elif event.effect in SETTLING or event.effect in ("replaced", "audited"):
            self._check_follows(event)
            self._settle_report(name, outcome or event.outcome(), event)

    def _check_follows(self, event: FeedbackGiven | Censored) -> None:
        """Refuse a report on a decision that is not in the state that its effect needs."""
        name, state = event.decision_id, self._state
        effect = event.effect if isinstance(event, FeedbackGiven) else "noted"
        if effect == "replaced" and name not in state.silences and name not in state.provisional:
            raise EventMismatchError(f"decision {name} is not silent")
        if effect == "audited" and name not in state.verdicts:
            raise EventMismatchError(f"decision {name} waits for no second verdict")
        if effect in SETTLING and name not in state.pending:
            raise EventMismatchError(f"decision {name} is not pending")

    def _settle_report(self, decision_id: str, outcome: Outcome, report: FeedbackGiven | None = None) -> None:
        """Observe an outcome; dollars of attempts are added to its own."""
        attempts = self._state.attempts.get(decision_id)
        if attempts is not None and attempts.cost_usd is not None:
            outcome = replace(outcome, cost_usd=attempts.cost_usd + (outcome.cost_usd or 0.0))
        if report is None:
            self.observe(decision_id, outcome)
        else:
            judge = "" if report.effect == "audited" else report.judge
            self.observe(decision_id, outcome, audit=report.audit, judge=judge, default=report.default)

    def _apply_attempt(self, event: AttemptEnded) -> None:
        """Keep dollars and seconds of an attempt for the outcome; those of an answer are learned at once."""
        name, state = event.decision_id, self._state
        if name not in state.pending:
            return
        before = state.attempts.get(name, MeasuredUsage())
        cost_usd = (before.cost_usd or 0.0) + event.cost_usd if event.cost_usd else before.cost_usd
        completed = event.ending == "completed"
        elapsed_s = event.elapsed_s if completed else before.elapsed_s
        if cost_usd is not None or elapsed_s is not None:
            state.attempts[name] = MeasuredUsage(cost_usd, elapsed_s)
        if completed and name not in state.used:
            self.observe_usage(name, cost_usd=cost_usd, elapsed_s=elapsed_s, first_token_s=event.first_byte_s)

    @exclusive
    def observe(
        self,
        decision_id: str,
        outcome: Outcome,
        *,
        audit: bool = False,
        provisional: bool = False,
        default: bool = False,
        judge: str = "",
    ) -> None:
        """Learn from an outcome, at any time and in any order.

        Each decision takes one outcome. If that had no reward, a reward that comes later replaces it, while the
        decision is among the 1024 newest of :attr:`silent`. A decision with ``decision.audit`` takes two: the judge's,
        and with ``audit`` the truth, in any order. The policy learns the reward that comes first; the second one tells
        the judge's bias. A ``provisional`` reward is learned at once, and the next one replaces it, while the decision
        is among the 4096 newest of that kind: of several judges the best one counts, whenever it reports. The reward of
        a ``judge`` is provisional, and :meth:`judge_of` returns that name while the reward counts.

        A ``default`` reward is what an answer earns unless somebody reports: a provisional one that is learned in full
        while there are no reports, and the less the larger the share of answers with reports is
        (:mod:`bot_orch.core.completion.model`).
        """
        if type(outcome) is not Outcome:
            require_type("outcome", outcome, Outcome, "pass Outcome.completed(reward=...) or Outcome.censored(...)")
        if judge:
            check_text("judge", judge, "pass the name of the judge")
        outcome = self._unit_outcome(outcome)
        accepted = self._state.pending.get(decision_id) if type(decision_id) is str else None
        ends_round = accepted is not None and accepted.action == "accept"
        if accepted is not None and ends_round:
            if self._applied is not None:
                self._applied.learner = accepted.round
            decision_id, outcome = self._end_round(accepted, outcome, default=default)
        if decision_id or not ends_round:
            provisional = provisional or bool(judge)
            self._observe(decision_id, outcome, audit=audit, provisional=provisional, default=default, judge=judge)
        if accepted is not None and not ends_round and "cascade" in self._state.parts:
            cascade.fail(self._state, self._roster, accepted, outcome)

    def _observe(
        self, decision_id: str, outcome: Outcome, *, audit: bool, provisional: bool, default: bool, judge: str
    ) -> None:
        state, roster, engine = self._state, self._roster, self._engine
        again = not audit and bool(state.provisional) and self.is_provisional(decision_id)
        if state.verdicts and not again and isinstance(decision_id, str) and decision_id in state.verdicts:
            outcome_learning.second_verdict(
                engine, state, roster, decision_id=decision_id, outcome=outcome, audit=audit
            )
            return
        decision = self._awaited(decision_id, outcome, audit=audit)
        if decision_id in state.used:
            outcome = state.used[decision_id].added_to(outcome)
        if audit:
            outcome_learning.check_audit(decision)
        if outcome.output is not None:
            engine = engine.choosing(outcome.output)
        model, index = engine.settings.reward, self._roster.index.get(decision.agent)
        raw = None if engine.alignment is None else engine.alignment.outcomes_of(outcome)
        reward = None if index is None else model.read(self._state.parts["reward"], index, outcome)
        if engine is not self._engine:
            self._use(engine)  # inputs are valid: no error after this line
        used, shown, earlier = state.used.get(decision_id), decision_id in state.shown, self._settle(decision)
        if index is None:
            return  # the agent was removed
        model.learn(state.parts["reward"], index, outcome)
        shown = shown or (earlier is not None and earlier.shown)
        read = outcome_learning.Reading(reward, raw, earlier, again=again)
        if shown or audit or provisional or default or used is not None:
            read.shown, read.audit, read.used = shown, audit, used
            read.provisional, read.default = (provisional or default) and not audit, default and not audit
            read.judge = judge
        if outcome_learning.learn(engine, state, roster, decision=decision, outcome=outcome, read=read):
            self._note_restart(decision)
        compared = again and decision_id not in state.verdicts
        if decision.audit and not compared and reward is not None and outcome_learning.is_verdict(outcome, reward):
            outcome_learning.keep_verdict(state, decision, reward, audit=audit)

    def _end_round(self, decision: Decision, outcome: Outcome, *, default: bool) -> tuple[str, Outcome]:
        """Learn the outcome of a round; returns the id of its first decision and what the round earned.

        The id is empty if that decision has an outcome already.
        """
        state, first = self._state, decision.answers[0]
        reward = self.reward.read(state.parts["reward"], 0, outcome)
        if reward is not None and not default and self.settings.guarantee is not None:
            outcome_learning.promise(self._engine, state, self._roster, decision, reward)
        self._settle(decision)
        if reward is not None:
            cascade.end(state, self._roster, decision, reward)
        later = [
            (state.pending[each.decision], each) for each in decision.answers[1:] if each.decision in state.pending
        ]
        outcome = cascade.earned(outcome, first, [asked for asked, _ in later])
        for asked, answer in later:
            self._drop(asked, answer)
        return (first.decision if first.decision in state.pending else ""), outcome

    def _drop(self, decision: Decision, answer: Answer) -> None:
        """End a decision whose answer was not the first of its round: only its usage is learned."""
        used = MeasuredUsage(answer.cost_usd, answer.elapsed_s)
        if self._engine.accounts and decision.id not in self._state.used:
            outcome_learning.see_usage(
                self._engine, self._state, self._roster, decision=decision, used=used, charged=True
            )
        self._settle(decision)

    @exclusive
    def observe_output(self, decision_id: str, output: Measure) -> None:
        """Learn an output before its outcome is known, so that distances and drift alarms need not wait for rewards.

        The decision stays pending. If its outcome brings the output again, that is not counted twice.
        """
        decision, engine = self._pending(decision_id), self._engine.comparing("output", output)
        if decision_id in self._state.shown:
            raise InvalidInputError("output", "is known already", "report the output of a decision once")
        raw = outcome_learning.read_output(engine, output)
        self._use(engine)
        if outcome_learning.see_output(engine, self._state, self._roster, decision=decision, raw=raw):
            self._note_restart(decision)

    def _note_restart(self, decision: Decision) -> None:
        if self._applied is not None:
            self._applied.restarted.append(decision.agent)
        self._refresh()

    @exclusive
    def observe_usage(
        self,
        decision_id: str,
        *,
        cost_usd: float | None = None,
        elapsed_s: float | None = None,
        first_token_s: float | None = None,
    ) -> None:
        """Learn dollars and seconds of an answer before its outcome is known.

        The decision stays pending. Its outcome need not bring them again, and if it does they do not count twice. Where
        neither the objective nor a constraint counts dollars or seconds, nothing happens.
        """
        decision = self._pending(decision_id)
        used = measured_usage(cost_usd, elapsed_s, first_token_s)
        if decision_id in self._state.used:
            raise InvalidInputError("usage", "is known already", "report the usage of a decision once")
        if self._engine.accounts:
            outcome_learning.see_usage(self._engine, self._state, self._roster, decision=decision, used=used)

    def meaning(self, outcome: Outcome) -> OutcomeMeaning:
        """What an outcome teaches: ``reward``, ``zero``, ``silence`` (a fraction of a zero) or ``time`` only."""
        if type(outcome) is not Outcome:
            require_type("outcome", outcome, Outcome, "pass Outcome.completed(reward=...) or Outcome.censored(...)")
        return self._meaning(self._unit_outcome(outcome))

    def _meaning(self, outcome: Outcome) -> OutcomeMeaning:
        """What an outcome on the unit scale teaches."""
        return self._engine.completion.meaning(outcome, self.reward.read(self._state.parts["reward"], 0, outcome))

    def checked(self, outcome: Outcome) -> Outcome:
        """The outcome, with a reward that rounding put outside of the range clipped; an error if it is farther outside.

        Examples
        --------
        >>> Orchestrator(["a", "b"]).checked(Outcome.completed(1.0000000000000002)).reward
        1.0
        """
        if type(outcome) is not Outcome:
            require_type("outcome", outcome, Outcome, "pass Outcome.completed(reward=...) or Outcome.censored(...)")
        given = outcome.reward
        reward = None if given is None else self._engine.rewards.check(given)
        return outcome if reward == given else replace(outcome, reward=reward)

    def _unit_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with its reward on the unit scale."""
        outcome, rewards = self.checked(outcome), self._engine.rewards
        if rewards.is_unit or outcome.reward is None:
            return outcome
        return replace(outcome, reward=rewards.unit(outcome.reward))

    @exclusive
    def expire(self, decision_ids: Iterable[str] = (), *, older_than_round: int | None = None) -> tuple[str, ...]:
        """Expire pending decisions as silence: the named ones, and those of rounds (from 1) before a given round.

        Nothing says how long they were waited for, so they count as far as their agents are silent more often than
        others. A reward may still replace the silence. Returns the ids of the dropped decisions.
        """
        if isinstance(decision_ids, str) or not isinstance(decision_ids, Iterable):
            raise InvalidInputError("decision_ids", f"is {decision_ids!r}", "pass a list of ids of pending decisions")
        if older_than_round is not None:
            check_count("older_than_round", older_than_round, "pass the number of a round, or None")
        decisions = [self._pending(decision_id) for decision_id in dict.fromkeys(map(_id, decision_ids))]
        for decision in decisions:
            self._expire(decision)
        older = () if older_than_round is None else self._expire_before(older_than_round - 1)
        return (*(decision.id for decision in decisions), *older)

    def _expire_before(self, counter: int) -> tuple[str, ...]:
        overdue = outcome_learning.overdue(self._state.pending, counter)
        for decision in overdue:
            self._expire(decision)
        return tuple(decision.id for decision in overdue)

    def _expire(self, decision: Decision) -> None:
        if decision.action == "accept" or decision.answers:
            self._settle(decision)
            return
        used = self._state.used.get(decision.id)
        read = outcome_learning.Reading(shown=decision.id in self._state.shown, used=used)
        self._settle(decision)
        gone = outcome_learning.FORGOTTEN if used is None else used.added_to(outcome_learning.FORGOTTEN)
        outcome_learning.learn(self._engine, self._state, self._roster, decision=decision, outcome=gone, read=read)

    @exclusive
    def observe_all(self, decision_id: str, rewards: Mapping[str, float]) -> None:
        """Full feedback: learn from the reward that every agent would have received, as the paper's theory assumes."""
        decision, names = self._pending(decision_id), self._roster.names
        require_type("rewards", rewards, Mapping, "pass a reward for every agent, by name")
        missing = set(names) - set(rewards)
        if missing:
            raise InvalidInputError("rewards", f"lacks {sorted(missing)}", "give a reward for every agent")
        known = self._engine.rewards
        values = known.unit(np.array([known.check(rewards[name], f"rewards.{name}") for name in names]))
        self._settle(decision)
        index = self._roster.index.get(decision.agent)
        if index is not None:
            feedback = outcome_learning.feedback(self._engine, self._roster, decision, reward=values, everybody=True)
            self._engine.learn(self._state.parts, names, feedback, learned=Details())

    @exclusive
    def learn_from(
        self,
        evaluations: Any,
        *,
        features: Any = None,
        tasks: Sequence[Task] | None = None,
        weight: Any = 1.0,
        most: float | None = None,
        answers: Mapping[str, Any] | None = None,
    ) -> int:
        """Warm start: teach the policy evaluations of the agents. Returns how many outcomes they were taught as.

        The mean rewards of a constraint of quality learn them too; with ``answers``, so do rounds of several steps and
        expected dollars.

        The policy keeps a second state without the lessons, which makes 10 % of the decisions at first. If the taught
        state predicts rewards worse than the other one, it is dropped (:class:`~bot_orch.core.warm.WarmStart`).

        Parameters
        ----------
        evaluations
            Rewards, NaN where missing: a matrix (rows, agents), lists by agent, a DataFrame with a column per
            agent, or records with ``agent`` and ``reward`` (an old log).
        features
            Features of the rows, (rows, d), or names of columns; or ``tasks``, one :class:`~bot_orch.Task` per row,
            with features and text as in traffic. After evaluations without texts, those of tasks stay unused.
        weight
            How many outcomes a row counts for: a number, one per row, or the name of a column.
        most
            Outcomes per agent at most; with more evaluations than that, all weights are scaled down. None for 1000, or
            50 000 divided by the number of agents if that is more.
        answers
            What the answers told, by name as in :class:`~bot_orch.Answer`: ``signal``, ``check``, ``label``, ``key``
            or ``cost_usd``; each a matrix (rows, agents) or lists by agent, NaN or None where missing.

        Examples
        --------
        >>> router = Orchestrator(["small", "large"], seed=1)
        >>> router.learn_from({"small": [0.2, 0.4, 0.3] * 20, "large": [0.9, 0.8, 1.0] * 20})
        120
        >>> router.decide(Task("first")).agent
        'large'
        """
        most = most_lessons(most, len(self.agents))
        given = self.read_evaluations(evaluations, features=features, tasks=tasks, weight=weight, answers=answers)
        given = replace(given, rewards=_unit_rewards(given.rewards, self._engine.rewards))
        named = self.settings
        if given.names and not named.names and named.n_features != 0:
            named = replace(named, names=given.names)
        settings, given = fit_features(named, given, first=self._fresh)
        if given.answers is not None and not settings.team:
            settings = replace(settings, team=True)
        engine = self._engine if settings is self.settings else Engine(settings)
        state, t, d = self._parts_of(engine)["policy"], self._state.rounds + 1, settings.context_width
        taught = teach(engine.policy, state, given, t=t, n_features=d, most=most)
        self._use(engine)  # inputs are valid: no error after this line
        self._adopt(taught)
        engine.see_evaluations(self._state.parts, given)
        if given.answers is not None:
            cascade.teach(self._state.parts["cascade"], given, most)
        if self._applied is not None:
            self._applied.lessons = taught.lessons
        return taught.lessons

    def read_evaluations(
        self,
        evaluations: Any,
        *,
        features: Any = None,
        tasks: Sequence[Task] | None = None,
        weight: Any = 1.0,
        answers: Mapping[str, Any] | None = None,
    ) -> Evaluations:
        """Convert the arguments of :meth:`learn_from` to one value, with texts encoded, as stored in the log."""
        known = None if tasks is None else encoded_tasks(tasks, self.settings, first=self._fresh)
        given = as_evaluations(evaluations, self.agents, features=features, tasks=known, weight=weight)
        _unit_rewards(given.rewards, self._engine.rewards)  # refused before they are logged
        return given if answers is None else with_answers(given, answers)

    @exclusive
    def reconfigure(self, settings: Settings, agents: Iterable[Agent], *, keep_learned: bool = True) -> None:
        """Replace settings and agents in place. Pending decisions are kept, and learned state by default.

        Remaining agents keep their order; new ones are appended. An alignment chosen from the first measure is kept if
        ``settings`` has none.
        """
        require_type("settings", settings, Settings, "pass the settings of an orchestrator")
        wanted = Roster(tuple(as_agents(agents)))
        if settings.alignment is None and self.alignment is not None:
            settings = replace(settings, alignment=replace(self.alignment, units=settings.chosen_units()))
        settings = carried_over(settings, self.settings)
        engine = wanted.comparing(Engine(settings))
        stay = [name for name in self.agents if name in wanted.index]
        come = [name for name in wanted.names if name not in self._roster.index]
        parts = {name: dict(part) for name, part in self._state.parts.items()}
        self._seat(parts, come, [name for name in self.agents if name not in wanted.index])
        members = tuple(wanted.agents[wanted.index[name]] for name in (*stay, *come))
        if "prices" in parts:
            factor = self._roster.price_changes(members)
            parts["prices"] = self._engine.prices.repriced(parts["prices"], factor)
        self._state.agents = members
        self._state.parts = engine.resume(parts if keep_learned else {}, len(wanted.agents))
        if not keep_learned:
            self._state.silences.clear()
            self._state.provisional.clear()
        self._begin(engine, self._state)

    @exclusive
    def add_agent(self, agent: str | Agent) -> None:
        """Register an agent; it is eligible from the next decision on."""
        new = agent if isinstance(agent, Agent) else Agent(agent)
        if new.id in self._roster.index:
            raise InvalidInputError("agent.id", f"{new.id!r} is taken", "choose another name or remove the old agent")
        self._use(self._engine.comparing("agent.profile", new.profile))
        self._seat(self._state.parts, [new.id], [])
        self._state.agents = (*self._state.agents, new)
        self._refresh()

    @exclusive
    def remove_agent(self, agent_id: str) -> None:
        """Remove an agent; later outcomes of its pending decisions are accepted and ignored."""
        self._roster.find(agent_id)
        if len(self.agents) == 1:
            raise InvalidInputError("agent.id", f"{agent_id!r} is the last agent", "add another one first")
        self._seat(self._state.parts, [], [agent_id])
        self._state.agents = tuple(agent for agent in self._state.agents if agent.id != agent_id)
        self._refresh()

    def start_afresh(self, agent_id: str, *, keep: str = "") -> None:
        """Drop what was learned of an agent, because something else answers in its name.

        Its pending decisions end without a lesson, but for the one that is kept.

        Examples
        --------
        >>> router = Orchestrator(["small", "large"], "epsilon-greedy")
        >>> decision = router.decide(Task(), eligible=["small"])
        >>> router.observe(decision.id, Outcome.completed(1.0))
        >>> router.start_afresh("small")
        >>> router.prepare(Task()).propensities
        array([0.5, 0.5])
        """
        self._roster.find(agent_id)
        pending = self._state.pending.items()
        for name in [name for name, each in pending if each.agent == agent_id and each.action == "ask"]:
            if name != keep:
                self.observe(name, Outcome(False, None, None, "not_applicable"))
        self._forget(agent_id)

    @exclusive
    def _forget(self, agent_id: str) -> None:
        index, state = self._roster.find(agent_id), self._state
        self._engine.restarts.start_afresh(state.parts, self._engine.schemas, (index,))
        for kept in (state.silences, state.provisional):  # a lesson that is gone cannot be revised
            for name in [name for name, each in kept.items() if each.decision.agent == agent_id]:
                del kept[name]
        state.seq += 1
        self._refresh()

    def _seat(self, parts: dict[str, Arrays], come: Sequence[str], gone: Sequence[str]) -> None:
        """Append new agents to every per-agent array and delete removed ones."""
        for part, schema in self._engine.schemas.items():
            for _ in come:
                insert_agent(schema, parts[part])
            for name in reversed(gone):
                remove_agent(schema, parts[part], self._roster.index[name])
        self._state.seq += len(come) + len(gone)

    def multipliers(self, task: Task | None = None) -> dict[str, float]:
        """Current multipliers of the constraints: the reward of one more dollar, task or late outcome."""
        pacing = self._engine.pacing
        time_s = None if pacing is None else pacing.newest(self._state.parts)
        found = self.prepare(task or Task(features=(0.0,) * (self.n_features or 0), time_s=time_s))
        return {each.constraint: each.value for each in found.multipliers}

    def expected_usage(self) -> dict[str, dict[str, float]]:
        """Expected dollars, seconds and shares of late outcomes by agent for a typical task, where they are used.

        Examples
        --------
        >>> router = Orchestrator(["small", Agent("large", price=0.02)], objective=Objective(usd=1.0))
        >>> router.expected_usage()["large"]
        {'usd': 0.02}
        """
        found = self._engine.expected_usage(self._state.parts, self._roster.price)
        return {
            name: {kind: float(values[index]) for kind, values in found.items()}
            for index, name in enumerate(self._roster.names)
        }

    def drift_alarms(self) -> dict[str, int]:
        """Number of drift alarms per agent's outputs; zeros without a drift monitor."""
        counts = self._state.parts["drift"]["alarms"] if "drift" in self._state.parts else np.zeros(len(self.agents))
        return {name: int(count) for name, count in zip(self.agents, counts, strict=True)}

    def restarts(self) -> dict[str, int]:
        """Number of restarts by alarms per agent; zeros unless ``on_alarm`` is ``restart``."""
        parts = self._state.parts
        counts = parts["restarts"]["times"] if "restarts" in parts else np.zeros(len(self.agents))
        return {name: int(count) for name, count in zip(self.agents, counts, strict=True)}

    def task_drift_alarms(self) -> int:
        """Number of drift alarms of the task references; zero without a drift monitor."""
        return int(self._state.parts["task_drift"]["alarms"]) if "task_drift" in self._state.parts else 0

    def fingerprint(self) -> str:
        """A hash of the state, equal for equal states; a random prefix of ids has no influence."""
        return self._state.fingerprint(f"{self._stream:016x}")

    def __repr__(self) -> str:
        return self.described("Orchestrator")

    def described(self, name: str) -> str:
        """One line with agents, policy, rounds and pending decisions."""
        agents = ", ".join(self.agents[:4]) + (f", ... ({len(self.agents)})" if len(self.agents) > 4 else "")
        return f"<{name} [{agents}] {self._summary()}, {len(self.pending)} pending>"

    def _summary(self) -> str:
        """Policy and number of rounds."""
        policy = self.policy.id
        if isinstance(self.policy, WarmStart):
            policy = self.policy.policy.id + self.policy.phase(self._state.parts["policy"])
        return f"{policy}, {self._state.rounds} rounds"

    @exclusive
    def to_json(self) -> str:
        """Serialise settings and state to one versioned JSON document."""
        return json.dumps({**self._head(), "state": self._state.to_dict()}, allow_nan=False)

    @exclusive
    def capture(self) -> CapturedState:
        """Settings and a copy of the state, which later events do not change; :meth:`from_capture` is the inverse."""
        return CapturedState(self._head(), self._state.copied())

    def _head(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, "engine": ENGINE, "settings": self.settings.spec()}

    @classmethod
    def from_json(cls, text: str, *, encoder: Encoder | None = None) -> Orchestrator:
        """Restore an orchestrator from :meth:`to_json`, with pending decisions; ``encoder`` if it was a callable."""
        require_type("text", text, str, "pass what to_json() returned")
        document = parse(text)
        return cls.from_capture(CapturedState(document, State.from_dict(document["state"])), encoder=encoder)

    @classmethod
    def from_capture(cls, captured: CapturedState, *, encoder: Encoder | None = None) -> Orchestrator:
        """The inverse of :meth:`capture`; the orchestrator uses the captured state without copying it."""
        require_type("captured", captured, CapturedState, "pass what capture() returned")
        settings, state = Settings.from_spec(captured.head["settings"]), captured.state
        settings = settings if encoder is None else replace(settings, encoder=encoder)
        engine = Engine(settings)
        state.parts = engine.resume(state.parts, len(state.agents))  # the schema may have changed since
        router = cls.__new__(cls)
        router._begin(engine, state)
        return router

    def save(self, path: str | Path) -> None:
        """Write :meth:`to_json` to a file, atomically."""
        save_state(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path, *, encoder: Encoder | None = None) -> Orchestrator:
        """Read a file written by :meth:`save`; ``encoder`` is needed for more texts if it was a callable."""
        return cls.from_json(read_state(path), encoder=encoder)

    def _start(self, settings: Settings, agents: Iterable[Agent], prefix: str = "") -> None:
        roster = Roster(tuple(agents))
        roster.check(settings)
        engine = roster.comparing(Engine(settings))
        self._begin(engine, State(roster.agents, engine.start(len(roster.agents)), prefix=prefix))

    def _begin(self, engine: Engine, state: State) -> None:
        self._engine, self._state = engine, state
        self._last_prepared = None
        self._under_way: dict[str, object] = getattr(self, "_under_way", {})
        self._applied = None
        self._stream = derive_key("orchestrator", self.seed)
        self._uniform = stream_of(self._stream)
        self._prefix, self._forks = state.prefix or f"{self._stream:016x}", forks()
        self._audit_stream = derive_key("audit", self.seed)
        self._name = policy_name(self.policy)
        self._refresh()

    def _rename(self) -> None:
        """Begin ids with a prefix of this process: the parent that it was forked from goes on with the old one."""
        self._forks = forks()
        if self._state.prefix:
            self._prefix = self._state.prefix = random_prefix()

    def use_encoder(self, encoder: Encoder | str | None) -> None:
        """Encode texts with a callable that could not be saved: only its version was."""
        if encoder is not None:
            self._engine = Engine(replace(self.settings, encoder=encoder))

    def _adopt(self, taught: WarmPolicy) -> None:
        """Adopt a policy and state that were taught evaluations."""
        policy = without_context(taught.policy)
        self._engine = Engine(replace(self.settings, policy=policy))
        self._state.parts["policy"], self._name = taught.state, policy_name(policy)
        self._state.seq += 1

    def _refresh(self) -> None:
        """Recompute the values derived from the set of agents."""
        self._roster = Roster(self._state.agents)
        counted = (decision for decision in self._state.pending.values() if self._counts(decision))
        self._waiting: Floats = self._roster.waiting(counted)

    def _use(self, engine: Engine) -> None:
        """Switch to another engine and keep the learned state."""
        if engine is not self._engine:
            self._state.parts, self._engine = self._parts_of(engine), engine

    def _parts_of(self, engine: Engine) -> dict[str, Arrays]:
        """The state arrays extended to the schema of ``engine``."""
        known = self._state.parts
        return known if engine is self._engine else engine.resume(known, len(self.agents))

    def _engine_for(self, task: Task) -> Engine:
        if type(task) is not Task:
            require_type("task", task, Task, "pass a Task, such as Task(text=...)")
        if task.reference is None and not task.features and task.text is None:  # nothing to learn from the first task
            return self._engine
        if task.text is not None and self.settings.text is None and isinstance(self.policy, WarmStart):
            task = replace(task, text=None)  # the policy was taught without texts
        engine = self._engine
        if task.names or isinstance(task.features, Mapping):
            engine = self._named(task)
            task = self._as_vector(task, engine.settings)
        return engine.for_task(task, first=self._fresh)

    @property
    def _fresh(self) -> bool:
        """Whether the policy has learned nothing yet."""
        return not self._state.rounds and not isinstance(self.policy, WarmStart)

    def _pending(self, decision_id: str, *, audit: bool = False) -> Decision:
        if type(decision_id) is not str:
            require_type("decision_id", decision_id, str, "pass decision.id")
        decision = self._state.pending.get(decision_id)
        if decision is None:
            raise UnknownDecisionError(decision_id, audit=audit)
        return decision

    def _awaited(self, decision_id: str, outcome: Outcome, *, audit: bool) -> Decision:
        """A pending decision, or a silent or provisional one if the outcome brings a lesson."""
        if type(decision_id) is not str:
            require_type("decision_id", decision_id, str, "pass decision.id")
        state = self._state
        if state.silences or state.provisional:
            earlier = state.silences.get(decision_id)
            if earlier is None and not audit:
                earlier = state.provisional.get(decision_id)
            if earlier is not None and self._meaning(outcome) in ("reward", "zero"):
                return earlier.decision
        return state.pending.get(decision_id) or self._pending(decision_id, audit=audit)

    def _settle(self, decision: Decision) -> Silence | None:
        """Remove a decision from the pending, silent or provisional ones; returns what was learned from it before."""
        state, name = self._state, decision.id
        state.seq += 1
        earlier = state.silences.pop(name, None) or state.provisional.pop(name, None)
        if earlier is None:
            del state.pending[name]
            if self._applied is not None:
                self._applied.ended.append(name)
            state.attempts.pop(name, None)
            state.shown.pop(name, None)
            state.used.pop(name, None)
            if self._counts(decision):
                self._waiting[self._roster.index[decision.agent]] -= 1.0
        return earlier

    def _counts(self, decision: Decision) -> bool:
        """Whether a decision counts as pending for its agent: not if the agent was removed or restarted since."""
        index = self._roster.index.get(decision.agent)
        if decision.action != "ask":
            return False
        if index is None or not self._engine.restarts.wanted:
            return index is not None
        return outcome_learning.is_fresh(self._engine, self._state, index, decision=decision)


def _unit_rewards(rewards: Floats, known: RewardRange) -> Floats:
    """Evaluations on the unit scale, NaN where missing; refused if one is outside of the range."""
    spare = REWARD_ROUNDING * max(1.0, known.width)
    if np.any((rewards < known.low - spare) | (rewards > known.high + spare)):
        remedy = "rescale them, or state the range that rewards have: BoundedReward(low=..., high=...)"
        raise InvalidInputError("evaluations", f"holds a reward outside of {known}", remedy)
    return np.asarray(known.unit(np.clip(rewards, known.low, known.high)))


def _id(decision_id: str) -> str:
    require_type("decision_id", decision_id, str, "pass decision.id")
    return decision_id


def _warn_of_prices(found: str) -> None:
    """Warn the caller of ``Orchestrator(...)`` or ``Router(...)``; the service reports findings instead."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame, level = frame.f_back, level + 1
    if frame is None or not frame.f_globals.get("__name__", "").startswith("bot_orch."):
        warnings.warn(found, PriceWarning, stacklevel=level + 1)
