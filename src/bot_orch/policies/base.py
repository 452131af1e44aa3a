"""Policy interface: map state and situation to a probability per agent, and learn from feedback.

A policy never draws. It returns the full probability vector, and one shared function draws from it. Propensities are
therefore exact for every policy and can be tested by counting.

All arrays carry leading batch dimensions: online ``(M,)``, in an experiment ``(seeds, M)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, allocate, row_views
from bot_orch.numerics.estimators import Estimator

# Situation, Choice and Feedback are made for every decision. They are not changed after construction, but not frozen
# either: a frozen dataclass takes five times as long to construct.


@dataclass(slots=True)
class Situation:
    """Information available before the choice.

    Parameters
    ----------
    t
        Round number, from 1; drives schedules.
    penalty
        lambda * W + cost, per agent.
    eligible
        Which agents may be chosen; ``None`` means all.
    context
        Features of the task, for contextual policies.
    pending
        Number of decisions per agent without an outcome; ``None`` means none.
    cost
        The part of the penalty that is the agents' expected cost; ``None`` means none.
    claims
        Probability of being right that each agent states of itself before the choice; NaN where it states none.
        ``None`` means that no agent states any.
    """

    t: int
    penalty: Floats
    eligible: Bools | None = None
    context: Floats | None = None
    pending: Floats | None = None
    cost: Floats | None = None
    claims: Floats | None = None


@dataclass(slots=True)
class Choice:
    """Propensities, and the policy's two score terms: estimate and exploration bonus.

    ``doubt`` allocates a floor: more probability to agents that may be best and have little recent evidence.
    ``None`` spreads it evenly.
    """

    propensities: Floats
    estimate: Floats
    exploration: Floats
    doubt: Floats | None = None


@dataclass(slots=True)
class Feedback:
    """Observed rewards. Under bandit feedback one agent per row is observed, under full feedback all are.

    With ``earned``, ``observed`` and ``reward`` are derived from it when first read.

    Parameters
    ----------
    t
        Round of the decision.
    agent
        Index of the chosen agent, shape ``batch``.
    observed
        Mask of agents with a known reward, ``batch + (M,)``.
    reward
        Rewards, ``batch + (M,)``; meaningless where not observed.
    propensities, penalty, context, claims
        Values at decision time.
    earned
        Rewards of the chosen agents, shape ``batch``, where exactly these are known; None otherwise.
    """

    t: int
    agent: Ints
    observed: Bools
    reward: Floats
    propensities: Floats
    penalty: Floats
    context: Floats | None = None
    claims: Floats | None = None
    _: KW_ONLY
    earned: Floats | None = None

    def __post_init__(self) -> None:
        if self.earned is not None:
            del self.observed, self.reward

    @classmethod
    def of_chosen(cls, t: int, agent: Ints, earned: Floats, *, at_decision: tuple[Any, Any, Any, Any]) -> Feedback:
        """Feedback from ``earned`` alone; ``at_decision`` are propensities, penalty, context and claims."""
        made = cls.__new__(cls)
        made.t, made.agent, made.earned = t, agent, earned
        made.propensities, made.penalty, made.context, made.claims = at_decision
        return made

    def __getattr__(self, name: str) -> Any:
        """Called for slots that are not set: a derived array is built once."""
        if name == "observed":
            self.observed = one_hot(self.propensities.shape[-1])[self.agent]
        elif name == "reward":
            earned = np.asarray(self.earned)
            self.reward = np.full(self.propensities.shape, earned[..., None])
        else:
            raise AttributeError(f"Feedback has no attribute {name!r}", name=name, obj=self)
        return object.__getattribute__(self, name)


@lru_cache(maxsize=64)
def one_hot(m: int) -> Bools:
    """The unit vectors of ``m`` agents, as a mask."""
    rows = np.eye(m, dtype=bool)
    rows.flags.writeable = False
    return rows


@dataclass(slots=True)
class KeptRows:
    """Past outcomes of one router under new features.

    Parameters
    ----------
    features
        New features, ``(n, d)``.
    agent
        Index of the agent; -1 for one that was removed.
    reward, round
        Reward and round of each outcome.
    order
        Rows of present agents, oldest first.
    claims
        What the agent stated of itself, and the mean of all that agents stated, ``(n, 2)``; -1 where nothing was.
    """

    features: Floats
    agent: Ints
    reward: Floats
    round: Ints
    order: Ints
    claims: Floats | None = None


class Policy(ABC):
    """Base class. A subclass is a frozen dataclass of settings; the caller owns the state arrays.

    ``most_numbers`` is how many features are prepared from a task's numbers, at most. ``predicts`` says whether
    ``Choice.estimate`` is the expected reward; a warm start is tested against it. ``bot-orch arena`` plays a
    ``default_entrant`` when no policy is named; the first line of the docstring describes it
    there.
    """

    id: ClassVar[str]
    uses_alignment: ClassVar[bool] = True
    predicts: ClassVar[bool] = True
    most_numbers: ClassVar[int] = 10
    default_entrant: ClassVar[bool] = False

    @abstractmethod
    def schema(self, n_features: int) -> Schema:
        """State arrays of this policy."""

    @abstractmethod
    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Probabilities over agents. Must not change ``state``."""

    @abstractmethod
    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn from feedback; updates ``state`` in place."""

    def adopt(self, state: Arrays, learned: Arrays) -> Arrays:
        """The state to continue with: ``learned`` over the initial ``state``.

        Arrays of another shape start again: tasks have more features than before. A policy that can extend them does so
        (:func:`~bot_orch.arrays.widened`).
        """
        kept = {name: each for name, each in learned.items() if name not in state or each.shape == state[name].shape}
        return {**state, **kept}

    def rebase(self, state: Arrays, rows: KeptRows) -> None:
        """Relearn ``rows`` of one router, because the meaning of features has changed."""
        schema = self.schema(rows.features.shape[1])
        agents = next(len(state[name]) for name, field in schema.items() if field.per_agent)
        for name, fresh in allocate(schema, (), agents).items():
            state[name][...] = fresh
        for row in rows.order:
            known = one_hot(agents)[rows.agent[row]]
            reward, certain = np.full(agents, rows.reward[row]), known.astype(float)
            given = (known, reward, certain, np.zeros(agents), rows.features[row])
            self.update(state, Feedback(int(rows.round[row]), np.asarray(rows.agent[row]), *given))

    @property
    def can_revise(self) -> bool:
        """Whether :meth:`revise` is implemented: a lesson can be replaced."""
        return False

    def position(self, state: Arrays, agent: int) -> float:
        """Number of the agent's lessons so far, if :meth:`revise` needs it, for one batch element."""
        return 0.0

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace the lesson ``old`` by ``new``, which differs in the reward only; updates ``state`` in place.

        ``position`` is what :meth:`position` returned just after ``old`` was learned. The state becomes that of a
        policy that learned ``new`` at that time, up to rounding.
        """
        raise NotImplementedError(f"{self.id} cannot take a lesson back")

    @property
    def can_withdraw(self) -> bool:
        """Whether :meth:`withdraw` is implemented: a lesson can be removed without a replacement."""
        return False

    def withdraw(self, state: Arrays, old: Feedback) -> None:
        """Withdraw the lesson ``old`` from the state of one batch element, in place."""
        raise NotImplementedError(f"{self.id} cannot withdraw a lesson")


class PerRouter(Policy):
    """A policy of one router: it knows no batches. An experiment plays its seeds one after the other.

    A subclass writes :meth:`choose_one` and :meth:`learn_one`.
    """

    @abstractmethod
    def choose_one(self, state: Arrays, given: Situation) -> Choice:
        """Probabilities over the agents of one router. Must not change ``state``."""

    @abstractmethod
    def learn_one(self, state: Arrays, agent: int, reward: float, given: Feedback) -> None:
        """Learn one reward of one agent of one router; updates ``state`` in place."""

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """The choices of all routers of a batch."""
        batch = state["count"].shape[:-1]
        if not batch:
            return self.choose_one(state, situation)
        choices = [self.choose_one(row_views(state, at), situation_of(situation, at)) for at in np.ndindex(batch)]
        names = ("propensities", "estimate", "exploration", "doubt")
        parts = ([getattr(each, name) for each in choices] for name in names)
        return Choice(*(None if each[0] is None else np.array(each).reshape(*batch, -1) for each in parts))  # type: ignore[arg-type]

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Learn the chosen agents' rewards, or all that are observed."""
        batch = state["count"].shape[:-1]
        for at in np.ndindex(batch):
            views, given = (row_views(state, at), feedback_of(feedback, at)) if batch else (state, feedback)
            if given.earned is not None:
                self.learn_one(views, int(given.agent), float(given.earned), given)
                continue
            for agent in np.flatnonzero(given.observed).tolist():
                self.learn_one(views, agent, float(given.reward[agent]), given)


