"""The engine: decision and learning steps, for one live router or for a batch of seeds.

The library, the arena, the paper's experiments, off-policy evaluation and the service all use it. State is a
dictionary of named arrays (*parts*) with leading batch dimensions; the engine itself holds only settings.

A decision is *prepared* (without side effects), optionally recorded, then *committed*; its outcome is *learned* later.
Committing depends only on the decision itself, so a recorded decision of an older engine can be committed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from bot_orch.arrays import Arrays, Bools, Floats, Ints, Schema, allocate, chosen_entries
from bot_orch.core import cascade, pipeline
from bot_orch.core.alignment import Alignment, Watch
from bot_orch.core.alignment.audits import Audits
from bot_orch.core.alignment.dual import AutoLambda
from bot_orch.core.alignment.evidence import with_comparison
from bot_orch.core.completion.model import Completion
from bot_orch.core.constraints.limits import Budget, Deadline, FirstToken, Objective, Quality
from bot_orch.core.constraints.pacing import Means, Pacing, PacingPlan, Used, paced
from bot_orch.core.constraints.prices import Prices
from bot_orch.core.constraints.times import Seconds, lateness
from bot_orch.core.context import with_context
from bot_orch.core.restarts import Restarts, with_probation
from bot_orch.core.settings import Settings, fitted
from bot_orch.core.text import dense
from bot_orch.core.warm import Evaluations
from bot_orch.numerics.choice import mixed_draw
from bot_orch.policies.base import Choice, Feedback, Policy, Situation
from bot_orch.policies.uniform import Uniform
from bot_orch.types import Measure, RewardRange, Task

#: Version of the decision logic: it changes whenever the same events would give different decisions. Logs record it.
ENGINE = "7"

Parts = dict[str, Arrays]


# The values of one round are not frozen: that would take longer than the policy. They are not changed.


@dataclass(slots=True, eq=False)
class Observation:
    """Information available before the choice in round ``t`` (from 1).

    Parameters
    ----------
    cost
        Agents' configured costs on the unit scale of rewards, ``batch + (M,)``.
    context
        Features, ``batch + (d,)``.
    eligible
        Mask of eligible agents, ``batch + (M,)``; None means all.
    reference
        Embedded references of the tasks, ``batch + (q,)``; NaN rows for tasks without one.
    profiles
        Embedded profiles known in advance, ``batch + (M, q)``; NaN rows where unknown.
    distance
        Precomputed distances, ``batch + (M,)``, for :class:`~bot_orch.core.alignment.GivenDistances`.
    pending
        Number of decisions per agent without an outcome, ``batch + (M,)``.
    claims
        Probability of being right that each agent states of itself, ``batch + (M,)``; NaN where it states none.
    free
        Whether ``cost`` is known to be zero for every agent.
    price
        Agents' configured prices in dollars per call, ``(M,)``; NaN where there is none.
    names
        Names of the agents, for constraints on one of them.
    time_s
        Time of the task, for a quota.
    """

    t: int
    cost: Floats
    context: Floats | None = None
    _: KW_ONLY
    eligible: Bools | None = None
    reference: Floats | None = None
    profiles: Floats | None = None
    distance: Floats | None = None
    pending: Floats | None = None
    claims: Floats | None = None
    free: bool = False
    price: Floats | None = None
    names: tuple[str, ...] = ()
    time_s: float | None = None


@dataclass(slots=True, eq=False)
class Proposal:
    """A decision per batch element before it is committed: agent, propensities and score terms.

    ``multipliers`` are those of the constraints, ``batch + (K,)``; their penalties are part of ``cost``.
    """

    drawn: pipeline.Draw
    distance: Floats
    alignment: Floats
    cost: Floats
    lambda_: Floats
    bias: Floats | None = None
    multipliers: Floats | None = None


@dataclass(slots=True, eq=False)
class Details:
    """Outcome data other than the reward, one entry per batch element; NaN where missing.

    Parameters
    ----------
    raw
        Observed outputs, ``(K,) + batch + outcome_shape``.
    cost_usd
        Cost in dollars, ``batch``.
    truth
        Rewards by audit, ``batch``; they replace the judge's.
    output_known
        Whether the outputs were learned before, by :meth:`Engine.see_outputs`.
    elapsed_s, completed
        Time until the outcome, and whether it was a completion, ``batch``.
    estimate
        The policy's estimates when it decided, ``batch + (M,)``.
    price
        As in :class:`Observation`.
    earlier
        What was learned before of these decisions, if the outcome replaces an earlier one.
    first_token_s
        Time until the first token of the answer, ``batch``.
    usage_known
        Whether dollars and times were learned before, by :meth:`Engine.see_usage`.
    reset_s
        Seconds until the next window of the agent's quota.
    """

    raw: Floats | None = None
    cost_usd: Floats | None = None
    _: KW_ONLY
    truth: Floats | None = None
    output_known: bool = False
    elapsed_s: Floats | None = None
    completed: Bools | None = None
    estimate: Floats | None = None
    price: Floats | None = None
    earlier: Details | None = None
    first_token_s: Floats | None = None
    usage_known: bool = False
    reset_s: Floats | None = None


@dataclass(frozen=True)
class Engine:
    """Decision and learning steps for given settings; every call receives the state.

    Examples
    --------
    >>> from bot_orch import make_policy
    >>> engine = Engine(Settings(make_policy("ucb1"), floor=0.0))
    >>> parts = engine.start(2, batch=(3,))
    >>> round_ = Observation(1, cost=np.zeros((3, 2)))
    >>> prepared = engine.prepare(parts, round_, np.array([0.1, 0.6, 0.9]))
    >>> prepared.drawn.agent
    array([0, 1, 1])
    """

    settings: Settings

    @cached_property
    def policy(self) -> Policy:
        """The policy, with prepared features if it reads any."""
        s = self.settings
        numbers = (s.n_features or 0) + (0 if s.text is None or s.words else s.text.width)
        return with_context(s.policy, numbers=numbers, words=s.words)

    @cached_property
    def rewards(self) -> RewardRange:
        """The range of the rewards; the state is on the unit scale, settings are in units of reward."""
        return self.settings.reward.range

    @cached_property
    def weights(self) -> Objective:
        """The objective for rewards on the unit scale: dollars and seconds count for less of a wide range."""
        weights = self.settings.weights
        return weights if self.rewards.is_unit else replace(weights, quality=weights.quality * self.rewards.width)

    @cached_property
    def alignment(self) -> Alignment | None:
        """The learned alignment; None without alignment or with given distances."""
        found = self.settings.alignment
        return found if isinstance(found, Alignment) else None

    @cached_property
    def dual(self) -> AutoLambda | None:
        """The dual variable if lambda is ``auto``, else None."""
        return AutoLambda() if self.settings.lambda_ == "auto" else None

    @cached_property
    def prices(self) -> Prices:
        """Model of the expected dollars per call."""
        s = self.settings
        wanted = any(isinstance(each, Budget | Quality) for each in s.constraints)
        return Prices(self.weights.per_usd, s.context_width, wanted)

    @cached_property
    def seconds(self) -> Seconds | None:
        """Model of the expected seconds per call, if the objective has a weight for them."""
        return Seconds() if self.weights.per_second else None

    @cached_property
    def first_token(self) -> Seconds | None:
        """Model of the expected seconds until the first token, if the objective has a weight for them."""
        return Seconds() if self.weights.per_first_second else None

    @cached_property
    def pacing(self) -> Pacing | None:
        """The dual variables of the constraints; None without constraints."""
        s = self.settings
        return Pacing(s.constraints, bool(s.context_width)) if s.constraints else None

    @cached_property
    def accounts(self) -> bool:
        """Whether dollars, seconds or constraints are used; if not, they cost no time."""
        timed = self.seconds is not None or self.first_token is not None
        limited = self.pacing is not None or self.settings.guarantee is not None
        return timed or bool(self.prices.schema) or limited

    @cached_property
    def breaks_ties(self) -> bool:
        """Whether prices break ties because dollars have no other effect; never for uniform choice."""
        return not self.prices.schema and not isinstance(self.settings.policy, Uniform)

    @cached_property
    def completion(self) -> Completion:
        """The model of outcomes without a reward."""
        return Completion(self.settings.patience_s)

    @cached_property
    def audits(self) -> Audits:
        """Model of the judge's bias."""
        return Audits(self.settings.audit_rate)

    @cached_property
    def restarts(self) -> Restarts:
        """Restarts of agents by drift alarms."""
        return Restarts(self.settings.on_alarm == "restart")

    @cached_property
    def schemas(self) -> dict[str, Schema]:
        """State schemas by part: policy, reward, completion, optional models and alignment."""
        s = self.settings
        parts: dict[str, Schema] = {"policy": self.policy.schema(s.context_width), "reward": s.reward.schema}
        parts["completion"] = self.completion.schema
        if self.dual is not None:
            parts["lambda"] = self.dual.schema
        if self.prices.schema:
            parts["prices"] = self.prices.schema
        if self.audits.rate:
            parts["audits"] = self.audits.schema
        if self.restarts.wanted:
            parts["restarts"] = self.restarts.schema
        if self.seconds is not None:
            parts["seconds"] = self.seconds.schema
        if self.first_token is not None:
            parts["first token"] = self.first_token.schema
        if self.pacing is not None:
            parts |= self.pacing.schemas
        if s.team:
            parts["cascade"] = cascade.SCHEMA
        if s.guarantee is not None:
            parts["guarantee"] = s.guarantee.schema
        return parts | (self.alignment.schemas if self.alignment is not None else {})

    def start(self, n_agents: int, batch: tuple[int, ...] = ()) -> Parts:
        """Initial state for ``n_agents`` agents."""
        return {name: allocate(schema, batch, n_agents) for name, schema in self.schemas.items()}

    def resume(self, learned: Parts, n_agents: int) -> Parts:
        """Initial state overwritten with the arrays of ``learned``, for parts that this engine has.

        A drift test with another number of outcomes starts again. Where tasks have more features than before, policy
        and prices say what they keep.
        """
        parts = {
            name: part | ({} if _other_test(part, learned.get(name, {})) else learned.get(name, {}))
            for name, part in self.start(n_agents).items()
        }
        if "prices" in parts:
            fresh = allocate(self.schemas["prices"], (), n_agents)
            parts["prices"] = self.prices.adopt(fresh, learned.get("prices", {}))
        fresh = allocate(self.schemas["policy"], (), n_agents)
        return {**parts, "policy": self.policy.adopt(fresh, learned.get("policy", {}))}

    def choosing(self, measure: Measure | None) -> Engine:
        """The engine itself, or a copy with the default alignment for the type of ``measure`` if it has none yet."""
        if measure is None or self.alignment is not None:
            return self
        chosen = Alignment.for_measure(measure, self.settings.chosen_units())
        if self.restarts.wanted:
            chosen = replace(chosen, watch=Watch())
        return Engine(replace(self.settings, alignment=chosen))

    def for_task(self, task: Task, *, first: bool) -> Engine:
        """The engine, adapted to what the first task brings: features, text, kind of reference."""
        found = self.choosing(task.reference)
        settings = fitted(found.settings, task, first=first)
        return found if settings is found.settings else Engine(settings)

    def comparing(self, name: str, measure: Measure | None) -> Engine:
        """Like :meth:`choosing`, but raise an error on ``name`` if the measure does not fit the alignment."""
        found = self.choosing(measure)
        if found.alignment is not None:
            found.alignment.check(name, measure)
        return found

    def prepare(
        self,
        parts: Parts,
        o: Observation,
        u: npt.ArrayLike,
        *,
        steps: bool = False,
        choose: cascade.Chooser | None = None,
    ) -> Proposal:
        """Choose an agent per batch element without side effects; ``u`` in [0, 1) is the only source of randomness.

        ``steps``: further agents may be asked before an answer is delivered, so that the control share of a guarantee
        is drawn then. ``choose`` decides a step of such a round in place of the policy.
        """
        found = self._prepare(parts, o, u, choose)
        guarantee = self.settings.guarantee
        if guarantee is None or choose is not None or (steps and guarantee.serves_others(parts["guarantee"]).all()):
            return found
        index = o.names.index(guarantee.baseline)
        estimate, before = found.drawn.choice.estimate, found.drawn.propensities
        p = guarantee.restrict(parts["guarantee"], before, index, estimate=estimate, eligible=o.eligible)
        p, agent = mixed_draw(p, u)
        return replace(found, drawn=replace(found.drawn, agent=agent, propensities=p))

    def _prepare(
        self, parts: Parts, o: Observation, u: npt.ArrayLike, choose: cascade.Chooser | None = None
    ) -> Proposal:
        cost = self._cost(parts, o) if self.accounts else o.cost
        distance, alignment, lambda_ = self._aligned(parts, o)
        priced = None if (o.free and cost is o.cost) or not np.count_nonzero(cost) else cost
        penalty = alignment if priced is None else alignment + cost
        bias = self.audits.bias(parts["audits"], distance) if self.audits.rate else None
        if bias is not None:
            penalty = penalty + bias
        policy, floor = self.policy, self.settings.floor
        price = o.price if self.breaks_ties else None
        if self.pacing is None:
            situation = Situation(o.t, penalty, o.eligible, o.context, o.pending, priced, o.claims)
            if choose is not None:
                drawn = pipeline.drawn(choose(penalty, o.eligible), situation, u)
                return Proposal(drawn, distance, alignment, cost, lambda_, bias)
            mix = self._mixing(parts, lambda_) if self._mixes else None
            drawn = pipeline.decide(policy, parts["policy"], situation, u=u, floor=floor, mix=mix, price=price)
            return Proposal(drawn, distance, alignment, cost, lambda_, bias)
        plan = self._plan(self.pacing, parts, o)
        situation = Situation(o.t, penalty + plan.penalty, plan.eligible, o.context, o.pending, priced, o.claims)
        drawn, per_usd = paced(policy, parts["policy"], situation, plan=plan, u=u, price=price)
        paid = np.asarray(cost + plan.penalty)
        if per_usd is not None and plan.quality is not None:
            paid = np.asarray(paid + per_usd[..., None] * plan.quality.dollars)
        if choose is not None:  # among the agents that the limits can afford, at the price of their dollars
            drawn = pipeline.drawn(choose(penalty - cost + paid, plan.eligible), situation, u)
        return Proposal(drawn, distance, alignment, paid, lambda_, bias, self.pacing.natural(plan, per_usd))

    def commit(
        self,
        parts: Parts,
        o: Observation,
        agent: Ints,
        *,
        alignment: Floats,
        lambda_: Floats | float,
        choice: Choice | None = None,
    ) -> None:
        """Update the state after agents were chosen with these alignment costs and this lambda.

        Constraints also need ``choice``: propensities, estimates and exploration bonuses.
        """
        if self._commits_nothing and o.distance is None:
            return
        if self.restarts.wanted:
            self.restarts.pass_round(parts, o.t)
        if self.pacing is not None and choice is not None:
            plan = self._plan(self.pacing, parts, o) if self.pacing.plans_commits else None
            base = alignment + self._cost(parts, o)
            self.pacing.commit(parts, plan, choice, base=base, agent=agent, eligible=o.eligible, time_s=o.time_s)
        if self.alignment is not None:
            self.alignment.see_task(parts, o.reference, o.t - 1)
        measured = self.alignment is not None or o.distance is not None
        if measured and self.dual is not None and np.count_nonzero(alignment):  # usually all zero: no update
            paid = chosen_entries(alignment, agent)
            if paid.any():
                self.dual.accept(parts["lambda"], np.divide(paid, lambda_))

    def learn(
        self,
        parts: Parts,
        names: Sequence[str],
        feedback: Feedback,
        *,
        learned: Details,
        replaces: tuple[Feedback, float] | None = None,
    ) -> bool:
        """Update the state with the outcomes of one round; returns whether an alarm restarted an agent.

        ``replaces`` is an earlier lesson and its position.
        """
        if self.accounts:
            earlier = None if replaces is None else replaces[0]
            self._learn_usage(parts, names, feedback, learned=learned, earlier=earlier)
        judge, policy = feedback, self.policy
        if learned.truth is not None:
            feedback = pipeline.with_reward(feedback, learned.truth)
        restarted = False
        if self.alignment is not None and learned.raw is not None:
            reward = _earned(feedback)
            restarted = self._see(parts, names, feedback.agent, reward=reward, t=feedback.t, learned=learned)
        if replaces is not None and not policy.can_revise:
            replaces = None
        if self.restarts.wanted or self.audits.rate:
            revises, fresh = replaces is not None, self.restarts.fresh(parts, feedback.agent, feedback.t)
            if not fresh.all():
                feedback, judge, replaces = pipeline.only(feedback, fresh), pipeline.only(judge, fresh), None
            self._count(parts, judge, feedback, truth=learned.truth, fresh=fresh, again=revises)
        if replaces is not None:
            old, position = replaces
            policy.revise(parts["policy"], old, feedback, position=position)
            return restarted
        if feedback.earned is not None:  # the usual case
            policy.update(parts["policy"], feedback)
        else:
            pipeline.apply(policy, parts["policy"], feedback)
        return restarted

    def account(
        self,
        parts: Parts,
        names: Sequence[str],
        agent: Ints,
        *,
        propensities: Floats,
        estimate: Floats,
        reward: Floats,
        before: Floats | None = None,
    ) -> None:
        """Count a round for the guarantee; ``before`` is the reward counted for it earlier, NaN for none."""
        guarantee = self.settings.guarantee
        if guarantee is None or guarantee.baseline not in names:
            return
        index, part = names.index(guarantee.baseline), parts["guarantee"]
        guarantee.count(part, index, agent, propensities=propensities, estimate=estimate, reward=reward, before=before)

    def see_outputs(self, parts: Parts, names: Sequence[str], agent: Ints, *, raw: Floats, t: int) -> bool:
        """Learn outputs of round ``t`` (from 1) before their rewards; returns whether an agent was started afresh."""
        nothing = np.full(np.shape(agent), np.nan)
        return self._see(parts, names, agent, reward=nothing, t=t, learned=Details(raw))

    def see_usage(self, parts: Parts, agent: Ints, learned: Details, *, context: Floats | None) -> None:
        """Learn dollars and times before the outcomes are known; limits are charged with the outcomes."""
        if self.pacing is not None:
            self.pacing.see_late(parts, agent, self._usage(None, learned).late)
        self._learn_means(parts, agent, learned, context=self._fitting(context))

    def charge(
        self, parts: Parts, names: Sequence[str], agent: Ints, learned: Details, *, context: Floats | None
    ) -> None:
        """Charge the limits with an answer beside the first one of its task, whose usage was learned before."""
        if self.pacing is None:
            return
        means, usage = (
            self._means(parts, self._fitting(context), learned.price, names=names),
            self._usage(None, learned),
        )
        self.pacing.learn(parts, agent, means, usage=usage, estimate=None, before=None, seen=True)

    def see_evaluations(self, parts: Parts, given: Evaluations) -> None:
        """Learn the rewards of evaluations for a constraint of quality, and the dollars that their answers cost."""
        if self.pacing is not None and self.pacing.frugality is not None:
            self.pacing.frugality.teach(parts["evidence"], given.rewards, given.weight)
        paid = (given.answers or {}).get("cost_usd")
        if paid is None:
            return
        for row, agent in np.argwhere(np.isfinite(paid) & (np.asarray(given.weight) > 0.0)[:, None]):
            context = None if given.features is None else given.features[row]
            learned = Details(cost_usd=np.asarray(paid[row, agent]))
            self._learn_means(parts, np.array(agent), learned, context=self._fitting(context))

    def expected_usage(self, parts: Parts, price: Floats | None) -> dict[str, Floats]:
        """Mean dollars, times and shares of late outcomes, ``batch + (M,)`` each, where they are used."""
        found: dict[str, Floats] = {}
        if "prices" in parts:
            found["usd"] = self.prices.means(parts["prices"], price)
        if self.seconds is not None:
            found["seconds"] = self.seconds.means(parts["seconds"])
        if self.first_token is not None:
            found["first_token_s"] = self.first_token.means(parts["first token"])
        return found if self.pacing is None else found | self.pacing.expected_late(parts)

    def compare(self, parts: Parts, agent: Ints, t: int, *, judge: Floats, truth: Floats) -> None:
        """Learn the second of two verdicts on outcomes of round ``t``: the judge's after the truth, or the reverse."""
        fresh = self.restarts.fresh(parts, agent, t)
        self.audits.compare(parts["audits"], agent, judge=np.where(fresh, judge, np.nan), truth=truth)

    def _see(
        self, parts: Parts, names: Sequence[str], agent: Ints, *, reward: Floats, t: int, learned: Details
    ) -> bool:
        if self.alignment is None or learned.raw is None:
            return False
        known = learned.output_known
        alarms = self.alignment.see_outputs(
            parts, names, agent, raw=learned.raw, reward=reward, round_=t - 1, known=known
        )
        if not (self.restarts.wanted and alarms.any()):
            return False
        self.restarts.restart(parts, self.schemas, agent, alarms=alarms)
        return True

    def _count(
        self, parts: Parts, judge: Feedback, feedback: Feedback, *, truth: Floats | None, fresh: Bools, again: bool
    ) -> None:
        """Count rewards unless they were counted before (``again``), and compare both verdicts where known."""
        if not again:
            self.restarts.count(parts, feedback.observed)
        if self.audits.rate:
            agent = feedback.agent
            reward = _earned(judge)
            found = np.full(np.shape(agent), np.nan) if truth is None else np.where(fresh, truth, np.nan)
            self.audits.count(parts["audits"], agent, reward=reward, truth=found, again=again)
            self.audits.compare(parts["audits"], agent, judge=reward, truth=found)

    @cached_property
    def _fixed_lambda(self) -> Floats:
        """A fixed lambda for rewards on the unit scale."""
        return np.asarray(np.array(self.settings.lambda_, dtype=float) / self.rewards.width)

    @cached_property
    def _commits_nothing(self) -> bool:
        """Whether no part of the state depends on choices, unless distances are given."""
        return self.alignment is None and self.pacing is None and not self.restarts.wanted

    @cached_property
    def _mixes(self) -> bool:
        """Whether anything may change the policy's propensities."""
        return self.restarts.wanted or (self.alignment is not None and self.alignment.compares_agents)

    def _mixing(self, parts: Parts, lambda_: Floats) -> Callable[..., Floats] | None:
        """The function that changes the policy's propensities: for unchallenged leaders and restarted agents."""
        counts = self.alignment is not None and self.alignment.compares_agents and np.count_nonzero(lambda_) > 0
        alone = self.alignment.starving(parts) if self.alignment is not None and counts else None
        new = self.restarts.on_probation(parts)
        if new is None:
            return None if alone is None else partial(with_comparison, alone=alone)
        if alone is None:
            return partial(with_probation, new=new)
        return lambda p, eligible: with_probation(with_comparison(p, alone, eligible), new, eligible)

    def _cost(self, parts: Parts, o: Observation) -> Floats:
        """Configured costs plus expected dollars and seconds, in units of reward, ``batch + (M,)``."""
        cost, weights = o.cost, self.weights
        if weights.usd:
            dollars = self.prices.dollars(parts["prices"], self._dense(o.context), o.price)
            cost = np.asarray(cost + weights.per_usd * dollars)
        if self.seconds is not None:
            cost = np.asarray(cost + weights.per_second * self.seconds.means(parts["seconds"]))
        if self.first_token is not None:
            cost = np.asarray(cost + weights.per_first_second * self.first_token.means(parts["first token"]))
        return cost

    def _means(self, parts: Parts, context: Floats | None, price: Floats | None, *, names: Sequence[str]) -> Means:
        if "prices" not in parts:
            return Means(None, None, tuple(names))
        usual, dense_context = self.prices.means(parts["prices"], price), self._dense(context)
        dollars = self.prices.dollars(parts["prices"], dense_context, price, mean=usual)
        return Means(dollars, usual, tuple(names))

    def _plan(self, pacing: Pacing, parts: Parts, o: Observation) -> PacingPlan:
        means = self._means(parts, o.context, o.price, names=o.names)
        floor = self.settings.floor
        return pacing.plan(parts, means, eligible=o.eligible, pending=o.pending, floor=floor, time_s=o.time_s)

    def _learn_usage(
        self, parts: Parts, names: Sequence[str], feedback: Feedback, *, learned: Details, earlier: Feedback | None
    ) -> None:
        """Learn dollars and seconds of outcomes: first charge the constraints, then update the predictions.

        ``earlier`` is a lesson that ``feedback`` replaces; of what was charged for it, the difference is charged.
        """
        agent, context = np.asarray(feedback.agent), self._fitting(feedback.context)
        before = learned.earlier
        if self.pacing is not None:
            self.pacing.learn(
                parts,
                agent,
                self._means(parts, context, learned.price, names=names),
                usage=self._usage(feedback, learned),
                estimate=None if learned.estimate is None else chosen_entries(learned.estimate, agent),
                before=None if before is None else self._usage(earlier, before),
                seen=learned.usage_known,
            )
        if not learned.usage_known:
            self._learn_means(parts, agent, learned, context=context)

    def _learn_means(self, parts: Parts, agent: Ints, learned: Details, *, context: Floats | None) -> None:
        """Expected dollars and seconds of the next decision."""
        if "prices" in parts and learned.cost_usd is not None:
            self.prices.see(parts["prices"], agent, learned.cost_usd, context=self._dense(context), price=learned.price)
        if self.seconds is not None and learned.elapsed_s is not None:
            seen = None if learned.earlier is None else learned.earlier.elapsed_s
            self.seconds.see(parts["seconds"], agent, learned.elapsed_s, before=seen)
        if self.first_token is not None and learned.first_token_s is not None:
            self.first_token.see(parts["first token"], agent, learned.first_token_s)

    def _fitting(self, context: Floats | None) -> Floats | None:
        """The features, or None if they belong to a decision made before the features changed."""
        return None if context is None or context.shape[-1] != self.settings.context_width else context

    def _dense(self, context: Floats | None) -> Floats | None:
        """Features in the form that the price model reads."""
        return None if context is None else dense(context, self.settings)

    def _usage(self, feedback: Feedback | None, learned: Details) -> Used:
        """Usage of outcomes for the limits; unknown without feedback, dollars or time."""
        unknown = np.array(np.nan)
        reward = unknown if feedback is None else _earned(feedback)
        elapsed_s = unknown if learned.elapsed_s is None else learned.elapsed_s
        begun_s = unknown if learned.first_token_s is None else learned.first_token_s
        late = tuple(
            lateness(begun_s, None, each.seconds)
            if isinstance(each, FirstToken)
            else lateness(elapsed_s, learned.completed, each.seconds)
            if isinstance(each, Deadline)
            else unknown
            for each in self.settings.constraints
            if not isinstance(each, Quality)
        )
        return Used(reward, unknown if learned.cost_usd is None else learned.cost_usd, late, learned.reset_s)

    def _aligned(self, parts: Parts, o: Observation) -> tuple[Floats, Floats, Floats]:
        """Distances W, alignment costs and lambda."""
        dual = None if self.dual is None else parts["lambda"]
        lambda_: Floats = self._fixed_lambda.copy() if dual is None else dual["lambda"].copy()
        if self.alignment is None and o.distance is None:
            nothing = np.zeros(o.cost.shape)
            return nothing, nothing, lambda_
        counts = np.count_nonzero(lambda_) > 0
        if counts and self.alignment is None and o.distance is not None:
            return o.distance, lambda_[..., None] * o.distance, lambda_
        if self.alignment is None or not counts:
            nothing = np.zeros(o.cost.shape)
            return nothing, nothing, lambda_
        if self.dual is None or dual is None:
            distance = self.alignment.distances(parts, o.reference, o.profiles)
            return distance, lambda_ * distance, lambda_
        found = self.alignment.relative(parts, o.reference, o.profiles)
        return found.lower, self.dual.penalty(dual, self.dual.excess(found)), lambda_


def _other_test(part: Arrays, learned: Arrays) -> bool:
    """Whether ``learned`` is the state of a drift monitor of another size."""
    return "ring" in part and "ring" in learned and part["ring"].shape != learned["ring"].shape


def _earned(feedback: Feedback) -> Floats:
    """Rewards of the chosen agents, ``batch``; NaN where missing."""
    if feedback.earned is not None:
        return feedback.earned
    known = chosen_entries(feedback.observed, feedback.agent)
    return np.where(known, chosen_entries(feedback.reward, feedback.agent), np.nan)
