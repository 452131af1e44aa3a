"""Players: running entrants of a bandit replay; each chooses and learns for all seeds at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, finite_rows, row_views
from bot_orch.core import pipeline
from bot_orch.core.alignment import Alignment, Reference
from bot_orch.core.completion.patience import PatienceRule, patience_share
from bot_orch.core.constraints import Budget, Constraint
from bot_orch.core.engine import Details, Engine, Observation, Proposal
from bot_orch.core.reward import read_rows
from bot_orch.core.settings import Lambda, Settings
from bot_orch.core.text import TextFeatures
from bot_orch.errors import InvalidInputError
from bot_orch.lab.environments.replay.bandit import Replay, RoundContext, RoundOutcome, Setup
from bot_orch.numerics.choice import argmax_ties
from bot_orch.policies.base import Choice, Feedback, Policy, Situation, no_exploration
from bot_orch.transport.geometries.labels import ZeroOneLabels
from bot_orch.transport.geometries.lateness import Lateness
from bot_orch.transport.measures import Cloud
from bot_orch.types import Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """An agent per seed, and the probabilities ``(seeds, M)`` it was drawn from, if known.

    ``audit``: which seeds want the truth about this round; None leaves that to the replay.
    """

    agent: Ints
    propensities: Floats | None = None
    audit: Bools | None = None


class Player(ABC):
    """The running state of one entrant in one replay.

    ``uses_features``: whether it reads features, and so has to wait for them.
    """

    uses_features: bool = True

    @abstractmethod
    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """Choose an eligible agent for every seed; ``u`` in [0, 1) is one random number per seed."""

    @abstractmethod
    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Learn from the outcomes of the chosen agents."""

    def forget(self, before: RoundContext) -> None:  # noqa: B027
        """Expire the outcome of a round; by default nothing is learned."""

    def preview(self, before: RoundContext) -> Floats | None:
        """The probabilities ``(seeds, M)`` that :meth:`choose` would draw from; None, the default, hides them."""
        return None

    def restarted(self) -> Player:
        """The player as its saved state restores it; by default a copy."""
        return deepcopy(self)

    def patience(self, before: RoundContext, agent: int, *, deadline_s: float, rule: PatienceRule = "learned") -> float:
        """The share of ``deadline_s`` to wait for ``agent`` before asking another one; half by default; one seed.

        Called after :meth:`choose` and before :meth:`learn`.
        """
        return 0.5