def feedback_on(feedback: Feedback, context: Floats | None) -> Feedback:
    """The feedback with other features."""
    if feedback.earned is None:
        return replace(feedback, context=context)
    known = (feedback.propensities, feedback.penalty, context, feedback.claims)
    return Feedback.of_chosen(feedback.t, feedback.agent, feedback.earned, at_decision=known)


def situation_of(s: Situation, at: tuple[int, ...]) -> Situation:
    """The situation of one router of a batch."""
    rows = (s.penalty, s.eligible, s.context, s.pending, s.cost, s.claims)
    return Situation(s.t, *(each if np.ndim(each) < 2 else np.asarray(each)[at] for each in rows))  # type: ignore[arg-type]


def feedback_of(f: Feedback, at: tuple[int, ...]) -> Feedback:
    """The feedback of one router of a batch."""
    rows: tuple[Any, ...] = (f.propensities, f.penalty, f.context, f.claims)
    known = tuple(each if np.ndim(each) < 2 else np.asarray(each)[at] for each in rows)
    agent = np.asarray(f.agent)[at]
    if f.earned is not None:
        return Feedback.of_chosen(f.t, agent, np.asarray(f.earned)[at], at_decision=known)
    return Feedback(f.t, agent, f.observed[at], f.reward[at], *known)