class PolicyPlayer(Player):
    """A policy of :mod:`bot_orch.policies` in the engine of the live router, one batch element per seed.

    It gets the raw inputs of the tasks, as a user would hand them over; the engine prepares them online.

    Parameters
    ----------
    lambda_
        As that of :class:`bot_orch.Orchestrator`.
    floor
        Likewise; by default that of the replay.
    context
        Whether the policy is shown the tasks' inputs.
    claims
        Whether the policy is shown the agents' claims.
    """

    def __init__(
        self,
        policy: Policy,
        setup: Setup,
        lambda_: Lambda = 0.0,
        *,
        floor: float | None = None,
        context: bool = True,
        claims: bool = True,
    ) -> None:
        self.shows_context, self.shows_claims = context and bool(setup.inputs or setup.text), claims
        self.uses_features = self.shows_context and reads_features(policy)
        alignment = alignment_for(setup) if lambda_ != 0.0 and policy.uses_alignment else None
        self.engine = Engine(
            Settings(
                policy,
                lambda_=lambda_,
                n_features=setup.inputs if self.shows_context else 0,
                encoder="builtin",
                text=TextFeatures.parse(setup.text) if self.shows_context and setup.text else None,
                floor=setup.floor if floor is None else floor,
                alignment=alignment,
                cost_weight=setup.cost_weight if setup.has_cost else 0.0,
                audit_rate=setup.audit_rate,
                constraints=_constraints(setup),
            )
        )
        shape = (setup.seeds, setup.agents)
        self.parts = self.engine.start(setup.agents, shape[:1])
        self._names = tuple(map(str, range(setup.agents)))
        self._cost, self._waiting, self._rows = np.zeros(shape), np.zeros(shape), np.arange(setup.seeds)
        self._price = None if setup.price is None else np.array(setup.price)
        self._made: dict[int, Proposal] = {}

    def choose(self, before: RoundContext, u: Floats) -> Pick:
        """``Engine.prepare``, then ``Engine.commit``."""
        alignment = self.engine.alignment
        observed = Observation(
            before.t,
            self._cost,
            context=before.inputs if self.shows_context else None,
            eligible=before.eligible,
            reference=None if alignment is None else _embedded(alignment, before.reference),
            pending=self._waiting,
            claims=before.claims if self.shows_claims else None,
            price=self._price,
            names=self._names,
        )
        found = self.engine.prepare(self.parts, observed, u)
        drawn, choice = found.drawn, None
        if self.engine.pacing is not None:
            choice = replace(found.drawn.choice, propensities=drawn.propensities)
        alignment_cost, lambda_ = found.alignment, found.lambda_
        self.engine.commit(self.parts, observed, drawn.agent, alignment=alignment_cost, lambda_=lambda_, choice=choice)
        self._made[before.t] = found
        self._waiting[self._rows, drawn.agent] += 1.0
        return Pick(drawn.agent, drawn.propensities)

    def learn(self, before: RoundContext, after: RoundOutcome) -> None:
        """Read rewards like the live router, then call ``Engine.learn``."""
        drawn = self._made.pop(before.t).drawn
        self._waiting[self._rows, drawn.agent] -= 1.0
        outcomes = after.outcomes()
        reward = read_rows(self.engine.settings.reward, self.parts["reward"], drawn.agent, outcomes=outcomes)
        reward = self.engine.completion.take_rows(self.parts["completion"], drawn.agent, outcomes, reward=reward)
        learned = Details(_shown(self.engine.alignment, after, outcomes), after.cost_usd, truth=after.truth)
        if self.engine.accounts:
            completed = np.array([outcome.event for outcome in outcomes])
            learned = replace(
                learned,
                elapsed_s=after.elapsed_s,
                completed=completed,
                estimate=drawn.choice.estimate,
                price=self._price,
            )
        self.engine.learn(self.parts, self._names, pipeline.bandit_feedback(drawn, reward), learned=learned)

    def patience(self, before: RoundContext, agent: int, *, deadline_s: float, rule: PatienceRule = "learned") -> float:
        """See :meth:`bot_orch.Orchestrator.patience`."""
        estimate = self._made[before.t].drawn.choice.estimate[0]
        others = np.ones(len(self._names), dtype=bool) if before.eligible is None else before.eligible[0]
        state = row_views(self.parts["completion"], (0,))
        return patience_share(state, estimate, agent, others=others, deadline_s=deadline_s, rule=rule)


def reads_features(policy: Policy) -> bool:
    """Whether a policy uses features.

    Examples
    --------
    >>> from bot_orch.policies.registry import make_policy
    >>> reads_features(make_policy("linucb")), reads_features(make_policy("ucb1"))
    (True, False)
    """
    return bool(policy.schema(1) != policy.schema(0))


def _constraints(setup: Setup) -> tuple[Constraint, ...]:
    return (Budget(setup.budget_usd),) if setup.has_cost and setup.budget_usd is not None else ()


def alignment_for(setup: Setup) -> Alignment | None:
    """Choose the alignment from what the data set contains; None if it has no outputs.

    Times are compared with a latency target if there is one, else embeddings with those of the tasks' references, else
    labels with the rewarded labels of the other agents.
    """
    if setup.has_time and setup.latency_target_s is not None:
        return Alignment.to_latency(setup.latency_target_s)
    if setup.output_dim and setup.output_dim == setup.reference_dim:
        return Alignment.for_measure(Cloud(np.zeros((1, setup.output_dim))))
    if setup.labels:
        return Alignment(ZeroOneLabels(setup.labels), reference=Reference("accepted"))
    return None


def _embedded(alignment: Alignment, reference: Floats | None) -> Floats | None:
    """Embedded references of one point each; NaN rows for tasks without one."""
    if reference is None or alignment.reference.source != "task":
        return None
    known: Bools = finite_rows(reference)
    found = alignment.geometry.embed_outcome(np.where(known[:, None], reference, 0.0))
    return np.where(known[:, None], found, np.nan)