def reads_features(policy: Policy) -> bool:
    """Whether a policy uses features."""
    return bool(policy.schema(1) != policy.schema(0))


def no_exploration(estimate: Floats) -> Floats:
    """A zero exploration term with the shape of ``estimate``; it is shared and cannot be written to."""
    return _zeros(estimate.shape)


@lru_cache(maxsize=64)
def _zeros(shape: tuple[int, ...]) -> Floats:
    zeros = np.zeros(shape)
    zeros.flags.writeable = False
    return zeros


class EstimatorPolicy(Policy):
    """A policy with a plug-in reward estimator: a subclass implements only :meth:`choose`."""

    estimator: Estimator

    def schema(self, n_features: int) -> Schema:
        """State arrays of the estimator."""
        return self.estimator.schema()

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Update the estimator with the observed rewards."""
        if feedback.earned is not None:
            self.estimator.update_chosen(state, feedback.agent, feedback.earned)
        else:
            self.estimator.update(state, feedback.observed, feedback.reward)

    @property
    def can_revise(self) -> bool:
        """Whether the estimator can revise; a subclass with its own :meth:`update` cannot unless it overrides this."""
        return self.estimator.can_revise and type(self).update is EstimatorPolicy.update

    def position(self, state: Arrays, agent: int) -> float:
        """Number of rewards behind the agent's estimate."""
        return float(self.estimator.count(state)[agent])

    def revise(self, state: Arrays, old: Feedback, new: Feedback, *, position: float) -> None:
        """Replace a reward in the estimator."""
        change = np.where(new.observed, new.reward - old.reward, 0.0)
        self.estimator.revise(state, change, position=position)

    def seen(self, state: Arrays, situation: Situation) -> Floats:
        """Number of rewards behind each estimate, plus pending decisions."""
        count = self.estimator.count(state)
        return count if situation.pending is None else count + situation.pending