def _shown(alignment: Alignment | None, after: RoundOutcome, outcomes: Sequence[Outcome]) -> Floats | None:
    """The outputs to compare by the alignment's geometry, ``(1, seeds) + outcome_shape``."""
    if alignment is None:
        return None
    if isinstance(alignment.geometry, Lateness):
        shown = [alignment.outcomes_of(outcome) for outcome in outcomes]
        return np.array([[np.nan if each is None else each[0] for each in shown]])
    values = after.output if alignment.reference.source == "task" else after.probs
    if values is None:
        return None
    there = np.array([outcome.event for outcome in outcomes])
    return np.where(there[:, None], values, np.nan)[None]


@dataclass(frozen=True, slots=True, eq=False)
class ReplayTrace:
    """The agents chosen and the rewards learned, ``(rounds, seeds)``; propensities if kept."""

    agent: Ints
    learned: Floats
    propensities: Floats | None = None


def play(player: Player, replay: Replay, *, keep_propensities: bool = False) -> ReplayTrace:
    """Play every round: read the context, choose, see the outcome of the chosen agent, learn.

    Examples
    --------
    >>> from bot_orch.lab.environments.matrix.model import Matrix
    >>> from bot_orch.policies.registry import make_policy
    >>> replay = Replay(Matrix("toy", ("a", "b"), np.tile([0.1, 0.9], (200, 1))), seeds=range(3))
    >>> trace = play(PolicyPlayer(make_policy("thompson-beta"), replay.setup), replay)
    >>> bool(trace.agent.mean() > 0.8)
    True
    """
    shape = (replay.rounds, len(replay.seeds))
    agents, learned = np.empty(shape, dtype=np.int64), np.full(shape, np.nan)
    kept = np.full((*shape, replay.matrix.n_agents), np.nan) if keep_propensities else None
    due: dict[int, list[tuple[RoundContext, RoundOutcome]]] = {}
    gone: dict[int, list[RoundContext]] = {}
    for t in range(replay.rounds):
        if t in replay.restarts:
            player = player.restarted()
        before = replay.before(t)
        pick = player.choose(before, replay.draws(t))
        after, late = replay.after(t, pick.agent, pick.audit), replay.lateness(t, pick.agent)
        if late is None:
            gone.setdefault(t + replay.gives_up, []).append(before)
        else:
            due.setdefault(t + late, []).append((before, after))
        for earlier, outcome in due.pop(t, ()):
            player.learn(earlier, outcome)
        for earlier in gone.pop(t, ()):
            player.forget(earlier)
        agents[t], learned[t] = pick.agent, after.reward
        if kept is not None and pick.propensities is not None:
            kept[t] = pick.propensities
    return ReplayTrace(agents, learned, kept)


@dataclass(frozen=True, slots=True)
class ClaimThreshold(Policy):
    """The agent with the largest claim if it reaches ``threshold``, else a random agent without a claim.

    It learns nothing. Where every eligible agent makes a claim, the largest counts; where none does, all are equal.

    Examples
    --------
    >>> rule, claims = ClaimThreshold(0.9), np.array([[0.95, np.nan], [0.6, np.nan]])
    >>> rule.choose({}, Situation(1, np.zeros((2, 2)), claims=claims)).propensities
    array([[1., 0.],
           [0., 1.]])
    """

    threshold: float = 0.9
    id: ClassVar[str] = "claim-threshold"
    uses_alignment: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise InvalidInputError("threshold", f"is {self.threshold}", "pass a probability in [0, 1]")

    def schema(self, n_features: int) -> Schema:
        """No state."""
        return {}

    def choose(self, state: Arrays, situation: Situation) -> Choice:
        """Certain, except among equals."""
        claims = np.full_like(situation.penalty, np.nan) if situation.claims is None else situation.claims
        value = np.where(np.isnan(claims), np.nextafter(self.threshold, -1.0), claims)  # a claim of 0.9 reaches 0.9
        return Choice(argmax_ties(value, situation.eligible), value, no_exploration(value))

    def update(self, state: Arrays, feedback: Feedback) -> None:
        """Do nothing: the rule does not learn."""
